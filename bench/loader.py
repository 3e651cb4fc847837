#!/usr/bin/env python3
"""LeRobot's data loader beside ours, on the same data sets, in turn: how much longer a frame, a sample and a batch take there.

    python bench/loader.py DIR [DIR..] [--stepgauge build/release/stepgauge] [--backends torchcodec,pyav] [--workers 0,1,2]
                           [--batch 8] [--policy act] [--rounds 3] [--seconds 5] [--json FILE]

Runs in a Python that has LeRobot. DIR: data sets of LeRobot's, v3.0 for its present releases, such as
`stepgauge dataset make DIR --kind lerobot-v3.0` writes. Ours is `measure --framework native --loader-only`, theirs LeRobotDataset
behind torch's DataLoader (peers/lerobot_loader.py). `--policy diffusion` looks at two observations and a chunk of 16.

Times of parts are processor seconds, which other work on the machine stretches least; sides take turns (A B A B) and medians over
the turns are compared. Ratios are theirs / ours: what a trainer's loader needs of what ours needs.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as a worker has it
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

POLICIES = {"act": (100, 1), "diffusion": (16, 2)}  # rows of actions, observations


def median(values):
    return statistics.median(values) if values else float("nan")


def ours(options, folder):
    """One turn: {workers: the point's loader record}."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [options.stepgauge, "measure", options.policy, "--framework", "native", "--dataset", folder, "--loader-only"]
        command += ["--workers", ",".join(map(str, options.workers)), "--batch", str(options.batch), "--layers", "cached"]
        command += ["--time-budget", str(options.seconds * len(options.workers)), "--json", "--quiet"]
        done = subprocess.run(command + ["-o", os.path.join(scratch, "run.h5")], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return {p["workers"]: p["loader"] for p in json.loads(done.stdout)["points"]}


def theirs(options, folder, backend):
    from peers import lerobot_loader

    import torch

    torch.set_num_threads(1)
    chunk, observations = POLICIES[options.policy]
    dataset = lerobot_loader.open_dataset(folder, backend, chunk, observations)
    parts = lerobot_loader.sample_parts(dataset, folder, options.batch, options.sample_rounds)
    runs = {w: lerobot_loader.batches(dataset, w, options.batch, options.seconds) for w in options.workers}
    return {"parts": parts, "runs": runs}


def their_turn(options, folder, backend):
    """In a process of its own: workers and decoders of one turn are not the next one's."""
    command = [sys.executable, os.path.abspath(__file__), folder, "--child", backend, "--policy", options.policy]
    command += ["--workers", ",".join(map(str, options.workers)), "--batch", str(options.batch)]
    command += ["--seconds", str(options.seconds), "--sample-rounds", str(options.sample_rounds)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"failed": (done.stderr.strip() or "it ended without a word").splitlines()[-1][:200]}
    turn = json.loads(done.stdout.splitlines()[-1])
    turn["runs"] = {int(w): run for w, run in turn["runs"].items()}
    return turn


def summary(options, mine, turns):
    """Medians over the turns, both sides, and their ratios."""

    def part(name):
        return median([t["parts"][name]["median_s"] for t in turns])

    own = {name: median([m[options.workers[0]][name] for m in mine]) for name in ("frame_cpu_s", "sample_cpu_s")}
    out = {
        "frame_s": (own["frame_cpu_s"], part("frame_s")),
        "sample_s": (own["sample_cpu_s"], part("rows_s") + part("collate_s")),
        "frames": turns[0]["parts"]["frames"],
        "rows_s": part("rows_s"),
        "collate_s": part("collate_s"),
        "frame_wall_s": part("frame_wall_s"),
        "sample_bytes": turns[0]["parts"]["sample_bytes"],
        "bytes_per_value": turns[0]["parts"]["bytes_per_value"],
        "runs": {},
    }
    for w in options.workers:
        run = [t["runs"][w] for t in turns]
        out["runs"][w] = {
            "samples_per_s": (median([m[w]["worker_samples_per_s"] * max(1, w) for m in mine]), median([r["samples_per_s"] for r in run])),
            "cpu_s_per_sample": (
                median([m[w]["batch_cpu_s"] / options.batch for m in mine]),
                median([r["cpu_s_per_sample"] for r in run]),
            ),
            "take_cpu_s": (median([m[w]["step_cpu_s"] for m in mine]), median([r["take_cpu_s"] for r in run])),
            "batch_bytes": run[0]["batch_bytes"],
        }
    return out


def show(name, backend, result):
    def line(what, pair, scale=1e3, unit="ms"):
        ratio = pair[1] / pair[0] if pair[0] > 0 else float("nan")
        print(f"  {what:<34} {scale * pair[0]:9.3f} {scale * pair[1]:9.3f} {unit:<4} {ratio:7.2f}")

    size = f"{result['bytes_per_value']} byte(s) a value"
    print(f"\n{name}, {backend}: {result['frames']} frames and {result['sample_bytes'] / 1e6:.2f} MB a sample, {size}")
    print(f"  {'processor time':<34} {'ours':>9} {'LeRobot':>9} {'':<4} {'ratio':>7}")
    line("a frame", result["frame_s"])
    line("a sample beside its frames", result["sample_s"])
    print(f"    of which rows {1e3 * result['rows_s']:.3f} ms, collation {1e3 * result['collate_s']:.3f} ms")
    for w, run in result["runs"].items():
        line(f"{w} workers: a sample, all of it", run["cpu_s_per_sample"])
        if w:
            line(f"{w} workers: the trainer, per batch", run["take_cpu_s"])
        line(f"{w} workers: samples per second", run["samples_per_s"], 1, "1/s")


def numbers(text):
    return [int(v) for v in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="DIR")
    parser.add_argument("--stepgauge", default="build/release/stepgauge")
    parser.add_argument("--backends", default="torchcodec,pyav")
    parser.add_argument("--policy", choices=sorted(POLICIES), default="act")
    parser.add_argument("--workers", type=numbers, default=[0, 1, 2])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side")
    parser.add_argument("--sample-rounds", type=int, default=9, help="batches of a turn that are timed in parts")
    parser.add_argument("--seconds", type=float, default=5, help="of each worker count in each turn")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--child", metavar="BACKEND", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(theirs(options, options.folders[0], options.child)))
        return
    if min(options.batch, options.rounds, options.sample_rounds) < 1 or options.seconds <= 0 or min(options.workers) < 0:
        parser.error("--batch, --rounds, --sample-rounds and --seconds must be positive, --workers 0 or more")
    kept = []
    for folder in options.folders:
        name = os.path.basename(os.path.abspath(folder))
        backends = options.backends.split(",")
        mine, turns = [], {b: [] for b in backends}
        for _ in range(options.rounds):
            mine.append(ours(options, folder))
            for backend in backends:
                turns[backend].append(their_turn(options, folder, backend))
        for backend in backends:
            failed = [t["failed"] for t in turns[backend] if "failed" in t]
            if failed:
                print(f"\n{name}, {backend}: left out: {failed[0]}")
                continue
            result = summary(options, mine, turns[backend])
            show(name, backend, result)
            kept.append({"dataset": name, "backend": backend, "policy": options.policy, "batch": options.batch, **result})
            sys.stdout.flush()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(kept, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
