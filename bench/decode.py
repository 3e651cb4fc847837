#!/usr/bin/env python3
"""Frames decoded by stepgauge's modules and by what trainers use, from the same files, in turn.

    python bench/decode.py [--stepgauge build/release/stepgauge] [--modules build/release/modules] [--seconds 1] [--json FILE]

Peers: PyAV and torchcodec for videos, PIL for images; those that are not installed are left out and said. Every side keeps its
file open, decodes with one thread, is asked for the same frames in the same shuffled order and ends with [3, height, width]
bytes of RGB in memory of its own. A value is a batch of 8 frames; sides take turns, so that what disturbs one disturbs all. The
ratio is peer's median time / ours: above 1 we are faster. Frames are also compared: the mean difference is in grey levels.
"""
import argparse
import ctypes
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

FPS, FRAMES, BATCH = 30, 60, 8
SIZES = ((240, 320), (480, 640), (720, 1280))
CLIPS = (("av1", 2), ("av1", 30), ("h264", 2), ("h264", 30))


# ---- stepgauge's table of functions (datasets/codec/codec.h) -----------------------------------------------------------


class Status(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 1024)]


class Count(ctypes.Structure):
    _fields_ = [("frames", ctypes.c_int64), ("decoded", ctypes.c_int64), ("seeks", ctypes.c_int64)]


POINTER, DOUBLE, INT64, INT = ctypes.c_void_p, ctypes.c_double, ctypes.c_int64, ctypes.c_int
OPEN = ctypes.CFUNCTYPE(INT, ctypes.c_char_p, INT, ctypes.POINTER(POINTER), POINTER)
CLOSE = ctypes.CFUNCTYPE(None, POINTER)
READ = ctypes.CFUNCTYPE(INT, POINTER, DOUBLE, DOUBLE, POINTER, POINTER, POINTER)
IMAGE_READ = ctypes.CFUNCTYPE(INT, ctypes.c_char_p, ctypes.c_size_t, INT64, INT64, POINTER, POINTER)


class Api(ctypes.Structure):
    _fields_ = [("abi", ctypes.c_uint32), ("name", ctypes.c_char_p), ("libraries", ctypes.c_char_p), ("video_open", OPEN),
                ("video_close", CLOSE), ("video_info", POINTER), ("video_read", READ), ("video_write", POINTER),
                ("image_size", POINTER), ("image_read", IMAGE_READ), ("image_write", POINTER)]


def module(folder, name):
    library = ctypes.CDLL(os.path.join(folder, f"stepgauge_{name}.so"))
    library.sg_module_codec.restype = ctypes.POINTER(Api)
    return library.sg_module_codec().contents


class Ours:
    name = "stepgauge"

    def __init__(self, api, path, shape):
        self.api, self.status, self.count, self.video = api, Status(), Count(), POINTER()
        self.shape = shape
        self.check(api.video_open(path.encode(), 1, ctypes.byref(self.video), ctypes.byref(self.status)))

    def check(self, code):
        if code:
            sys.exit(self.status.text.decode())

    def frame(self, i):
        rgb = np.empty((3, *self.shape), np.uint8)
        self.check(self.api.video_read(self.video, i / FPS, 1e-3, rgb.ctypes.data, ctypes.byref(self.count),
                                       ctypes.byref(self.status)))
        return rgb


class OurImages(Ours):
    def __init__(self, api, files, shape):
        self.api, self.status, self.files, self.shape = api, Status(), files, shape

    def frame(self, i):
        rgb = np.empty((3, *self.shape), np.uint8)
        with open(self.files[i % len(self.files)], "rb") as file:
            data = file.read()
        self.check(self.api.image_read(data, len(data), *self.shape, rgb.ctypes.data, ctypes.byref(self.status)))
        return rgb


# ---- peers --------------------------------------------------------------------------------------------------------


class PyAV:
    """Seek to the key frame before, decode up to the frame: as LeRobot's reader without torchcodec."""
    name = "PyAV"

    def __init__(self, path):
        import av
        self.container = av.open(path)
        self.stream = self.container.streams.video[0]
        self.stream.thread_type, self.stream.thread_count = "NONE", 1

    def frame(self, i):
        base = self.stream.time_base
        self.container.seek(int(i / FPS / base), stream=self.stream, backward=True)
        found = None
        for frame in self.container.decode(self.stream):
            found = frame
            if frame.pts * base >= i / FPS - 1e-3:
                break
        return np.ascontiguousarray(found.to_ndarray(format="rgb24").transpose(2, 0, 1))


