"""stepgauge's op classes of ATen calls, and the classes' seconds in a step that really runs.

The names are those of the program's files: gemm, bmm, conv, conv_bwd_data, conv_bwd_weights, attention, norm, softmax,
elementwise, copy, pool, reduce, embedding, random, optimizer. Views and empty allocations have no class.
"""

import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

CLASSES = {
    "gemm": "mm addmm",
    "bmm": "bmm baddbmm",
    "conv": "convolution",
    "attention": "",
    "norm": "native_layer_norm native_layer_norm_backward",
    "softmax": "_softmax _softmax_backward_data",
    "copy": "copy_ clone _to_copy cat stack zeros ones full zeros_like ones_like fill_ zero_ scalar_tensor arange"
    " linspace constant_pad_nd slice_backward select_backward",
    "pool": "max_pool2d_with_indices max_pool2d_with_indices_backward upsample_bilinear2d",
    "reduce": "sum mean cumsum min max std any",
    "embedding": "embedding embedding_dense_backward index",
    "random": "bernoulli_ normal normal_ randn randn_like rand randperm native_dropout _sample_dirichlet uniform_",
}
BY_NAME = {name: cls for cls, names in CLASSES.items() for name in names.split()}
ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}
HIDDEN_VIEWS = {"_unsafe_view", "detach", "lift_fresh", "_reshape_alias", "alias"}


def base_name(func):
    return func._schema.name.split("::")[-1]


def kind_of(func):
    """'op', 'view' (makes a view or an empty allocation) or 'sync' (a blocking read)."""
    name = base_name(func)
    if name == "_local_scalar_dense":
        return "sync"
    if name in ALLOCATIONS or name in HIDDEN_VIEWS:
        return "view"
    returns = [r.alias_info for r in func._schema.returns]
    if returns and all(a is not None and not a.is_write for a in returns):
        return "view"
    return "op"


def is_composite(func):
    """Whether a call that arrives whole (as it does without autograd) runs as other calls: it has no kernel of its own."""
    name = func.name()
    own = any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in ("CPU", "CompositeExplicitAutograd"))
    return not own and func._can_decompose()


def class_of(func):
    """The class of an 'op'."""
    name = base_name(func)
    if name.startswith("_foreach_") or name.startswith("_fused_adam"):
        return "optimizer"
    if name.startswith("_scaled_dot_product"):
        return "attention"
    return BY_NAME.get(name, "elementwise")


class ClassTimer(TorchDispatchMode):
    """Seconds and calls by class of what runs inside. A convolution's backward is run in its two halves, as the library
    does it anyway, so that each is timed."""

    def __init__(self, synchronize=None):
        super().__init__()
        self.seconds, self.calls, self.views, self.syncs = {}, {}, 0, 0
        self.synchronize = synchronize or (lambda: None)

    def timed(self, cls, function):
        self.synchronize()
        start = time.perf_counter()
        out = function()
        self.synchronize()
        self.seconds[cls] = self.seconds.get(cls, 0.0) + time.perf_counter() - start
        self.calls[cls] = self.calls.get(cls, 0) + 1
        return out

    def convolution_backward(self, func, args):
        *rest, mask = args
        halves = []
        for cls, part in (("conv_bwd_data", (mask[0], False, False)), ("conv_bwd_weights", (False, mask[1], mask[2]))):
            halves.append(self.timed(cls, lambda p=part: func(*rest, list(p))) if any(part) else (None, None, None))
        return halves[0][0], halves[1][1], halves[1][2]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if is_composite(func):
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        kind = kind_of(func)
        if kind == "view":
            self.views += 1
            return func(*args, **kwargs)
        if kind == "sync":
            self.syncs += 1
            return func(*args, **kwargs)
        if base_name(func) == "convolution_backward":
            return self.convolution_backward(func, args)
        return self.timed(class_of(func), lambda: func(*args, **kwargs))


def empty_call_s(device, times=200):
    """Seconds that a ClassTimer reads for a call on one element."""
    one = torch.ones(1, device=device)
    timer, seen = ClassTimer(synchronizer(device)), []
    with torch.no_grad(), timer:
        for _ in range(times):
            timer.seconds.clear()
            torch.mul(one, one)
            seen.append(timer.seconds["elementwise"])
    return sorted(seen)[times // 2]


def count(function):
    """(result, ops, views) of what `function` dispatches."""
    timer = ClassTimer()
    with timer:
        result = function()
    calls = dict(timer.calls)
    if "conv_bwd_data" in calls:  # the halves of one call
        calls.pop("conv_bwd_data")
    return result, sum(calls.values()), timer.views


def synchronizer(device):
    return torch.cuda.synchronize if torch.device(device).type == "cuda" else None
