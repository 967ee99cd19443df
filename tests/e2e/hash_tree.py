"""The hash tree of states and payloads, as docs/audit.md has it."""
import hashlib

LEAF_BYTES = 16384


def merkle_root(data):
    level = [hashlib.sha256(b"\0" + data[i:i + LEAF_BYTES]).digest() for i in range(0, len(data), LEAF_BYTES)]
    while len(level) > 1:
        pairs = [hashlib.sha256(b"\1" + a + b).digest() for a, b in zip(level[::2], level[1::2])]
        level = pairs + level[2 * len(pairs):]
    return level[0]
