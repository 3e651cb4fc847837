#!/usr/bin/env python3
"""Writes what PyTorch really dispatches for one training step of each replica, one line per ATen call.

For each policy and mode: OUT/<policy>_<mode>_<cameras>cams_<part>.txt with part forward, backward, step (clip, AdamW,
zero-grad), and a summary in OUT/summary.json. Calls are counted below autograd (TorchDispatchMode): `view` are calls
that make views or empty allocations, `sync` blocking reads, `op` all others. Needs PyTorch only.
"""

import argparse
import json
import os
import sys
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers import act, ppo, smolvla  # noqa: E402
from peers.op_class import is_composite, kind_of  # noqa: E402


def describe(value):
    if isinstance(value, torch.Tensor):
        return f"{list(value.shape)}:{str(value.dtype).replace('torch.', '')}".replace(" ", "")
    if isinstance(value, (list, tuple)):
        if len(value) > 6 and all(isinstance(v, torch.Tensor) for v in value):
            return f"({describe(value[0])} and {len(value) - 1} more)"
        return "(" + ",".join(describe(v) for v in value) + ")"
    return str(value).replace("torch.", "").replace(" ", "")


class Trace(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.lines, self.counts = [], {"op": 0, "view": 0, "sync": 0}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if is_composite(func):
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        inputs = " ".join(describe(a) for a in args)
        named = " ".join(f"{k}={describe(v)}" for k, v in kwargs.items() if isinstance(v, (torch.Tensor, list, tuple)))
        out = func(*args, **kwargs)
        kind = kind_of(func)
        self.counts[kind] += 1
        name = str(func).replace("aten.", "")
        self.lines.append(f"{name:44s} {kind:4s} {inputs} {named} -> {describe(out)}")
        return out

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(self.lines) + "\n")


class Held:
    """A tensor that the backward will need."""

    __slots__ = ("tensor", "__weakref__")

    def __init__(self, tensor):
        self.tensor = tensor


class SavedBytes:
    """Unique storages that the backward references at the end of the forward, parameters and buffers excluded."""

    def __init__(self, policy):
        self.held = []
        self.own = {t.untyped_storage().data_ptr() for t in (*policy.parameters(), *policy.buffers())}
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda held: held.tensor)

    def pack(self, tensor):
        held = Held(tensor.detach() if tensor.is_leaf is False else tensor)
        self.held.append(weakref.ref(held))
        return held

    def measure(self):
        by_dtype, seen, largest = {}, set(), []
        for ref in self.held:
            held = ref()
            if held is None:
                continue
            storage = held.tensor.untyped_storage()
            if storage.data_ptr() in seen or storage.data_ptr() in self.own or storage.nbytes() == 0:
                continue
            seen.add(storage.data_ptr())
            dtype = str(held.tensor.dtype).replace("torch.", "")
            by_dtype[dtype] = by_dtype.get(dtype, 0) + storage.nbytes()
            largest.append((storage.nbytes(), describe(held.tensor)))
        return {
            "total": sum(by_dtype.values()),
            "by_dtype": by_dtype,
            "storages": len(seen),
            "list": sorted(largest, reverse=True),
        }


def cuda_dropout(x, p=0.5, training=True, inplace=False):
    """On CUDA dropout is one fused call with a boolean mask; on a CPU it is bernoulli_, div_ and mul."""
    return torch.native_dropout(x, p, training)[0] if training and p > 0 else x


def trace_part(function):
    trace = Trace()
    with trace:
        result = function()
    return result, trace


def flops_of(function):
    counter = FlopCounterMode(display=False)
    with counter:
        result = function()
    return result, counter.get_total_flops()


def trace_step(policy, batch, prefix, summary, device_class):
    """Traces one step in the way of a device class (`cuda` differs in dropout and in the optimizer's lists)."""
    fused = torch.nn.functional.dropout
    if device_class == "cuda":
        torch.nn.functional.dropout = cuda_dropout
    try:
        trace_all(policy, batch, prefix, summary, {"foreach": device_class == "cuda"})
    finally:
        torch.nn.functional.dropout = fused


