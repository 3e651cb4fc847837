#!/usr/bin/env python3
"""stepgauge and PyTorch side by side in one run, on the same threads and shapes, in turn (A B A B).

    python3 compare_torch.py --stepgauge build/release/stepgauge --python torchenv/bin/python [--only native|fidelity]

native     our own engine's ACT step and resident memory against PyTorch's: a ratio of 1.0 or less is wanted.
fidelity   PyTorch's own median step against the prediction of a machine that was measured, probed and fitted just before:
           within 10 % on either side is wanted; the ratio per op class is printed.

Every training runs in a process of its own, so that peak resident memory is one training's. This program itself imports no
PyTorch. Results go to stdout as tables, with --json FILE also as one JSON object. Exit status: 0 all within the wanted
bounds, 1 some are not, 2 bad usage, 3 a program failed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE")
NATIVE_BOUND, FIDELITY_BOUND = 1.0, 0.10


class Failed(Exception):
    """A program that was started did not do its work."""


class Side:
    """Starts one side's program; both get the same environment without limits on threads."""

    def __init__(self, command, threads):
        self.command, self.threads = command, threads
        self.environment = {k: v for k, v in os.environ.items() if k not in LIMITS}

    def run(self, *arguments):
        """The JSON object that it prints, with the peak resident bytes of the process as `rss_bytes`."""
        line = [*self.command, *map(str, arguments)]
        with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryFile("w+") as output:
            try:
                process = subprocess.Popen(line, stdout=output, stderr=errors, env=self.environment)
            except OSError as error:
                raise Failed(f"cannot start {line[0]}: {error.strerror}") from error
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            errors.seek(0)
            # 1 is an answer ("does not fit"), not a failure
            if process.returncode not in (0, 1):
                raise Failed(f"{' '.join(line)}\nended with {process.returncode}: {errors.read()[-2000:].strip()}")
            text = output.read()
        try:
            result = json.loads(text)
        except json.JSONDecodeError as error:
            raise Failed(f"{' '.join(line)}\nprinted no JSON object: {text[:200]!r}") from error
        result["rss_bytes"] = usage.ru_maxrss * 1024
        return result


def worker_arguments(case, options, iterations):
    arguments = [case["policy"], "--threads", options.threads, "--iterations", iterations]
    for name in ("batch", "cameras", "envs"):
        if name in case:
            arguments += [f"--{name}", case[name]]
    return arguments


def policy_arguments(case):
    """The same case as stepgauge's options."""
    arguments = [case["policy"]]
    for name in ("batch", "cameras", "envs"):
        if name in case:
            arguments += [f"--{name}", case[name]]
    if "cameras" in case:
        arguments += ["--image-size", "480x640"]
    return arguments


def spread(values):
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


# ---- native ----
def compare_native(ours, theirs, options):
    rows = []
    for batch in options.batches:
        case = {"policy": "act", "batch": batch, "cameras": 2}
        ours_s, theirs_s, ours_bytes, theirs_bytes, ratios = [], [], [], [], []
        for _ in range(options.rounds):
            a = ours.run(
                "measure", *policy_arguments(case), "--framework", "native", "--device", "cpu", "--threads", options.threads,
                "--min-iterations", options.iterations, "--time-budget", options.seconds, "--workers", 0, "--json", "--quiet",
            )  # fmt: skip
            b = theirs.run(*worker_arguments(case, options, options.iterations))
            ours_s.append(a["points"][0]["update_s"])
            theirs_s.append(b["update_s"]["median_s"])
            ours_bytes.append(a["rss_bytes"])
            theirs_bytes.append(b["rss_bytes"])
            ratios.append(ours_s[-1] / theirs_s[-1])
        rows.append({
            "case": f"act batch {batch}, 2 cameras", "native_update_s": statistics.median(ours_s),
            "pytorch_update_s": statistics.median(theirs_s), "time_ratio": statistics.median(ratios),
            "native_resident_bytes": statistics.median(ours_bytes), "pytorch_resident_bytes": statistics.median(theirs_bytes),
            "memory_ratio": statistics.median(ours_bytes) / statistics.median(theirs_bytes),
            "spread": max(spread(ours_s), spread(theirs_s)), "torch": b["torch"],
        })  # fmt: skip
        rows[-1]["within"] = rows[-1]["time_ratio"] <= NATIVE_BOUND and rows[-1]["memory_ratio"] <= NATIVE_BOUND
    return rows


