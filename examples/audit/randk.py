"""The positions that `randk` keeps of a chunk (docs/wire-format.md, "What is kept")."""

MASK = (1 << 32) - 1


def philox(counter, seed):
    """Philox4x32-10 (Salmon et al., 2011): four words of four words of counter."""
    c, k = list(counter), [seed & MASK, seed >> 32 & MASK]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & MASK, p >> 32 ^ c[3] ^ k[1], p & MASK]
        k = [k[0] + 0x9E3779B9 & MASK, k[1] + 0xBB67AE85 & MASK]
    return c


def positions(k, seed, round, chunk, size=4096):
    words = [word for i in range(-(-k // 4)) for word in philox([i, round & MASK, chunk & MASK, chunk >> 32], seed)]
    chosen = set()
    for last, word in zip(range(size - k, size), words):
        at = word * (last + 1) >> 32
        chosen.add(last if at in chosen else at)
    return sorted(chosen)
