"""The probe's op list: real calls of PyTorch in the shapes that ACT, SmolVLA and PPO give them.

flops count 2 x multiply-adds of products; bytes count each distinct element of every input and output once. `calls` is
how often a step has about this shape (2 cameras, one sample per step; PPO: 1,024 transitions): the weight of an entry.
"""

import math

import torch

aten = torch.ops.aten
F32, BF16 = torch.float32, torch.bfloat16
BYTES = {F32: 4, BF16: 2}
NAMES = {F32: "f32", BF16: "bf16"}
ROTATE_BYTES, ROTATE_SETS = 64 << 20, 16


def copied(x):
    return [t.clone() for t in x] if isinstance(x, list) else x.clone()


class Entry:
    """One op in one shape. make() -> operands, call(*operands) runs it. launches: kernels that a CUDA library needs."""

    def __init__(self, cls, op, shape, dtype, make, call, flops, nbytes, calls):
        self.cls, self.op, self.shape, self.dtype = cls, op, shape, dtype
        self.make, self.call, self.flops, self.bytes, self.calls, self.launches = make, call, flops, nbytes, calls, 1
        self.sets, self.turn, self.samples, self.inner = [], 0, [], 1

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


class Entries(list):
    """Grows by `add`; entries in bf16 are left out where PyTorch does not compute it natively."""

    def __init__(self, device, bf16):
        super().__init__()
        self.device, self.bf16 = device, bf16

    def rand(self, *shape, dtype=F32):
        return torch.randn(shape, device=self.device).to(dtype)

    def add(self, cls, op, shape, dtype, operands, call, out=0, flops=0, calls=1, elements=None, more_bytes=0):
        """operands: shapes of random tensors, or a function that makes them (then `elements` counts theirs). out:
        elements written besides. more_bytes: what is not of `dtype`."""
        if dtype is BF16 and not self.bf16:
            return
        make = operands
        if not callable(operands):
            elements = sum(math.prod(s) for s in operands)

            def make():
                return tuple(self.rand(*s, dtype=dtype) for s in operands)

        nbytes = (elements + out) * BYTES[dtype] + more_bytes
        self.append(Entry(cls, op, shape, dtype, make, call, flops, nbytes, calls))


def entries(device, bf16):
    """All entries for a device."""
    all_of_them = Entries(device, bf16)
    for part in (
        linears,
        batched_products,
        convolutions,
        attention,
        norms,
        softmaxes,
        maps,
        rows,
        optimizer,
        copies,
        others,
        draws,
    ):
        part(all_of_them)
    return all_of_them


# ---- products ----
# dtype, rows, width in, width out, calls, backward by (x: input, w: weight)
LINEARS = (
    (F32, 602, 512, 512, 18, "xw"),
    (F32, 602, 512, 3200, 4, "xw"),
    (F32, 602, 3200, 512, 4, "xw"),
    (F32, 102, 512, 512, 20, "xw"),
    (F32, 102, 512, 3200, 5, "xw"),
    (F32, 102, 3200, 512, 5, "xw"),
    (F32, 1024, 198, 512, 1, "xw"),
    (F32, 1024, 512, 256, 2, "xw"),
    (BF16, 1024, 768, 768, 96, ""),
    (BF16, 1024, 768, 3072, 24, ""),
    (BF16, 1024, 3072, 768, 24, ""),
    (BF16, 145, 960, 2560, 32, "x"),
    (BF16, 145, 2560, 960, 16, "x"),
    (BF16, 145, 960, 960, 32, "x"),
    (BF16, 50, 720, 2048, 32, "xw"),
    (BF16, 50, 2048, 720, 16, "xw"),
)


def linears(e):
    for dtype, m, k, n, calls, backward in LINEARS:
        shape, work = f"m{m} k{k} n{n}", {"flops": 2 * m * k * n, "calls": calls}
        e.add("gemm", "linear", shape, dtype, [(m, k), (n, k)], lambda x, w: torch.mm(x, w.t()), out=m * n, **work)
        if "x" in backward:
            e.add("gemm", "linear backward by input", shape, dtype, [(m, n), (n, k)], torch.mm, out=m * k, **work)
        if "w" in backward:
            by_weight = [(m, n), (m, k)]
            call = lambda g, x: torch.mm(g.t(), x)  # noqa: E731
            e.add("gemm", "linear backward by weight", shape, dtype, by_weight, call, out=n * k, **work)