def print_native(rows):
    print(f"\nnative against PyTorch {rows[0]['torch']}, ratio 1.0 or less wanted")
    print(f"{'case':28s} {'native':>10s} {'PyTorch':>10s} {'ratio':>7s} {'resident':>10s} {'PyTorch':>10s} {'ratio':>7s} {'spread':>7s}")
    for r in rows:
        print(
            f"{r['case']:28s} {r['native_update_s']:8.3f} s {r['pytorch_update_s']:8.3f} s {r['time_ratio']:7.2f}"
            f" {r['native_resident_bytes'] / 2**30:6.2f} GiB {r['pytorch_resident_bytes'] / 2**30:6.2f} GiB {r['memory_ratio']:7.2f}"
            f" {r['spread']:7.0%}  {'ok' if r['within'] else 'ABOVE'}"
        )


# ---- fidelity ----
def fidelity_cases(options):
    cases = [{"policy": "act", "batch": b, "cameras": 2} for b in (1, 2, 4)]
    cases += [{"policy": "smolvla", "batch": b, "cameras": 2} for b in options.smolvla_batches]
    cases += [{"policy": "ppo", "envs": e} for e in options.envs]
    return cases


def fit_machine(ours, python, options, folder):
    """measure -> probe -> fit; the path of the machine file."""
    run, probe, machine = (os.path.join(folder, name) for name in ("run.h5", "probe.json", "machine.h5"))
    measured = [("act", ["--batch", "1,2,4", "--cameras", 2, "--image-size", "480x640"]), ("ppo", ["--envs", 64])]
    if options.smolvla_batches:  # bf16 products have a rate of their own
        measured.append(("smolvla", ["--batch", 1, "--cameras", 1]))
    for policy, arguments in measured:
        ours.run("measure", policy, *arguments, "--device", "cpu", "--threads", options.threads, "--time-budget", options.seconds,
                 "-o", run, "--json", "--quiet")  # fmt: skip
    line = [python, os.path.join(HERE, "torch_probe.py"), "-o", probe, "--threads", str(options.threads), "--device", "cpu"]
    if subprocess.run(line, env=ours.environment, check=False).returncode != 0:
        raise Failed("torch_probe.py did not end well")
    with open(probe, encoding="utf-8") as file:
        disturbed = json.load(file)["disturbed"]
    ours.run("fit", run, "--probe", probe, "-o", machine, "--json", "--quiet")
    return machine, disturbed


def compare_fidelity(ours, theirs, python, options, folder):
    machine, disturbed = fit_machine(ours, python, options, folder)
    cases, seen = fidelity_cases(options), {}
    for turn in range(options.rounds):
        for i, case in enumerate(cases):
            extra = ["--classes"] if turn == 0 else []
            seen.setdefault(i, []).append(theirs.run(*worker_arguments(case, options, options.iterations), *extra))
    rows = []
    for i, case in enumerate(cases):
        figure = "learning_s" if case["policy"] == "ppo" else "update_s"
        observed = statistics.median(run[figure]["median_s"] for run in seen[i])
        predicted = ours.run("predict", *policy_arguments(case), "--framework", "pytorch-eager", "--machine", machine, "--json", "--quiet")
        p = predicted[figure]
        classes = {
            name: {"pytorch_s": seconds, "predicted_s": predicted.get("class_s", {}).get(name)}
            for name, seconds in sorted(seen[i][0]["class_s"].items(), key=lambda item: -item[1])
        }
        rows.append({
            "case": " ".join(f"{k} {v}" if k != "policy" else str(v) for k, v in case.items()), "figure": figure,
            "pytorch_s": observed, "predicted_s": p["value"], "low": p["low"], "high": p["high"], "ratio": p["value"] / observed,
            "inside_interval": p["low"] <= observed <= p["high"], "spread": spread([run[figure]["median_s"] for run in seen[i]]),
            "within": abs(p["value"] / observed - 1) <= FIDELITY_BOUND, "class_s": classes, "torch": seen[i][0]["torch"],
            "probe_disturbed": disturbed,
        })  # fmt: skip
    return rows


