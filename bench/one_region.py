"""What benchmarks of one region with one worker share: its configuration, with a model of about so many million parameters, and its disk's rate."""
import mmap
import os
import time

SHAPES = {10: (6, 384, 6), 50: (10, 640, 10), 300: (24, 1024, 16)}  # layers, width, heads


def write_config(directory, name, millions, *, steps, k, timed_step_ms, checkpoint_rounds, batch=1, codec="", spool_gib=16):
    """Writes `directory`/config.toml, and a text beside it; gives its path. `codec`: further lines of that table."""
    layers, width, heads = SHAPES[millions]
    (directory / "text").write_text("In the beginning " * 10_000)
    path = directory / "config.toml"
    path.write_text(f"""
[run]
name = "{name}"
[model]
family = "llama"
layers = {layers}
width = {width}
heads = {heads}
context = 64
vocabulary = 2560
[data]
files = ["{directory / 'text'}"]
[train]
batch = {batch}
steps = {steps}
k = {k}
timed_step_ms = {timed_step_ms}
validation_sequences = 2
checkpoint_rounds = {checkpoint_rounds}
[codec]
matrix = "dense:int8,block=128"
vector = "dense:int8,block=128"
{codec}
[sync]
spool_gib = {spool_gib}
[[regions]]
name = "r0"
""")
    return path


def disk_rate(directory, size):
    """Bytes a second of one file of at most 4 GB, written in pieces of 4 MiB and synced: the best of two tries each through the kernel's cache and past it."""
    piece = mmap.mmap(-1, 4 << 20)  # at the beginning of a page
    piece.write(os.urandom(len(piece)))
    pieces = min(size, 4 << 30) // len(piece) + 1
    best = 0
    for way in (0, os.O_DIRECT) * 2:
        began = time.monotonic()
        try:
            file = os.open(directory / "disk", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | way)
        except OSError:  # a file system without a way past the cache
            if way == 0:
                raise
            continue
        for _ in range(pieces):
            os.write(file, piece)
        os.fsync(file)
        os.close(file)
        best = max(best, pieces * len(piece) / (time.monotonic() - began))
        (directory / "disk").unlink()
    return best
