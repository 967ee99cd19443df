#!/usr/bin/env python3
"""The least time that a GPU needs for a step of GPT-2 in bf16: for each kernel the bytes that it must move and the operations that it must do,
against the device's bandwidth and rate. It is the bound to reach, computed from what the kernels read and write; nothing is measured here.

    bench/roofline.py [--batch 64] [--tb-per-s 4.16] [--tflops 790]      # the defaults: what an H200 reached in copies and large products

Bytes count what has to cross the memory bus once: what a kernel reads twice in a row it finds in a cache."""
import argparse
import collections
import dataclasses

BF16, FP32 = 2, 4


@dataclasses.dataclass
class Shape:
    rows: int
    length: int = 1024
    width: int = 768
    hidden: int = 3072
    layers: int = 12
    vocabulary: int = 50_257

    @property
    def columns(self):
        """Of the logits, in whole tiles."""
        return -(-self.vocabulary // 128) * 128

    @property
    def parameters(self):
        w, h = self.width, self.hidden
        block = 4 * w * w + 2 * w * h + 9 * w + h
        return self.vocabulary * w + self.length * w + self.layers * block + 2 * w


class Step:
    def __init__(self):
        self.kernels = collections.OrderedDict()

    def add(self, name, moved, operations=0, times=1):
        row = self.kernels.setdefault(name, [0, 0, 0])
        row[0] += times
        row[1] += times * moved
        row[2] += times * operations

    def product(self, name, rows, inputs, outputs, times=1, more=0, result=BF16):
        """(rows, inputs) by (inputs, outputs), and `more` bytes of its epilogue."""
        moved = BF16 * (rows * inputs + inputs * outputs) + result * rows * outputs + more
        self.add(name, moved, 2 * rows * inputs * outputs, times)


def forward(step, s):
    rw, rh = s.rows * s.width * BF16, s.rows * s.hidden * BF16
    step.add("Embed", s.vocabulary * s.width * FP32 + rw)
    step.add("AddNorm", 2 * rw)
    step.add("AddNorm", 4 * rw, times=2 * s.layers)
    for outputs, more in ((3 * s.width, 0), (s.width, 0), (s.hidden, rh)):  # the last keeps what comes before GELU
        step.product("products forward", s.rows, s.width, outputs, s.layers, more)
    step.product("products forward", s.rows, s.hidden, s.width, s.layers)
    step.add("attention forward", 4 * rw, 2 * s.rows * s.length * s.width, s.layers)
    step.product("head", s.rows, s.width, s.columns)
    step.add("Classify", 2 * s.rows * s.columns * BF16)


def backward(step, s):
    rw, rh = s.rows * s.width * BF16, s.rows * s.hidden * BF16
    step.product("head", s.rows, s.columns, s.width)
    step.product("head", s.columns, s.rows, s.width, result=2 * FP32)  # added to what is there
    step.add("clear", rw + s.parameters * FP32)
    step.add("NormBackward", 4 * rw, times=2 * s.layers + 1)
    for inputs, outputs, more in ((s.hidden, s.width, rh), (s.width, s.hidden, 0), (s.width, s.width, 0), (s.width, 3 * s.width, 0)):
        step.product("products backward", s.rows, outputs, inputs, s.layers, more)
        step.product("products backward", outputs, s.rows, inputs, s.layers, result=2 * FP32)
        step.add("ColumnSums", s.rows * outputs * BF16, times=s.layers)
    step.add("attention backward", 8 * rw, 5 * s.rows * s.length * s.width, s.layers)
    step.add("PositionGradient", rw)
    step.add("TokenGradient", rw + 2 * s.vocabulary * s.width * FP32)


def update(step, s):
    step.add("SquareSums", s.parameters * FP32)
    step.add("AdamWStep", s.parameters * (7 * FP32 + BF16))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--tb-per-s", type=float, default=4.16)
    parser.add_argument("--tflops", type=float, default=790)
    flags = parser.parse_args()
    shape, step = Shape(rows=flags.batch * Shape.length), Step()
    for part in (forward, backward, update):
        part(step, shape)
    print(f"GPT-2, {shape.parameters / 1e6:.1f} million parameters, B = {flags.batch}, T = {shape.length}, at {flags.tb_per_s} TB/s and {flags.tflops:.0f} TFLOP/s")
    print(f"{'kernel':<20}{'times':>6}{'GB':>8}{'TFLOP':>8}{'ms':>8}")
    total = 0
    for name, (times, moved, operations) in step.kernels.items():
        least = max(moved / flags.tb_per_s / 1e9, operations / flags.tflops / 1e9)
        total += least
        print(f"{name:<20}{times:>6}{moved / 1e9:>8.2f}{operations / 1e12:>8.2f}{least:>8.2f}")
    print(f"{'a step':<20}{'':>22}{total:>8.2f}   {shape.rows / total * 1e3 / 1e6:.2f} million tokens/s")


if __name__ == "__main__":
    main()
