#!/usr/bin/env python3
"""Times the PyTorch of this machine for about a minute and writes what `stepgauge fit --probe` takes.

    python torch_probe.py [-o probe.json] [--device cpu|cuda] [--threads N] [--seconds 60] [--without smolvla]
                          [--dataset DIR ..] [--video-backends torchcodec,pyav]

Needs PyTorch and the folder peers/ beside this file, nothing else; with --dataset also LeRobot, whose own loader is timed on
these data sets: what `fit` then holds against `measure --dataset DIR --loader-only` of the same. Three things are timed: op classes in the shapes of
ACT, SmolVLA and PPO (interleaved rounds), the host's cost per call, and small training steps with their seconds by op
class. The file's keys are described in README.md beside this file.
"""

import argparse
import json
import os
import platform
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers import act, op_class, ppo, smolvla, training  # noqa: E402
from peers.host_cost import host_costs  # noqa: E402
from peers.op_entries import NAMES, entries  # noqa: E402
from peers.timing import Clock, available_bytes, bf16_is_native, load_average, statistic  # noqa: E402

FORMAT, VERSION = "stepgauge-torch-probe", 1
SMOLVLA_BYTES = 5 << 30


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- op classes ----
def time_entries(device, end, call_s):
    """Rounds over all entries until the time `end` (at least three); returns their JSON objects."""
    clock = Clock(device)
    chosen = []
    for entry in entries(device, bf16_is_native(device)):
        entry.prepare()
        entry.run()
        entry.inner = max(1, min(200, int(1e-3 / max(1e-7, clock.once(entry.run)))))
        chosen.append(entry)
    rounds = 0
    while rounds < 3 or time.monotonic() < end:
        for entry in chosen:
            entry.samples.append(clock.once(entry.run, entry.inner))
        rounds += 1
    say(f"  {len(chosen)} op shapes, {rounds} rounds")
    work = {}
    for entry in chosen:
        work[entry.cls, entry.dtype] = work.get((entry.cls, entry.dtype), 0) + entry.work()
    # on a CPU a call's time holds the host's cost of the call, which is accounted for apart
    host = call_s if device.type == "cpu" else 0.0
    out = []
    for entry in chosen:
        net = [max(s - host, 0.1 * s) for s in entry.samples]
        out.append(
            {
                "class": entry.cls,
                "op": entry.op,
                "shape": entry.shape,
                "dtype": NAMES[entry.dtype],
                "flops": entry.flops,
                "bytes": entry.bytes,
                "launches": entry.launches,
                "weight": entry.work() / work[entry.cls, entry.dtype],
                **statistic(net),
            }
        )
    return out


