#!/usr/bin/env python3
"""How fast `stepgauge import` reads logs: megabytes per second and memory, by kind of text.

    bench/import/logs.py [build/release/stepgauge] [MEGABYTES]

Writes a log of each kind to a temporary folder, reads each three times and keeps the best; beside it the time that
`wc -w` takes for the same file.
"""
import os
import resource
import subprocess
import sys
import tempfile
import time

LEROBOT = ("INFO 2026-08-08 15:23:49 ot_train.py:606 step:{i} smpl:{s} ep:229 epch:2.12 loss:0.111 grdn:1.272 lr:9.8e-05 "
           "updt_s:0.413 data_s:0.043 smp/s:140 mem_gb:19.87 l1_loss:0.499\n")
BLOCK = ("#" * 80 + "\n                            Learning iteration {i}/9999999\n\n"
         "                            Total steps: {s}\n                       Steps per second: 1581\n"
         "                        Collection time: 0.102s\n                          Learning time: 0.060s\n"
         "                        Mean value loss: 19.6685\n                            Mean reward: -4.08\n"
         "           Episode_Reward/track_lin_vel_xy_exp: 0.0063\n" + "-" * 80 + "\n"
         "                         Iteration time: 0.16s\n                                    ETA: 00:00:09\n")
KINDS = {
    "lerobot lines": ("", LEROBOT),
    "rsl_rl blocks": ("", BLOCK),
    "tqdm frames": (LEROBOT.format(i=1, s=64), "Training:   0%|#                   | {i}/99999999 [02:04<14:26:28,  1.92step/s]\r"),
    "one line of tqdm": (LEROBOT.format(i=1, s=64), "Training:   0%|#                | {i}/99999999 [02:04<14:26:28,  1.92step/s]"),
    "warnings": (LEROBOT.format(i=1, s=64), "/usr/lib/python3/site-packages/x.py:{i}: UserWarning: the given array is not writable, and more\n"),
    "wandb json": ("", '{{"_step":{i},"train/steps":{i},"train/samples":{s},"train/update_s":0.412345,"train/loss":0.0211}}\n'),
    "wandb csv": ("_step,train/steps,train/samples,train/update_s,train/loss\n", "{i},{i},{s},0.412345,0.0211\n"),
}


def write(path, head, line, bytes_wanted):
    with open(path, "w") as out:
        out.write(head)
        written, i = 0, 1
        while written < bytes_wanted:
            text = "".join(line.format(i=k, s=64 * k) for k in range(i, i + 1000))
            out.write(text)
            written += len(text)
            i += 1000


def best(command):
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/release/stepgauge"
    megabytes = float(sys.argv[2]) if len(sys.argv) > 2 else 200
    print(f"{'text':18} {'MB':>6} {'MB/s':>7} {'wc -w MB/s':>11} {'memory MiB':>11}")
    with tempfile.TemporaryDirectory() as folder:
        for kind, (head, line) in KINDS.items():
            path = os.path.join(folder, "x.log")
            write(path, head, line, 1e6 * megabytes)
            size = os.path.getsize(path) / 1e6
            read_s, words_s = best([program, "import", path]), best(["wc", "-w", path])
            usage = subprocess.run(["/usr/bin/time", "-f", "%M", program, "import", path], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, check=True)
            peak = int(usage.stderr.split()[-1]) / 1024
            print(f"{kind:18} {size:6.0f} {size / read_s:7.0f} {size / words_s:11.0f} {peak:11.1f}", flush=True)


if __name__ == "__main__":
    main()
