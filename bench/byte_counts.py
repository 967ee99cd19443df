"""The peers of a byte-level language model: order-n byte counts on the same split.

usage: byte_counts.py FILE [VALIDATION_FRACTION]
Prints nats per byte of P(byte | n bytes before) on the last part of the file, counted on the rest, add-0.01 smoothing.
"""
import collections
import math
import sys


def loss(train, validation, order, smoothing=0.01):
    counts = collections.defaultdict(collections.Counter)
    for i in range(order, len(train)):
        counts[train[i - order:i]][train[i]] += 1
    totals = {context: sum(row.values()) for context, row in counts.items()}
    nats = 0.0
    for i in range(order, len(validation)):
        context = validation[i - order:i]
        seen = counts[context][validation[i]] if context in counts else 0
        nats -= math.log((seen + smoothing) / (totals.get(context, 0) + 256 * smoothing))
    return nats / (len(validation) - order)


def main():
    text = open(sys.argv[1], "rb").read()
    fraction = float(sys.argv[2]) if len(sys.argv) > 2 else 0.05
    split = len(text) - int(len(text) * fraction)
    for order in range(1, 5):
        print(f"order {order}: {loss(text[:split], text[split:], order):.4f} nats per byte")


if __name__ == "__main__":
    main()
