"""LeRobot's own data loader, timed in parts: a frame, the rest of a sample, the worker's hand-over, the trainer's.

A sample is LeRobotDataset's: rows of its tables, delta timestamps (the chunk of actions; observations before), frames by its
video backend. It is timed with and without its frames in turn; the difference over the frames is a frame. Batches are those of
torch's DataLoader as the trainer makes it: spawned persistent workers, prefetch 4, LeRobot's sampler, uint8 where the release
can (return_uint8).
"""

import inspect
import json
import os
import time

import torch
from torch.utils.data import DataLoader

from .timing import statistic

PREFETCH, SEED = 4, 1
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def read_info(folder):
    with open(os.path.join(folder, "meta", "info.json"), encoding="utf-8") as file:
        return json.load(file)


def cameras_of(info):
    return [key for key, feature in info["features"].items() if feature["dtype"] in ("video", "image")]


def is_video(info):
    return any(feature["dtype"] == "video" for feature in info["features"].values())


def deltas(info, chunk, observations, horizon_back=0):
    """Delta timestamps as a policy's configuration gives them: a chunk of actions, and earlier observations."""
    fps = info["fps"]
    wanted = {"action": [(i - horizon_back) / fps for i in range(chunk)]} if chunk > 0 else {}
    if observations > 1:
        for key in info["features"]:
            if key.startswith("observation."):
                wanted[key] = [i / fps for i in range(1 - observations, 1)]
    return wanted or None


def open_dataset(folder, backend, chunk, observations=1):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    options = {"root": folder, "video_backend": backend, "delta_timestamps": deltas(read_info(folder), chunk, observations)}
    if "return_uint8" in inspect.signature(LeRobotDataset.__init__).parameters:
        options["return_uint8"] = True
    return LeRobotDataset("local/" + os.path.basename(os.path.abspath(folder)), **options)


def sampler_of(dataset):
    """The trainer's, or torch's shuffle in releases whose trainer takes that for policies that drop no frames."""
    try:
        from lerobot.datasets.sampler import EpisodeAwareSampler

        episodes = dataset.meta.episodes
        return EpisodeAwareSampler(episodes["dataset_from_index"], episodes["dataset_to_index"], shuffle=True)
    except (ImportError, TypeError, KeyError):
        return torch.utils.data.RandomSampler(dataset)


class WithoutFrames:
    """While it is entered, the data set's samples come without frames: videos are not decoded, columns of images not read."""

    def __init__(self, dataset, info):
        self.dataset, self.cameras, self.video = dataset, cameras_of(info), is_video(info)
        self.reader = getattr(dataset, "reader", None) or dataset

    def __enter__(self):
        if self.video:
            self.reader._query_videos = lambda *_: {}
        else:
            self.kept = self.reader.hf_dataset
            self.reader.hf_dataset = self.rows = getattr(self, "rows", None) or self.kept.remove_columns(self.cameras)

    def __exit__(self, *_):
        if self.video:
            del self.reader._query_videos
        else:
            self.reader.hf_dataset = self.kept


def clocks():
    return time.perf_counter(), time.process_time()


def since(start):
    now = clocks()
    return now[0] - start[0], now[1] - start[1]


def take(dataset, indices):
    for i in indices:
        dataset[i]


def bytes_of(batch):
    return sum(v.numel() * v.element_size() for v in batch.values() if isinstance(v, torch.Tensor))


def sample_parts(dataset, folder, batch, rounds):
    """{frame_s, frame_wall_s, rows_s, collate_s}: processor seconds (but wall-clock) of one frame, of a sample's rows, of a
    sample in collation; each a statistic over rounds of `batch` samples."""
    info = read_info(folder)
    generator = torch.Generator().manual_seed(SEED)
    order = torch.randperm(len(dataset), generator=generator).tolist()
    without = WithoutFrames(dataset, info)
    first = dataset[order[0]]
    frames = sum(first[key].shape[0] if first[key].ndim == 4 else 1 for key in cameras_of(info))
    with without:
        take(dataset, order[:2])
    seen = {"frame_s": [], "frame_wall_s": [], "rows_s": [], "collate_s": []}
    for i in range(rounds):
        indices = [order[(i * batch + k) % len(order)] for k in range(batch)]
        start = clocks()
        items = [dataset[k] for k in indices]
        whole_wall, whole = since(start)
        with without:
            start = clocks()
            take(dataset, indices)
            rows_wall, rows = since(start)
        start = clocks()
        torch.utils.data.default_collate(items)
        collate = since(start)[1]
        seen["frame_s"].append(max(whole - rows, 0) / batch / frames)
        seen["frame_wall_s"].append(max(whole_wall - rows_wall, 0) / batch / frames)
        seen["rows_s"].append(rows / batch)
        seen["collate_s"].append(collate / batch)
    sample_bytes = sum(v.numel() * v.element_size() for v in first.values() if isinstance(v, torch.Tensor))
    return {
        "frames": frames,
        "sample_bytes": sample_bytes,
        "bytes_per_value": next(first[key].element_size() for key in cameras_of(info)),
        **{name: statistic(values) for name, values in seen.items()},
    }


def process_cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S



def batches(dataset, workers, batch, seconds, pause_s=0.0):
    """Runs torch's DataLoader for about `seconds` behind the first prefetched batches: samples/s, worker processor seconds
    per batch, the trainer's wait per batch (with a pause between batches: what taking a ready one costs)."""
    options = {"prefetch_factor": PREFETCH, "persistent_workers": True, "multiprocessing_context": "spawn"} if workers else {}
    loader = DataLoader(dataset, batch_size=batch, sampler=sampler_of(dataset), num_workers=workers, drop_last=False, **options)
    fill, waits, samples, n, size = PREFETCH * workers + 1, [], 0, 0, 0
    counted = None
    while counted is None or time.perf_counter() - counted[0] < seconds:
        source = iter(loader)
        for _ in range(len(loader)):
            start = clocks()
            got = next(source)
            wait = since(start)
            n += 1
            if n == fill:
                # what was made ahead is gone; from here on the workers' rate counts
                pids = [w.pid for w in loader._iterator._workers] if workers else []
                counted, cpu = clocks(), [process_cpu_s(p) for p in pids]
            elif counted:
                waits.append(wait)
                samples += got["index"].shape[0]
                size = size or bytes_of(got)
            del got
            if pause_s:
                time.sleep(pause_s)
            if counted and time.perf_counter() - counted[0] > seconds:
                break
    wall, own_cpu = since(counted)
    worker_cpu = sum(process_cpu_s(p) - c for p, c in zip(pids, cpu)) if workers else own_cpu
    done = max(1, len(waits))
    result = {
        "workers": workers,
        "samples_per_s": samples / wall,
        "cpu_s_per_sample": worker_cpu / max(1, samples),
        "wait": statistic([w[0] for w in waits] or [0]),
        "take_cpu_s": own_cpu / done,
        "batch_bytes": size,
        "batches": done,
    }
    loader._iterator = None
    return result