class TorchCodec:
    name = "torchcodec"

    def __init__(self, path):
        import torch
        from torchcodec.decoders import VideoDecoder
        torch.set_num_threads(1)
        self.decoder = VideoDecoder(path, num_ffmpeg_threads=1, seek_mode="approximate", dimension_order="NCHW")

    def frame(self, i):
        return self.decoder.get_frame_at(i).data.contiguous().numpy()


class PIL:
    name = "PIL"

    def __init__(self, files):
        import PIL.Image
        self.open, self.files = PIL.Image.open, files

    def frame(self, i):
        with self.open(self.files[i % len(self.files)]) as image:
            return np.ascontiguousarray(np.asarray(image.convert("RGB")).transpose(2, 0, 1))


def opened(kinds, path):
    sides = []
    for kind in kinds:
        try:
            sides.append(kind(path))
        except (ImportError, OSError, RuntimeError) as error:
            print(f"{kind.name} is left out: {str(error).splitlines()[0][:120]}", file=sys.stderr)
    return sides


# ---- in turn ------------------------------------------------------------------------------------------------------


def frames_of(batch):
    golden = (math.sqrt(5) - 1) / 2
    return [int((k * golden % 1) * FRAMES) for k in range(BATCH * batch, BATCH * (batch + 1))]


def in_turn(sides, seconds):
    """Processor seconds per frame of each side, and how far its frames are from the first side's."""
    values = [[] for _ in sides]
    apart = [0.0] * len(sides)
    first = [side.frame(7) for side in sides]
    for k, frame in enumerate(first):
        apart[k] = float(np.abs(frame.astype(int) - first[0].astype(int)).mean())
    batch, end = 0, time.monotonic() + seconds * len(sides)
    while batch < 5 or time.monotonic() < end:
        wanted = frames_of(batch)
        for k in range(len(sides)):
            k = (k + batch) % len(sides)
            start = time.process_time()
            for i in wanted:
                sides[k].frame(i)
            values[k].append((time.process_time() - start) / BATCH)
        batch += 1
    return [statistics.median(v) for v in values], apart


def make(program, folder, kind, codec, size, gop):
    path = os.path.join(folder, f"{codec}-{size[0]}-{gop}")
    subprocess.run([program, "dataset", "make", path, "--kind", kind, "--codec", codec, "--episodes", "1",
                    "--frames-per-episode", str(FRAMES if gop else 12), "--cameras", "1", "--image-size",
                    f"{size[0]}x{size[1]}", *(["--gop", str(gop)] if gop else [])], check=True, stdout=subprocess.DEVNULL)
    endings = (".mp4", ".png", ".jpg", ".jpeg")
    return sorted(p for p in glob.glob(path + "/**", recursive=True) if p.endswith(endings))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stepgauge", default="build/release/stepgauge")
    parser.add_argument("--modules", default="build/release/modules")
    parser.add_argument("--seconds", type=float, default=1, help="for each side of each row")
    parser.add_argument("--json")
    options = parser.parse_args()
    os.environ["STEPGAUGE_MODULES"] = os.path.abspath(options.modules)
    video, image = module(options.modules, "video"), module(options.modules, "image")
    rows = []
    print(f"{'codec':6}{'pixels':>12}{'GOP':>5}  {'side':12}{'ms/frame':>10}{'ratio':>8}{'apart':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            for codec, gop in (*CLIPS, ("png", 0), ("jpeg", 0)):
                if gop:
                    path = make(options.stepgauge, folder, "lerobot-v3.0", codec, size, gop)[0]
                    sides = [Ours(video, path, size), *opened((PyAV, TorchCodec), path)]
                else:
                    files = make(options.stepgauge, folder, "images", codec, size, gop)
                    sides = [OurImages(image, files, size), *opened((PIL,), files)]
                medians, apart = in_turn(sides, options.seconds)
                for side, seconds, far in zip(sides, medians, apart):
                    rows.append({"codec": codec, "height": size[0], "width": size[1], "gop": gop, "side": side.name,
                                 "seconds": seconds, "ratio": seconds / medians[0], "apart": far})
                    print(f"{codec:6}{size[0]:>6} x{size[1]:>4}{gop or '-':>5}  {side.name:12}{1e3 * seconds:10.3f}"
                          f"{seconds / medians[0]:8.2f}{far:8.2f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