def ppo_parts(policy, envs=16, steps=24):
    """One environment step's inference, its storing, the returns, one mini-batch's gathers."""
    storage = policy.storage(envs, steps)
    first = {name: tensor[0] for name, tensor in storage.items()}
    parts = {}
    out, parts["inference"] = trace_part(lambda: policy.act(first["actor_obs"], first["critic_obs"]))
    names = ("action", "mean", "std", "log_probability", "value")
    seen = dict(zip(names, (*out[:3], out[3].unsqueeze(-1), out[4])))
    seen.update({name: first[name].clone() for name in ("actor_obs", "critic_obs", "reward", "done")})
    _, parts["store"] = trace_part(lambda: policy.store(storage, 0, seen))
    _, parts["returns"] = trace_part(lambda: policy.returns(storage, first["critic_obs"]))
    _, parts["gather"] = trace_part(lambda: next(policy.mini_batches(storage, 4, 1)))
    return parts


def trace_all(policy, batch, prefix, summary, optimizer_options):
    optimizer = policy.optimizer(**optimizer_options)
    parts = {}
    loss, parts["forward"] = trace_part(lambda: policy.loss(batch))
    _, parts["backward"] = trace_part(loss.backward)
    optimizer.step()  # creates the optimizer's state, untraced

    def step():
        norm = policy.clip()
        optimizer.step()
        optimizer.zero_grad()
        return policy.reads(loss, norm)

    _, parts["step"] = trace_part(step)
    if policy.name == "ppo":
        parts.update(ppo_parts(policy))
    loss, flops_forward = flops_of(lambda: policy.loss(batch))
    _, flops_backward = flops_of(loss.backward)
    optimizer.zero_grad()
    saved = SavedBytes(policy)
    with saved.hooks:
        loss = policy.loss(batch)
    held = saved.measure()
    for part, trace in parts.items():
        trace.write(f"{prefix}_{part}.txt")
    with open(prefix + "_saved.txt", "w", encoding="utf-8") as file:
        file.writelines(f"{size:12d} {what}\n" for size, what in held.pop("list"))
    parameters = list(policy.parameters())
    summary[os.path.basename(prefix)] = {
        "parameters": sum(p.numel() for p in parameters),
        "trainable": sum(p.numel() for p in parameters if p.requires_grad),
        "tensors": len(parameters),
        "trainable_tensors": sum(p.requires_grad for p in parameters),
        "flops": {"forward": flops_forward, "backward": flops_backward},
        **{kind + "s": {part: trace.counts[kind] for part, trace in parts.items()} for kind in ("op", "view", "sync")},
        "saved_bytes": held,
    }


def runs(names, cameras, batch):
    """Yields (file prefix, policy, batch)."""
    suffix = "" if batch == 1 else f"_b{batch}"
    for name in names:
        if name == "act":
            for count in cameras:
                yield f"act_default_{count}cams{suffix}", act.build(), act.ACT.batch(batch, count)
        elif name.startswith("smolvla"):
            for mode in smolvla.MODES if name == "smolvla" else [name.split("-")[1]]:
                policy = smolvla.build(mode)
                for count in cameras:
                    yield f"smolvla_{mode}_{count}cams{suffix}", policy, smolvla.SmolVLA.batch(batch, count)
        elif name == "ppo":
            for task in ppo.TASKS:
                policy = ppo.build(task)
                yield f"ppo_{task}_0cams{suffix}", policy, policy.batch(batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policies", nargs="*", default=["act", "ppo"])
    parser.add_argument("--cameras", default="1,2", help="comma-separated")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--out", default="traces")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    path = os.path.join(options.out, "summary.json")
    summary = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            summary = json.load(file)
    cameras = [int(c) for c in options.cameras.split(",")]
    for name, policy, batch in runs(options.policies, cameras, options.batch):
        for device_class, tag in (("cuda", ""), ("cpu", "_cpuclass")):
            trace_step(policy, batch, os.path.join(options.out, name + tag), summary, device_class)
            print(name + tag, json.dumps(summary[name + tag]), flush=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(summary, file, indent=1)


if __name__ == "__main__":
    main()
