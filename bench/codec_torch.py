#!/usr/bin/env python3
"""torch.topk as a peer of bench_codec: rates of input, one thread, beside a copy of the same array in the same process.

Run: python3 bench/codec_torch.py [ELEMENTS]. Says "not run" where PyTorch is missing (Debian: python3-torch).
"""
import sys
import time

try:
    import torch
except ImportError:
    print("torch.topk: not run: PyTorch is not installed")
    sys.exit(0)

CHUNK = 4096
SEGMENT = 1 << 20
KEPT = (41, 64, 128, 512)


def decile(run, segments, repeats):
    """The fastest decile of the times that the segments take, as in bench_codec."""
    times = []
    for _ in range(repeats):
        for segment in segments:
            begin = time.perf_counter()
            run(segment)
            times.append(time.perf_counter() - begin)
    times.sort()
    return times[len(times) // 10]


def main():
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 25
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(count, generator=generator) * 1e-4
    segments = values.view(-1, SEGMENT)
    targets = torch.zeros_like(segments)
    pairs = list(zip(segments, targets))
    copied = SEGMENT * 8 / decile(lambda pair: pair[1].copy_(pair[0]), pairs, 3) * 1e-9
    print(f"torch {torch.__version__}, {count} elements: copy {copied:.2f} GB/s (read and write)")
    for k in KEPT:
        def select(segment, k=k):
            return torch.topk(segment.view(-1, CHUNK).abs(), k, dim=1, sorted=False)
        rate = SEGMENT * 4 / decile(select, segments[:8], 1) * 1e-9
        print(f"topk of each {CHUNK}, k={k}: {rate:.2f} GB/s of input")
    rate = SEGMENT * 4 / decile(lambda s: torch.topk(s.abs(), SEGMENT // 100, sorted=False), segments[:8], 1) * 1e-9
    print(f"topk of each {SEGMENT}, 1 %: {rate:.2f} GB/s of input")


main()