def print_fidelity(rows):
    print(f"\nprediction against PyTorch {rows[0]['torch']}, ratio 0.9 to 1.1 wanted")
    for reason in rows[0]["probe_disturbed"]:
        print(f"  the probe was disturbed: {reason}")
    print(f"{'case':28s} {'figure':11s} {'PyTorch':>10s} {'predicted':>10s} {'interval':>17s} {'ratio':>7s} {'spread':>7s}")
    for r in rows:
        print(
            f"{r['case']:28s} {r['figure']:11s} {r['pytorch_s']:8.3f} s {r['predicted_s']:8.3f} s {r['low']:7.3f}-{r['high']:7.3f} s"
            f" {r['ratio']:7.2f} {r['spread']:7.0%}  {'ok' if r['within'] else 'OUTSIDE'}"
        )
    print("\nseconds by op class, PyTorch / predicted (ratio)")
    for r in rows:
        print(f"  {r['case']}")
        for name, c in r["class_s"].items():
            if c["predicted_s"] and c["pytorch_s"] >= 0.005 * r["pytorch_s"]:
                print(f"    {name:18s} {c['pytorch_s']:9.4f} / {c['predicted_s']:9.4f} s  ({c['predicted_s'] / c['pytorch_s']:.2f})")
            elif c["pytorch_s"] >= 0.005 * r["pytorch_s"]:
                print(f"    {name:18s} {c['pytorch_s']:9.4f} /         - s")


def whole_numbers(text):
    return [int(part) for part in text.split(",") if part]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stepgauge", default="stepgauge", help="the program")
    parser.add_argument("--python", default=sys.executable, help="a Python that can import torch")
    parser.add_argument("--only", choices=("native", "fidelity"))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of both sides")
    parser.add_argument("--rounds", type=int, default=3, help="turns of A B")
    parser.add_argument("--iterations", type=int, default=5, help="timed steps per turn")
    parser.add_argument("--seconds", type=float, default=20.0, help="time budget of one measuring call")
    parser.add_argument("--batches", type=whole_numbers, default=[2, 4], help="native: 2,4")
    parser.add_argument("--smolvla-batches", type=whole_numbers, default=[1], help="fidelity: as memory allows; empty: none")
    parser.add_argument("--envs", type=whole_numbers, default=[64, 256], help="fidelity: PPO's environments")
    parser.add_argument("--json", metavar="FILE", help="also write everything there")
    options = parser.parse_args()
    if min(options.threads, options.rounds, options.iterations) < 1 or options.seconds <= 0:
        parser.error("--threads, --rounds, --iterations and --seconds must be positive")
    ours = Side([options.stepgauge], options.threads)
    theirs = Side([options.python, os.path.join(HERE, "torch_worker.py")], options.threads)
    result = {"threads": options.threads, "rounds": options.rounds, "load_average_before": os.getloadavg()[0]}
    try:
        if options.only != "fidelity":
            result["native"] = compare_native(ours, theirs, options)
            print_native(result["native"])
        if options.only != "native":
            with tempfile.TemporaryDirectory() as folder:
                result["fidelity"] = compare_fidelity(ours, theirs, options.python, options, folder)
            print_fidelity(result["fidelity"])
    except Failed as failure:
        print(f"compare_torch: {failure}", file=sys.stderr)
        return 3
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
    rows = [*result.get("native", []), *result.get("fidelity", [])]
    return 0 if all(row["within"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
