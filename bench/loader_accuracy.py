#!/usr/bin/env python3
"""How far predicted loading is from measured: dataloading_s and step_s of worker counts and batches that no fit has seen.

  bench/loader_accuracy.py [--program build/release/stepgauge] [--budget S] [--cases train,pause,..] [--keep DIR]

Makes a data set of 1,500 frames, measures it with --workers 0,1,2,4 and two batches, fits, predicts 3 and 8 workers and a batch between,
measures those, and prints both with their errors:
  train     a real update on this CPU: an ACT of 64 dimensions on 64x64 pixels, beside which loading matters
  pause     a pause of 20 ms in its place, as beside a GPU
  one-core-train, one-core-pause  both on one processor (taskset -c 0), fitted there
  cold      the pause, files that are read from the disk
  moved     the pause on one processor, predicted by the fit of all processors with --vcpus 1
Medians of the absolute errors come last. Other work on the machine disturbs it: run it alone. Where sessions have processors in
turn (kernel.sched_autogroup_enabled) nice does nothing against other sessions: setsid, and -19 into /proc/self/autogroup, does.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

FITTED_WORKERS = [0, 1, 2, 4]
PAUSED_BATCHES, TRAINED_BATCHES = [4, 16], [2, 8]
POLICY = ["act", "--framework", "native"]
SMALL_POLICY = ["--image-size", "64x64"]
for setting in ("dim_model=64", "n_heads=2", "dim_feedforward=128", "n_encoder_layers=1"):
    SMALL_POLICY += ["--set", setting]
PAUSE_S = 0.02
SMALL = 0.1


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


class Case:
    def __init__(self, name, args, prefix=(), pause=None, predict=(), fit=None, layer="cached"):
        self.name, self.args, self.prefix, self.pause = name, args, list(prefix), pause
        self.predict, self.given_fit, self.layer = list(predict), fit, layer
        self.batches = PAUSED_BATCHES if pause else TRAINED_BATCHES

    def unseen(self):
        low, high = self.batches
        return [(3, low), (3, high), (8, low), (8, high), (1, 2 * low), (2, 2 * low), (3, 2 * low)]

    def path(self, what):
        return os.path.join(self.args.folder, f"{self.name}-{what}")

    def training(self):
        return POLICY + ["--dataset", self.args.dataset] + (["--update-s", str(self.pause)] if self.pause else SMALL_POLICY)

    def measure(self, workers, batches, what):
        out = self.path(what)
        command = self.prefix + [self.args.program, "measure"] + self.training()
        command += ["--workers", ",".join(map(str, workers)), "--batch", ",".join(map(str, batches)), "--layers", self.layer]
        command += ["--time-budget", str(self.args.budget * len(workers) * len(batches)), "--quiet", "--json", "-o", out]
        command += ["--min-iterations", "40" if self.pause else "20"]
        text = run(command)
        if self.args.keep:
            with open(out + ".json", "a") as file:
                file.write(text)
        return [p for p in json.loads(text)["points"] if p["loader"]["layer"] == self.layer]

    def fit(self):
        if self.given_fit:
            return self.given_fit
        self.measure(FITTED_WORKERS, self.batches, "run.h5")
        run(self.prefix + [self.args.program, "fit", self.path("run.h5"), "-o", self.path("here.h5"), "--framework", "native"])
        return self.path("here.h5")

    def predicted(self, machine, workers, batch):
        command = self.prefix + [self.args.program, "predict"] + self.training() + self.predict
        command += ["--machine", machine, "--layers", self.layer, "--workers", str(workers), "--batch", str(batch), "--json"]
        return json.loads(run(command))

    def compare(self):
        machine, errors = self.fit(), {"step_s": [], "dataloading_s": []}
        print(f"\n{self.name}")
        print("  workers batch    step_s measured predicted  error   dataloading_s measured predicted  error   update_s")
        for workers, batch in self.unseen():
            point = self.measure([workers], [batch], f"unseen-{workers}-{batch}.h5")[0]
            told = self.predicted(machine, workers, batch)
            row = f"  {workers:7d} {batch:5d}"
            for name in errors:
                seen, foreseen = point[name + "_mean"], told[name]["value"]
                # a wait below a tenth of the step is compared with the step: its own error moves nothing
                small = seen < SMALL * point["step_s_mean"]
                error = (foreseen - seen) / (point["step_s_mean"] if small else seen)
                errors[name].append(abs(error))
                row += f"  {seen * 1e3:15.1f} ms {foreseen * 1e3:8.1f} {100 * error:+6.1f} %"
            row += f"   {point['update_s_mean'] * 1e3:.1f} / {told['update_s']['value'] * 1e3:.1f} ms"
            print(row + ("   disturbed: " + point["disturbed_why"] if point["disturbed"] else ""), flush=True)
        for name, values in errors.items():
            print(f"  {name}: median {100 * statistics.median(values):.1f} %, worst {100 * max(values):.1f} %")
        return machine, errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--program", default=os.path.join(root, "build/release/stepgauge"))
    parser.add_argument("--budget", type=float, default=8, help="seconds per measured point")
    parser.add_argument("--cases", default="train,pause,cold,one-core-train,one-core-pause,moved")
    parser.add_argument("--image-size", default="480x640")
    parser.add_argument("--keep", help="folder that keeps runs and fits")
    args = parser.parse_args()
    args.folder = args.keep or tempfile.mkdtemp(prefix="loader-accuracy-")
    os.makedirs(args.folder, exist_ok=True)
    args.dataset = os.path.join(args.folder, "data")
    if not os.path.isdir(args.dataset):
        run([args.program, "dataset", "make", args.dataset, "--kind", "lerobot-v3.0", "--episodes", "10", "--quiet",
             "--frames-per-episode", "150", "--image-size", args.image_size])
    one = ["taskset", "-c", "0"]
    cases = args.cases.split(",")
    errors, machine = [], None
    if "train" in cases:
        errors.append(Case("train", args).compare()[1])
    if "pause" in cases:
        machine, found = Case("pause", args, pause=PAUSE_S).compare()
        errors.append(found)
    if "cold" in cases:
        errors.append(Case("cold", args, pause=PAUSE_S, layer="cold").compare()[1])
    if "one-core-train" in cases:
        errors.append(Case("one-core-train", args, prefix=one).compare()[1])
    if "one-core-pause" in cases:
        errors.append(Case("one-core-pause", args, prefix=one, pause=PAUSE_S).compare()[1])
    if "moved" in cases and machine:
        errors.append(Case("moved", args, prefix=one, pause=PAUSE_S, predict=["--vcpus", "1"], fit=machine).compare()[1])
    for name in ("step_s", "dataloading_s"):
        values = [v for e in errors for v in e[name]]
        if values:
            print(f"all: {name}: median {100 * statistics.median(values):.1f} % of {len(values)} points")
    if not args.keep:
        shutil.rmtree(args.folder)


if __name__ == "__main__":
    main()