def batched_products(e):
    for dtype, b, m, k, n, calls in (
        (F32, 8, 602, 64, 602, 8),
        (F32, 8, 602, 602, 64, 16),
        (F32, 8, 102, 64, 102, 10),
        (F32, 15, 195, 64, 195, 24),
        (BF16, 15, 195, 195, 64, 24),
    ):
        shape, operands, flops = f"b{b} m{m} k{k} n{n}", [(b, m, k), (b, k, n)], 2 * b * m * k * n
        e.add("bmm", "batched product", shape, dtype, operands, torch.bmm, out=b * m * n, flops=flops, calls=calls)


# channels in, out, kernel, stride, height, width, calls
CONVOLUTIONS = (
    (3, 64, 7, 2, 480, 640, 2),
    (64, 64, 3, 1, 120, 160, 8),
    (64, 128, 3, 2, 120, 160, 2),
    (128, 128, 3, 1, 60, 80, 6),
    (128, 256, 3, 2, 60, 80, 2),
    (256, 256, 3, 1, 30, 40, 6),
    (256, 512, 3, 2, 30, 40, 2),
    (512, 512, 3, 1, 15, 20, 6),
    (512, 512, 1, 1, 15, 20, 2),
)


def convolutions(e):
    for c, o, k, s, h, w, calls in CONVOLUTIONS:
        geometry = ([s, s], [k // 2, k // 2], [1, 1], False, [0, 0], 1)
        image, weight, result = (1, c, h, w), (o, c, k, k), (1, o, math.ceil(h / s), math.ceil(w / s))
        shape = f"c{c} o{o} k{k} s{s} {h}x{w}"
        work = {"flops": 2 * math.prod(result) * c * k * k, "calls": calls}

        def forward(x, weight, geometry=geometry):
            return aten.convolution(x, weight, None, *geometry)

        def backward(mask, geometry=geometry):
            return lambda g, x, weight: aten.convolution_backward(g, x, weight, None, *geometry, mask)

        e.add("conv", "convolution", shape, F32, [image, weight], forward, out=math.prod(result), **work)
        for cls, op, mask in (
            ("conv_bwd_data", "convolution backward by data", [True, False, False]),
            ("conv_bwd_weights", "convolution backward by weights", [False, True, False]),
        ):
            if cls == "conv_bwd_data" and c == 3:
                continue  # no gradient of the image
            # reads two of the three operands and writes the third
            e.add(cls, op, shape, F32, [result, image, weight], backward(mask), **work)


def attention(e):
    heads, tokens, width = 12, 1024, 64
    for dtype, calls in ((BF16, 24), (F32, 1)):

        def operands(dtype=dtype):
            return tuple(e.rand(1, tokens, heads, width, dtype=dtype).transpose(1, 2) for _ in range(3))

        e.add(
            "attention", "scaled_dot_product_attention", f"b1 h{heads} t{tokens} d{width}", dtype, operands,
            torch.nn.functional.scaled_dot_product_attention, elements=4 * heads * tokens * width,
            flops=4 * heads * tokens * tokens * width, more_bytes=4 * heads * tokens, calls=calls,
        )  # fmt: skip


# ---- passes over rows ----
def norms(e):
    for dtype, r, w, calls, trained in (
        (F32, 602, 512, 8, True),
        (F32, 102, 512, 12, True),
        (BF16, 1024, 768, 50, False),
    ):
        shape, common = f"{r}x{w}", {"calls": calls, "more_bytes": 8 * r}

        def forward(x, g, b, w=w):
            return aten.native_layer_norm(x, [w], g, b, 1e-5)

        def operands(r=r, w=w, dtype=dtype, forward=forward):
            x, g, b = e.rand(r, w, dtype=dtype), e.rand(w, dtype=dtype), e.rand(w, dtype=dtype)
            return e.rand(r, w, dtype=dtype), x, *forward(x, g, b)[1:], g, b

        def backward(dy, x, mean, rstd, g, b, w=w):
            return aten.native_layer_norm_backward(dy, x, [w], mean, rstd, g, b, [True, True, True])

        e.add("norm", "layer_norm", shape, dtype, [(r, w), (w,), (w,)], forward, out=r * w, **common)
        if trained:
            e.add("norm", "layer_norm backward", shape, dtype, operands, backward, elements=3 * r * w + 3 * w, **common)


def softmaxes(e):
    for b, t, calls in ((8, 602, 4), (8, 102, 5), (15, 195, 24)):
        shape, size = f"{b}x{t}x{t}", (b, t, t)

        def operands(size=size):
            return e.rand(*size), e.rand(*size).softmax(-1)

        def backward(g, y):
            return aten._softmax_backward_data(g, y, -1, F32)

        e.add(
            "softmax", "softmax", shape, F32, [size], lambda x: aten._softmax(x, -1, False), out=b * t * t, calls=calls
        )
        e.add("softmax", "softmax backward", shape, F32, operands, backward, elements=3 * b * t * t, calls=calls)


# ---- element-wise ----
def maps(e):
    for c, h, w, calls in ((64, 240, 320, 2), (64, 120, 160, 8), (128, 60, 80, 10), (512, 15, 20, 10)):
        n, image, shape = c * h * w, (1, c, h, w), f"{c}x{h}x{w}"
        by_channel = [image, (1, c, 1, 1)]
        e.add("elementwise", "mul by channel", shape, F32, by_channel, torch.mul, out=n, calls=2 * calls)
        e.add("elementwise", "add by channel", shape, F32, by_channel, torch.add, out=n, calls=2 * calls)
        e.add("elementwise", "relu in place", shape, F32, [image], torch.relu_, out=n, calls=calls)
        threshold = lambda g, y: aten.threshold_backward(g, y, 0)  # noqa: E731
        e.add("elementwise", "relu backward", shape, F32, [image, image], threshold, out=n, calls=calls)


def rows(e):
    for dtype, r, w, calls in ((F32, 602, 512, 40), (F32, 602, 3200, 8), (BF16, 145, 960, 100), (BF16, 145, 2560, 48)):
        for name, function in (("mul", torch.mul), ("add", torch.add)):
            e.add("elementwise", name, f"{r}x{w}", dtype, [(r, w), (r, w)], function, out=r * w, calls=calls)
    for name, function, dtype, r, w, calls in (
        ("gelu tanh", lambda x: aten.gelu(x, approximate="tanh"), BF16, 1024, 3072, 24),
        ("silu", aten.silu, BF16, 145, 2560, 16),
        ("elu", aten.elu, F32, 1024, 512, 2),
    ):
        e.add("elementwise", name, f"{r}x{w}", dtype, [(r, w)], function, out=r * w, calls=calls)


def optimizer(e):
    """The calls of an AdamW step, tensor by tensor; and the passes over lists of gradient clipping."""
    r, w, listed = 512, 3200, 12
    for name, function, operands in (
        ("lerp in place", lambda a, b: a.lerp_(b, 0.1), 2),
        ("mul in place", lambda a: a.mul_(0.999), 1),
        ("addcmul in place", lambda a, b: a.addcmul_(b, b, value=0.001), 2),
        ("sqrt", torch.sqrt, 1),
        ("addcdiv in place", lambda a, b, c: a.addcdiv_(b, c, value=-1e-9), 3),
    ):

        def positive(count=operands):
            return tuple(e.rand(r, w).abs_().add_(0.5) for _ in range(count))

        elements = (operands + 1) * r * w
        e.add("elementwise", f"optimizer {name}", f"{r}x{w}", F32, positive, function, elements=elements, calls=30)
    shape, elements = f"{listed} of {r}x{w}", listed * r * w

    def tensors():
        return ([e.rand(r, w) for _ in range(listed)],)

    def tensors_and_factor():
        return *tensors(), torch.ones((), device=e.device)

    e.add("optimizer", "norms of a list", shape, F32, tensors, torch._foreach_norm, elements=elements)
    e.add("optimizer", "scaling of a list", shape, F32, tensors_and_factor, torch._foreach_mul_, elements=2 * elements)


# ---- the rest ----
def copies(e):
    t, w = 602, 512
    dense = lambda x: x.clone(memory_format=torch.contiguous_format)  # noqa: E731
    moved = {"elements": 2 * t * w}
    e.add(
        "copy",
        "clone of a transposed tensor",
        f"{t}x8x64",
        F32,
        lambda: (e.rand(8, t, 64).transpose(0, 1),),
        dense,
        calls=20,
        **moved,
    )
    e.add("copy", "stack of rows", f"{t} of {w}", F32, lambda: (list(e.rand(t, 1, w)),), torch.stack, calls=2, **moved)
    e.add(
        "copy",
        "zeros",
        f"{t}x{w}",
        F32,
        lambda: (),
        lambda: torch.zeros(t, w, device=e.device),
        elements=t * w,
        calls=10,
    )

    def parts():
        return ([e.rand(1, 145, 960, dtype=BF16), e.rand(1, 50, 960, dtype=BF16)],)

    e.add("copy", "cat", "145+50 of 960", BF16, parts, lambda x: torch.cat(x, 1), elements=2 * 195 * 960, calls=24)
    for name, dtype, other in (("cast to bf16", F32, BF16), ("cast to f32", BF16, F32)):
        size = 145 * 960
        e.add(
            "copy",
            name,
            "145x960",
            dtype,
            [(145, 960)],
            lambda x, o=other: x.to(o),
            more_bytes=BYTES[other] * size,
            calls=150,
        )


def others(e):
    """Pooling, reductions, gathers."""
    c, h, w = 64, 240, 320
    pooled, shape, window = c * h * w // 4, f"{c}x{h}x{w}", ([3, 3], [2, 2], [1, 1])

    def pool(x):
        return aten.max_pool2d_with_indices(x, *window)

    def with_index():
        x = e.rand(1, c, h, w)
        y, index = pool(x)
        return torch.ones_like(y), x, index

    def pool_backward(g, x, index):
        return aten.max_pool2d_with_indices_backward(g, x, *window, [1, 1], False, index)

    e.add("pool", "max pool", shape, F32, [(1, c, h, w)], pool, out=pooled, more_bytes=8 * pooled, calls=2)
    e.add(
        "pool",
        "max pool backward",
        shape,
        F32,
        with_index,
        pool_backward,
        elements=5 * pooled,
        more_bytes=8 * pooled,
        calls=2,
    )
    resize = lambda x: aten.upsample_bilinear2d(x, [384, 512], False)  # noqa: E731
    e.add(
        "pool", "bilinear resize", "3x480x640 to 384x512", F32, [(1, 3, 480, 640)], resize, out=3 * 384 * 512, calls=2
    )
    for name, shape, function, out, calls in (
        ("sum over rows", (602, 3200), lambda x: x.sum(0, True), 3200, 4),
        ("sum over rows", (602, 512), lambda x: x.sum(0, True), 512, 30),
        ("mean over heads", (1, 8, 602, 602), lambda x: x.mean(1), 602 * 602, 4),
        ("mean of rows", (145, 960), lambda x: x.mean(-1, True), 145, 66),
    ):
        e.add("reduce", name, "x".join(map(str, shape)), F32, [shape], function, out=out, calls=calls)
    for table, width, picked, gather in ((49280, 960, 16, aten.embedding), (4096, 198, 1024, lambda x, i: x[i])):

        def operands(table=table, width=width, picked=picked):
            return e.rand(table, width), torch.randint(0, table, (picked,), device=e.device)

        shape = f"{picked} of {table}x{width}"
        e.add(
            "embedding",
            "gather of rows",
            shape,
            F32,
            operands,
            gather,
            elements=2 * picked * width,
            more_bytes=8 * picked,
        )


def draws(e):
    """Dropout is one fused call on CUDA; on a CPU its mask is drawn by bernoulli_ in fp32."""
    for shape, calls in (((602, 3200), 4), ((8, 602, 602), 4), ((602, 512), 8)):
        n, text = math.prod(shape), "x".join(map(str, shape))
        if e.device.type == "cuda":
            fused = lambda x: aten.native_dropout(x, 0.1, True)  # noqa: E731
            e.add("random", "fused dropout", text, F32, [shape], fused, out=n, more_bytes=n, calls=calls)
        else:
            e.add("random", "bernoulli in place", text, F32, [shape], lambda x: x.bernoulli_(0.9), calls=calls)
    e.add("random", "normal", "50x32", F32, lambda: (), lambda: torch.randn(50, 32, device=e.device), elements=50 * 32)
