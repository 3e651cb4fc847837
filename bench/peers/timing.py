"""Timing shared by the probe and the comparisons: medians with intervals, clocks, conditions of the machine."""

import math
import os
import time

import torch


def statistic(values, prefix=""):
    """Median, mean and 95 % interval of the median by order statistics (the whole range below six values)."""
    values = sorted(values)
    n = len(values)
    reach = 0.98 * math.sqrt(n)
    low, high = max(0, math.floor((n - 1) / 2 - reach)), min(n - 1, math.ceil((n - 1) / 2 + reach))
    middle = (values[(n - 1) // 2] + values[n // 2]) / 2
    return {
        f"{prefix}median_s": middle,
        f"{prefix}mean_s": sum(values) / n,
        f"{prefix}low": values[low],
        f"{prefix}high": values[high],
        "n": n,
    }


class Clock:
    """Seconds per call, with the device drained before and after."""

    def __init__(self, device):
        self.drain = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)

    def once(self, function, calls=1):
        self.drain()
        start = time.perf_counter()
        for _ in range(calls):
            function()
        self.drain()
        return (time.perf_counter() - start) / calls


def load_average():
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def available_bytes():
    """Memory that can be had without swapping, or None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def bf16_is_native(device):
    """False where PyTorch would compute bf16 products by plain loops, hundreds of times slower."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