# ---- steps ----
def class_seconds(device, timers):
    """Median seconds by op class over timed runs, and the calls of one. What a timer reads for a call that does nothing
    is taken off."""
    empty = op_class.empty_call_s(device)
    middle = {}
    for name, calls in sorted(timers[0].calls.items()):
        seconds = sorted(t.seconds[name] for t in timers)[len(timers) // 2]
        middle[name] = max(seconds - calls * empty, 0.1 * seconds)
    return {"class_s": middle, "class_calls": timers[0].calls, "views": timers[0].views, "syncs": timers[0].syncs}


def observe(device, end, measure, run):
    """Until the time `end`, in turn: twice measure() -> {name: seconds}, once run() with every call timed."""
    measure()
    seen, timers = [], []
    while len(timers) < 2 or time.monotonic() < end:
        seen += [measure(), measure()]
        timers.append(op_class.ClassTimer(op_class.synchronizer(device)))
        with timers[-1]:
            run()
    return {**{name: statistic([s[name] for s in seen]) for name in seen[0]}, **class_seconds(device, timers)}


def supervised_step(device, end, name, policy, batch, size, settings, precision):
    """update_s as the framework's log shows it. On a GPU its parts need draining, so they are seen in other steps."""
    optimizer, drain = policy.optimizer(), Clock(device).drain

    def update():
        training.update(policy, optimizer, batch)

    def parts():
        stamps = []
        training.update(policy, optimizer, batch, lambda: (drain(), stamps.append(time.perf_counter())))
        forward, backward, rest = (b - a for a, b in zip(stamps, stamps[1:]))
        return {"forward_s": forward, "backward_s": backward, "optimizer_s": rest}

    def measure():
        if device.type != "cuda":
            seen = parts()
            return {"update_s": sum(seen.values()), **seen}
        drain()
        start = time.perf_counter()
        update()
        seconds = time.perf_counter() - start
        return {"update_s": seconds, **parts()}

    result = observe(device, end, measure, update)
    say(f"  {name} batch {size}: update {result['update_s']['median_s']:.4f} s, {result['update_s']['n']} times")
    return {"policy": name, "settings": settings, "batch": size, "precision": precision, **result}


def ppo_step(device, end, envs, steps=24):
    policy = ppo.build("g1", device=device)
    optimizer, storage, clock = policy.optimizer(), policy.storage(envs, steps, device), Clock(device)

    def collection():
        for t in range(steps):
            observed = storage["actor_obs"][t], storage["critic_obs"][t]
            action, mean, std, log_probability, value = policy.act(*observed)
            policy.store(
                storage,
                t,
                {
                    "actor_obs": observed[0],
                    "critic_obs": observed[1],
                    "action": action,
                    "mean": mean,
                    "std": std,
                    "value": value,
                    "log_probability": log_probability[:, None],
                    "reward": storage["reward"][t],
                    "done": storage["done"][t],
                },
            )

    def learn():
        ppo.iteration(policy, optimizer, storage)

    result = observe(
        device,
        end,
        lambda: {"inference_s": clock.once(collection), "learning_s": clock.once(learn)},
        lambda: (collection(), learn()),
    )
    learning = result["learning_s"]
    say(f"  ppo {envs} environments: learning {learning['median_s']:.4f} s, {learning['n']} times")
    settings = {
        "steps_per_env": steps,
        "mini_batches": 4,
        "ppo_epochs": 5,
        "actor_obs": 99,
        "critic_obs": 198,
        "actions": 29,
    }
    return {"policy": "ppo", "settings": settings, "envs": envs, "precision": "fp32", **result}


def time_steps(device, start, seconds, without):
    """Each step has its share of the time, as a fraction of `seconds` after `start`."""

    def until(fraction):
        return start + fraction * seconds

    steps = []
    if "act" not in without:
        policy = act.build(device=device)
        for size, share in ((1, 0.5), (2, 0.66)):
            batch = act.ACT.batch(size, cameras=1, height=480, width=640, device=device)
            settings = {"cameras": 1, "image_size": "480x640"}
            steps.append(supervised_step(device, until(share), "act", policy, batch, size, settings, "fp32"))
        del policy
    if "ppo" not in without:
        for envs, share in ((64, 0.71), (256, 0.8)):
            steps.append(ppo_step(device, until(share), envs))
    memory = available_bytes()
    if "smolvla" in without:
        pass
    elif not bf16_is_native(device):
        say("  no native bf16 here: SmolVLA is not timed")
    elif memory is not None and memory < SMOLVLA_BYTES:
        say(f"  {memory / 2**30:.1f} GiB free, {SMOLVLA_BYTES >> 30} needed: SmolVLA is not timed")
    else:
        policy = smolvla.build(layers=2, device=device)
        batch = smolvla.SmolVLA.batch(1, cameras=1, device=device)
        settings = {"cameras": 1, "num_vlm_layers": 2}
        steps.append(supervised_step(device, until(0.97), "smolvla", policy, batch, 1, settings, "bf16"))
    return steps


# ---- loader ----
CHUNK, SAMPLES, ROUNDS = 100, 8, 9


def loader_part(folder, backend):
    """A data set by LeRobot's loader, one thread as a worker has it: seconds of a processor per frame, per sample beside its
    frames with one action (python_s), per further row of actions, and in collation."""
    from peers import lerobot_loader

    def parts(chunk):
        return lerobot_loader.sample_parts(lerobot_loader.open_dataset(folder, backend, chunk), folder, SAMPLES, ROUNDS)

    # images of all rows of a chunk are decoded with it: an image by itself is told without one
    few, many = (1, CHUNK) if lerobot_loader.is_video(lerobot_loader.read_info(folder)) else (0, 4)
    short, whole = parts(few), parts(many)
    row = {
        key: max((whole["rows_s"][key] - short["rows_s"]["median_s"]) / (many - few), 1e-9)
        for key in ("median_s", "mean_s", "low", "high")
    }
    row["low"], row["high"] = min(row["low"], row["median_s"]), max(row["high"], row["median_s"])
    return {
        "dataset": os.path.basename(os.path.abspath(folder)),
        "backend": backend,
        "frames_per_camera": 1,
        "sample_bytes": whole["sample_bytes"],
        "frame_s": short["frame_s"],
        "python_s": short["rows_s"],
        "row_s": {**row, "n": whole["rows_s"]["n"]},
        "collate_s": whole["collate_s"],
    }


def time_loaders(folders, backends):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    parts = []
    for folder in folders:
        for backend in backends:
            parts.append(loader_part(folder, backend))
            seen = parts[-1]
            say(f"  loader, {seen['dataset']}, {backend}: {1e3 * seen['frame_s']['median_s']:.2f} ms per frame")
    torch.set_num_threads(threads)
    return parts


def disturbances(load, steps):
    """Why these figures may not be this machine's own, or an empty list."""
    reasons = []
    if load is not None and load > 0.5 + 0.1 * torch.get_num_threads():
        reasons.append(f"load average {load:.1f} before the start")
    for step in steps:
        seen = step.get("update_s") or step["learning_s"]
        if seen["high"] > 1.3 * seen["median_s"]:
            reasons.append(f"{step['policy']} steps vary by {seen['high'] / seen['median_s'] - 1:.0%}")
    return reasons


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Example: python torch_probe.py -o probe.json"
    )
    parser.add_argument("-o", "--output", default="torch_probe.json")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0 = PyTorch's default")
    parser.add_argument("--seconds", type=float, default=60.0, help="about how long all of it may take")
    parser.add_argument("--without", default="", help="comma-separated steps to leave out: act, ppo, smolvla")
    parser.add_argument("--dataset", nargs="+", default=[], metavar="DIR", help="data sets for LeRobot's own loader")
    parser.add_argument("--video-backends", default="torchcodec", help="comma-separated: torchcodec, pyav")
    options = parser.parse_args()
    if options.threads < 0 or not 1 <= options.seconds <= 3600:
        parser.error("--threads must be 0 or more, --seconds between 1 and 3600")
    name = options.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        parser.error("this PyTorch sees no CUDA device; try --device cpu")
    device = torch.device(name)
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = True  # as LeRobot's training sets it
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    start, load_before = time.monotonic(), load_average()
    say(f"PyTorch {torch.__version__} on {name}, {torch.get_num_threads()} threads")
    host = host_costs(device)
    forward, backward = (1e6 * host[name]["median_s"] for name in ("op_s", "backward_op_s"))
    say(f"  host: {forward:.1f} us per forward op, {backward:.1f} us backward")
    ops = time_entries(device, start + 0.35 * options.seconds, host["call_s"]["median_s"])
    steps = time_steps(device, start, options.seconds, options.without.split(","))
    loader = time_loaders(options.dataset, options.video_backends.split(",")) if options.dataset else None
    result = {
        "format": FORMAT,
        "version": VERSION,
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "device": name,
        "device_name": torch.cuda.get_device_name() if name == "cuda" else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "bf16_native": bf16_is_native(device),
        "tf32": name == "cuda",
        "load_average_before": load_before,
        "disturbed": disturbances(load_before, steps),
        "host": host,
        "entries": ops,
        "steps": steps,
    }
    if loader:
        result["loader"] = loader
    for reason in result["disturbed"]:
        say(f"  disturbed: {reason}; close other programs and run again")
    temporary = options.output + ".part"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    os.replace(temporary, options.output)
    say(f"wrote {options.output}; next: stepgauge fit RUN.h5 --probe {options.output} -o machine.h5")


if __name__ == "__main__":
    main()
