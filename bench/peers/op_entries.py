"""The probe's op list: real calls of PyTorch in the shapes that ACT, SmolVLA and PPO give them.

flops count 2 x multiply-adds of products; bytes count each distinct element of every input and output once. `calls` is how
often a step has about this shape (2 cameras, one sample per step, PPO 1,024 transitions): the weight of an entry.
"""

import math

import torch

aten = torch.ops.aten
BYTES = {torch.float32: 4, torch.bfloat16: 2, torch.int64: 8}
NAMES = {torch.float32: "f32", torch.bfloat16: "bf16"}
F32, BF16 = torch.float32, torch.bfloat16
ROTATE_BYTES, ROTATE_SETS = 64 << 20, 16


def copied(x):
    return [t.clone() for t in x] if isinstance(x, list) else x.clone()


class Entry:
    """make() -> operands; call(*operands) runs the op. launches: kernels that a CUDA library needs."""

    def __init__(self, cls, op, shape, dtype, make, call, flops, elements, calls, extra_bytes=0, launches=1):
        self.cls, self.op, self.shape, self.dtype = cls, op, shape, dtype
        self.make, self.call, self.calls, self.launches = make, call, calls, launches
        self.flops, self.bytes = flops, elements * BYTES[dtype] + extra_bytes
        self.sets, self.turn, self.samples = [], 0, []

    def prepare(self):
        """Several sets of operands, used in turn, so that no more of one is in a cache than in a step."""
        count = max(1, min(ROTATE_SETS, ROTATE_BYTES // max(1, self.bytes)))
        first = self.make()
        self.sets = [first] + [tuple(copied(x) for x in first) for _ in range(count - 1)]

    def run(self):
        self.turn = (self.turn + 1) % len(self.sets)
        self.call(*self.sets[self.turn])

    def work(self):
        return self.calls * (self.flops or self.bytes)


def entries(device, bf16):
    """All entries for a device; those in bf16 only where it is computed natively."""

    def rand(*shape, dtype=F32):
        return torch.randn(shape, device=device).to(dtype)

    out = []

    def add(*args, **kwargs):
        if args[3] is F32 or bf16:
            out.append(Entry(*args, **kwargs))

    products(add, rand)
    convolutions(add, rand)
    attention(add, rand)
    rows(add, rand)
    element_wise(add, rand)
    moves(add, rand, device)
    random_numbers(add, device)
    return out


def products(add, rand):
    for dtype, m, k, n, calls in (
        (F32, 602, 512, 512, 18), (F32, 602, 512, 3200, 4), (F32, 602, 3200, 512, 4), (F32, 102, 512, 512, 20),
        (F32, 102, 512, 3200, 5), (F32, 102, 3200, 512, 5), (F32, 1024, 198, 512, 1), (F32, 1024, 512, 256, 2),
    ):  # fmt: skip
        elements, shape = m * k + k * n + m * n, f"m{m} k{k} n{n}"
        add("gemm", "linear", shape, dtype, lambda m=m, k=k, n=n, d=dtype: (rand(n, dtype=d), rand(m, k, dtype=d), rand(n, k, dtype=d)),
            lambda b, x, w: torch.addmm(b, x, w.t()), 2 * m * k * n, elements + n, calls)  # fmt: skip
        add("gemm", "linear backward by input", shape, dtype, lambda m=m, k=k, n=n, d=dtype: (rand(m, n, dtype=d), rand(n, k, dtype=d)),
            torch.mm, 2 * m * k * n, elements, calls)  # fmt: skip
        add("gemm", "linear backward by weight", shape, dtype, lambda m=m, k=k, n=n, d=dtype: (rand(m, n, dtype=d), rand(m, k, dtype=d)),
            lambda g, x: torch.mm(g.t(), x), 2 * m * k * n, elements, calls)  # fmt: skip
    for m, k, n, calls, backward in (
        (1024, 768, 768, 96, ""), (1024, 768, 3072, 24, ""), (1024, 3072, 768, 24, ""), (145, 960, 2560, 32, "x"),
        (145, 2560, 960, 16, "x"), (145, 960, 960, 32, "x"), (50, 720, 2048, 32, "xw"), (50, 2048, 720, 16, "xw"),
    ):  # fmt: skip
        elements, shape = m * k + k * n + m * n, f"m{m} k{k} n{n}"
        add("gemm", "linear", shape, BF16, lambda m=m, k=k, n=n: (rand(m, k, dtype=BF16), rand(n, k, dtype=BF16)),
            lambda x, w: torch.mm(x, w.t()), 2 * m * k * n, elements, calls)  # fmt: skip
        if "x" in backward:
            add("gemm", "linear backward by input", shape, BF16, lambda m=m, k=k, n=n: (rand(m, n, dtype=BF16), rand(n, k, dtype=BF16)),
                torch.mm, 2 * m * k * n, elements, calls)  # fmt: skip
        if "w" in backward:
            add("gemm", "linear backward by weight", shape, BF16, lambda m=m, k=k, n=n: (rand(m, n, dtype=BF16), rand(m, k, dtype=BF16)),
                lambda g, x: torch.mm(g.t(), x), 2 * m * k * n, elements, calls)  # fmt: skip
    for dtype, b, m, k, n, calls in (
        (F32, 8, 602, 64, 602, 8), (F32, 8, 602, 602, 64, 16), (F32, 8, 102, 64, 102, 10), (F32, 15, 195, 64, 195, 24),
        (BF16, 15, 195, 195, 64, 24),
    ):  # fmt: skip
        add("bmm", "batched product", f"b{b} m{m} k{k} n{n}", dtype,
            lambda b=b, m=m, k=k, n=n, d=dtype: (rand(b, m, k, dtype=d), rand(b, k, n, dtype=d)),
            torch.bmm, 2 * b * m * k * n, b * (m * k + k * n + m * n), calls)  # fmt: skip


def convolutions(add, rand):
    for c, o, k, s, h, w, calls in (
        (3, 64, 7, 2, 480, 640, 2), (64, 64, 3, 1, 120, 160, 8), (64, 128, 3, 2, 120, 160, 2), (128, 128, 3, 1, 60, 80, 6),
        (128, 256, 3, 2, 60, 80, 2), (256, 256, 3, 1, 30, 40, 6), (256, 512, 3, 2, 30, 40, 2), (512, 512, 3, 1, 15, 20, 6),
        (512, 512, 1, 1, 15, 20, 2),
    ):  # fmt: skip
        p, ho, wo = k // 2, math.ceil(h / s), math.ceil(w / s)
        flops = 2 * ho * wo * o * c * k * k
        elements, shape = c * h * w + o * c * k * k + o * ho * wo, f"c{c} o{o} k{k} s{s} {h}x{w}"
        geometry = ([s, s], [p, p], [1, 1], False, [0, 0], 1)

        def operands(c=c, o=o, k=k, h=h, w=w):
            return rand(1, c, h, w), rand(o, c, k, k)

        def with_output(c=c, o=o, k=k, h=h, w=w, ho=ho, wo=wo):
            return rand(1, o, ho, wo), rand(1, c, h, w), rand(o, c, k, k)

        def backward(mask, geometry=geometry):
            return lambda g, x, weight: aten.convolution_backward(g, x, weight, None, *geometry, mask)

        add("conv", "convolution", shape, F32, operands, lambda x, weight, g=geometry: aten.convolution(x, weight, None, *g),
            flops, elements, calls)  # fmt: skip
        if c != 3:
            add("conv_bwd_data", "convolution backward by data", shape, F32, with_output, backward([True, False, False]), flops, elements, calls)
        add("conv_bwd_weights", "convolution backward by weights", shape, F32, with_output, backward([False, True, False]), flops, elements, calls)


def attention(add, rand):
    heads, tokens, width = 12, 1024, 64
    flops, elements = 4 * heads * tokens * tokens * width, 4 * heads * tokens * width
    for dtype, calls in ((BF16, 24), (F32, 1)):
        add("attention", "scaled_dot_product_attention", f"b1 h{heads} t{tokens} d{width}", dtype,
            lambda d=dtype: tuple(rand(1, tokens, heads, width, dtype=d).transpose(1, 2) for _ in range(3)),
            torch.nn.functional.scaled_dot_product_attention, flops, elements, calls, extra_bytes=4 * heads * tokens)  # fmt: skip


def rows(add, rand):
    """Norms and softmax: passes over rows."""
    for dtype, r, w, calls, back in ((F32, 602, 512, 8, 8), (F32, 102, 512, 12, 12), (BF16, 1024, 768, 50, 0)):
        add("norm", "layer_norm", f"{r}x{w}", dtype, lambda r=r, w=w, d=dtype: (rand(r, w, dtype=d), rand(w, dtype=d), rand(w, dtype=d)),
            lambda x, g, b, w=w: aten.native_layer_norm(x, [w], g, b, 1e-5), 0, 2 * r * w + 2 * w, calls, extra_bytes=8 * r)  # fmt: skip
        if back:
            def with_statistics(r=r, w=w, d=dtype):
                x, g, b = rand(r, w, dtype=d), rand(w, dtype=d), rand(w, dtype=d)
                _, mean, rstd = aten.native_layer_norm(x, [w], g, b, 1e-5)
                return rand(r, w, dtype=d), x, mean, rstd, g, b

            add("norm", "layer_norm backward", f"{r}x{w}", dtype, with_statistics,
                lambda dy, x, mean, rstd, g, b, w=w: aten.native_layer_norm_backward(dy, x, [w], mean, rstd, g, b, [True, True, True]),
                0, 3 * r * w + 3 * w, back, extra_bytes=8 * r)  # fmt: skip
    for b, t, calls in ((8, 602, 4), (8, 102, 5), (15, 195, 24)):
        n = b * t * t
        add("softmax", "softmax", f"{b}x{t}x{t}", F32, lambda b=b, t=t: (rand(b, t, t),), lambda x: aten._softmax(x, -1, False), 0, 2 * n, calls)
        add("softmax", "softmax backward", f"{b}x{t}x{t}", F32, lambda b=b, t=t: (rand(b, t, t), rand(b, t, t).softmax(-1)),
            lambda g, y: aten._softmax_backward_data(g, y, -1, F32), 0, 3 * n, calls)  # fmt: skip


def element_wise(add, rand):
    for c, h, w, calls in ((64, 240, 320, 2), (64, 120, 160, 8), (128, 60, 80, 10), (512, 15, 20, 10)):
        n, shape = c * h * w, f"{c}x{h}x{w}"
        for name, function in (("mul by channel", torch.mul), ("add by channel", torch.add)):
            add("elementwise", name, shape, F32, lambda c=c, h=h, w=w: (rand(1, c, h, w), rand(1, c, 1, 1)), function, 0, 2 * n + c, 2 * calls)
        add("elementwise", "relu in place", shape, F32, lambda c=c, h=h, w=w: (rand(1, c, h, w),), torch.relu_, 0, 2 * n, calls)
        add("elementwise", "relu backward", shape, F32, lambda c=c, h=h, w=w: (rand(1, c, h, w), rand(1, c, h, w)),
            lambda g, y: aten.threshold_backward(g, y, 0), 0, 3 * n, calls)  # fmt: skip
    for dtype, r, w, calls in ((F32, 602, 512, 40), (F32, 602, 3200, 8), (BF16, 145, 960, 100), (BF16, 145, 2560, 48)):
        add("elementwise", "mul", f"{r}x{w}", dtype, lambda r=r, w=w, d=dtype: (rand(r, w, dtype=d), rand(r, w, dtype=d)), torch.mul, 0, 3 * r * w, calls)
        add("elementwise", "add", f"{r}x{w}", dtype, lambda r=r, w=w, d=dtype: (rand(r, w, dtype=d), rand(r, w, dtype=d)), torch.add, 0, 3 * r * w, calls)
    add("elementwise", "gelu tanh", "1024x3072", BF16, lambda: (rand(1024, 3072, dtype=BF16),),
        lambda x: aten.gelu(x, approximate="tanh"), 0, 2 * 1024 * 3072, 24)  # fmt: skip
    add("elementwise", "silu", "145x2560", BF16, lambda: (rand(145, 2560, dtype=BF16),), aten.silu, 0, 2 * 145 * 2560, 16)
    add("elementwise", "elu", "1024x512", F32, lambda: (rand(1024, 512),), aten.elu, 0, 2 * 1024 * 512, 2)
    r, w = 512, 3200
    for name, function, operands, passes in (
        ("optimizer lerp in place", lambda a, b: a.lerp_(b, 0.1), 2, 3), ("optimizer mul in place", lambda a: a.mul_(0.999), 1, 2),
        ("optimizer addcmul in place", lambda a, b: a.addcmul_(b, b, value=0.001), 2, 3), ("optimizer sqrt", torch.sqrt, 1, 2),
        ("optimizer addcdiv in place", lambda a, b, c: a.addcdiv_(b, c, value=-1e-9), 3, 4),
    ):  # fmt: skip
        add("elementwise", name, f"{r}x{w}", F32, lambda k=operands: tuple(rand(r, w).abs_().add_(0.5) for _ in range(k)), function, 0, passes * r * w, 30)


def moves(add, rand, device):
    """Copies, pooling, reductions, gathers, list passes."""
    t, w = 602, 512
    add("copy", "clone of a transposed tensor", f"{t}x8x64", F32, lambda: (rand(8, t, 64).transpose(0, 1),),
        lambda x: x.clone(memory_format=torch.contiguous_format), 0, 2 * t * w, 20)  # fmt: skip
    add("copy", "stack of rows", f"{t} of {w}", F32, lambda: (list(rand(t, 1, w)),), torch.stack, 0, 2 * t * w, 2)
    add("copy", "cat", "145+50 of 960", BF16, lambda: ([rand(1, 145, 960, dtype=BF16), rand(1, 50, 960, dtype=BF16)],),
        lambda x: torch.cat(x, 1), 0, 2 * 195 * 960, 24)  # fmt: skip
    add("copy", "cast to bf16", "145x960", F32, lambda: (rand(145, 960),), lambda x: x.to(BF16), 0, 145 * 960, 150, extra_bytes=2 * 145 * 960)
    add("copy", "cast to f32", "145x960", BF16, lambda: (rand(145, 960, dtype=BF16),), lambda x: x.to(F32), 0, 145 * 960, 150, extra_bytes=4 * 145 * 960)
    add("copy", "zeros", f"{t}x{w}", F32, lambda: (), lambda: torch.zeros(t, w, device=device), 0, t * w, 10)
    c, h, wi = 64, 240, 320
    pooled = c * h * wi // 4
    add("pool", "max pool", f"{c}x{h}x{wi}", F32, lambda: (rand(1, c, h, wi),),
        lambda x: aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1]), 0, 4 * pooled + pooled, 2, extra_bytes=8 * pooled)  # fmt: skip

    def with_index():
        x = rand(1, c, h, wi)
        y, index = aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
        return torch.ones_like(y), x, index

    add("pool", "max pool backward", f"{c}x{h}x{wi}", F32, with_index,
        lambda g, x, i: aten.max_pool2d_with_indices_backward(g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, i),
        0, 5 * pooled, 2, extra_bytes=8 * pooled)  # fmt: skip
    add("pool", "bilinear resize", "3x480x640 to 384x512", F32, lambda: (rand(1, 3, 480, 640),),
        lambda x: aten.upsample_bilinear2d(x, [384, 512], False), 0, 3 * (480 * 640 + 384 * 512), 2)  # fmt: skip
    add("reduce", "sum over rows", "602x3200", F32, lambda: (rand(602, 3200),), lambda x: x.sum(0, True), 0, 602 * 3200, 4)
    add("reduce", "sum over rows", "602x512", F32, lambda: (rand(602, 512),), lambda x: x.sum(0, True), 0, 602 * 512, 30)
    add("reduce", "mean over heads", "8x602x602", F32, lambda: (rand(1, 8, 602, 602),), lambda x: x.mean(1), 0, 9 * 602 * 602, 4)
    add("reduce", "mean of rows", "145x960", F32, lambda: (rand(145, 960),), lambda x: x.mean(-1, True), 0, 145 * 960, 66)
    add("embedding", "gather of rows", "16 of 49280x960", F32,
        lambda: (rand(49280, 960), torch.randint(0, 49280, (16,), device=device)), lambda table, i: aten.embedding(table, i), 0, 2 * 16 * 960, 1)  # fmt: skip
    add("embedding", "gather of rows", "1024 of 4096x198", F32,
        lambda: (rand(4096, 198), torch.randperm(4096, device=device)[:1024]), lambda table, i: table[i], 0, 2 * 1024 * 198, 1)  # fmt: skip
    sizes = 12
    add("optimizer", "norms of a list", f"{sizes} of 512x3200", F32, lambda: ([rand(512, 3200) for _ in range(sizes)],), torch._foreach_norm,
        0, sizes * 512 * 3200, 1)  # fmt: skip
    add("optimizer", "scaling of a list", f"{sizes} of 512x3200", F32, lambda: ([rand(512, 3200) for _ in range(sizes)], torch.ones((), device=device)),
        torch._foreach_mul_, 0, 2 * sizes * 512 * 3200, 1)  # fmt: skip


def random_numbers(add, device):
    for shape, calls in (((602, 3200), 4), ((8, 602, 602), 4), ((602, 512), 8)):
        n, text = math.prod(shape), "x".join(map(str, shape))
        if device.type == "cuda":
            add("random", "fused dropout", text, F32, lambda s=shape: (torch.ones(s, device=device),),
                lambda x: aten.native_dropout(x, 0.1, True), 0, 2 * n, calls, extra_bytes=n)  # fmt: skip
        else:
            add("random", "bernoulli in place", text, F32, lambda s=shape: (torch.empty(s, device=device),),
                lambda x: x.bernoulli_(0.9), 0, n, calls)  # fmt: skip
    add("random", "normal", "50x32", F32, lambda: (), lambda: torch.randn(50, 32, device=device), 0, 50 * 32, 1)
