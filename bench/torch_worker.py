#!/usr/bin/env python3
"""Times one PyTorch training in this process and prints one JSON object; used by compare_torch.py.

python torch_worker.py act --batch 2 --cameras 2 --iterations 6
python torch_worker.py ppo --envs 256 --iterations 3 --classes
"""

import argparse
import json
import os
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers import act, op_class, ppo, smolvla, training  # noqa: E402
from peers.timing import statistic  # noqa: E402


def peak_resident_bytes():
    """High-water mark of this process alone (a child's rusage would include what it was forked from)."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def make_step(options):
    """A function that runs one step (PPO: the learning of one iteration) and returns seconds by phase."""
    if options.policy == "ppo":
        policy = ppo.build(options.task)
        optimizer, storage = policy.optimizer(), policy.storage(options.envs, options.steps_per_env)

        def learn():
            start = time.perf_counter()
            ppo.iteration(policy, optimizer, storage)
            return {"learning_s": time.perf_counter() - start}

        return learn
    if options.policy == "act":
        policy, batch = act.build(), act.ACT.batch(options.batch, options.cameras, options.height, options.width)
    else:
        policy = smolvla.build(options.mode)
        batch = smolvla.SmolVLA.batch(options.batch, options.cameras, options.height, options.width)
    optimizer = policy.optimizer()

    def step():
        stamps = []
        training.update(policy, optimizer, batch, lambda: stamps.append(time.perf_counter()))
        forward, backward, rest = (b - a for a, b in zip(stamps, stamps[1:]))
        return {"update_s": stamps[-1] - stamps[0], "forward_s": forward, "backward_s": backward, "optimizer_s": rest}

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", choices=("act", "smolvla", "ppo"))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--cameras", type=int, default=2)
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--mode", choices=smolvla.MODES, default="default", help="SmolVLA: what is frozen")
    parser.add_argument("--task", choices=tuple(ppo.TASKS), default="g1", help="PPO")
    parser.add_argument("--envs", type=int, default=256)
    parser.add_argument("--steps-per-env", type=int, default=24)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--classes", action="store_true", help="also time every call once, by op class")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    step = make_step(options)
    for _ in range(options.warmup):
        step()
    seen = [step() for _ in range(options.iterations)]
    result = {"torch": torch.__version__, "threads": torch.get_num_threads(), "resident_bytes": peak_resident_bytes()}
    for name in seen[0]:
        result[name] = statistic([s[name] for s in seen])
        result[name]["all"] = [s[name] for s in seen]
    if options.classes:
        timer = op_class.ClassTimer()
        with timer:
            step()
        empty = op_class.empty_call_s(torch.device("cpu"))
        result["class_s"] = {k: max(s - timer.calls[k] * empty, 0.1 * s) for k, s in timer.seconds.items()}
        result["class_calls"] = timer.calls
    print(json.dumps(result))


if __name__ == "__main__":
    main()
