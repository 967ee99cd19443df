"""Signatures of Ed25519 (RFC 8032), checked in plain Python: slowly, and only checked."""
import base64
import hashlib
import sys

Q = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, Q) % Q


def add_points(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % Q, (p[1] + p[0]) * (q[1] + q[0]) % Q
    c, d = 2 * p[3] * q[3] * D % Q, 2 * p[2] * q[2] % Q
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % Q, g * h % Q, f * g % Q, e * h % Q


def multiply(scalar, point):
    result = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = add_points(result, point)
        point = add_points(point, point)
        scalar >>= 1
    return result


def decompress(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    square = (y * y - 1) * pow(D * y * y + 1, -1, Q) % Q
    x = pow(square, (Q + 3) // 8, Q)
    if (x * x - square) % Q:
        x = x * pow(2, (Q - 1) // 4, Q) % Q
    if (x * x - square) % Q:
        raise ValueError("no point")
    if x & 1 != sign:
        x = Q - x
    return x, y, 1, x * y % Q


BASE = decompress((4 * pow(5, -1, Q) % Q).to_bytes(32, "little"))


def is_signed(key, content, signature):
    """Ed25519, RFC 8032."""
    if len(signature) != 64:
        return False
    try:
        r, a = decompress(signature[:32]), decompress(key)
    except ValueError:
        return False
    s = int.from_bytes(signature[32:], "little")
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + content).digest(), "little") % L
    left, right = multiply(s, BASE), add_points(r, multiply(h, a))
    return s < L and not (left[0] * right[2] - right[0] * left[2]) % Q and not (left[1] * right[2] - right[1] * left[2]) % Q


def public_key(certificate):
    der = base64.b64decode("".join(certificate.read_text().split("-----")[2].split()))
    mark = bytes.fromhex("302a300506032b6570032100")  # an Ed25519 key follows
    if mark not in der:
        sys.exit(f"{certificate} has no Ed25519 key")
    return der[der.index(mark) + len(mark):][:32]
