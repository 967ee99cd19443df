"""What bench/run.py measures, row by row: the command, and where the ratio stands in what it prints.

A ratio is ours against a peer or a limit of the same run, and higher is better: of times and of CPU time it is the peer's over ours.
"""
import json
import re
import statistics
import time

import measuring
from measuring import Bench, figure, figures

BENCHES = []


def bench(*commands, rows, needs=(), sizes=()):
    """Of the function that reads what the last command prints."""
    def add(read):
        BENCHES.append(Bench(commands, rows, read, needs, sizes))
        return read
    return add


def summary(here):
    return json.loads((here.scratch / "run/summary.json").read_text())


# ---- Training ----

def train(shape, repeats):
    fp32, bf16, plain = (f"train {shape}: {name}" for name in ("fp32 step", "bf16 step", "fp32 step without optimizer"))

    @bench(f"bench_train_step {shape} --repeats {repeats}",
           rows={fp32: "of oneDNN's bare products", bf16: "of oneDNN's bare products", plain: "times a plain OpenMP step"})
    def read(text, here):
        parts = dict(zip((fp32, bf16), re.split(r"^(?=\w)", text, flags=re.M)[1:]))
        ratios = {name: figure(r"bare oneDNN products +([\d.]+) ms", part) / figure(r"step with AdamW +([\d.]+) ms", part)
                  for name, part in parts.items()}
        reference_ms = figure(r"plain OpenMP reference +([\d.]+) ms", parts[fp32])
        return ratios | {plain: reference_ms / figure(r"step without optimizer +([\d.]+) ms", parts[fp32])}


train("124m", 3)
train("quickstart", 15)


@bench("TORCH_PYTHON bench/step_peers.py bench_train_step --turns 1", needs=("torch",),
       rows={f"train quickstart: {precision} step, PyTorch": "times the better one of eager and compiled" for precision in ("fp32", "bf16")})
def step_peers(text, here):
    return {f"train quickstart: {precision} step, PyTorch": figure(rf"^  {precision}: ([\d.]+) times", text) for precision in ("fp32", "bf16")}


@bench("env -C SCRATCH OMP_NUM_THREADS=1 bench_step_proof quickstart.toml",
       rows={"step proof: hashes": "of OpenSSL's SHA-256", "step proof: file": "of a plain write"})
def step_proof(text, here):
    hashed, write_ms, megabytes = figures(r"^hashes .*\(([\d.]+) GB/s\), file ([\d.]+) ms \(([\d.]+) MB\)", text)[0]
    return {"step proof: hashes": hashed / measuring.openssl_sha256_gb_per_s(),
            "step proof: file": megabytes / write_ms / measuring.write_gb_per_s(here.scratch / "plain", int(megabytes * 1e6))}


@bench("python3 bench/outer_round.py causeway --millions 50 --rounds 4",
       rows={"outer round: CPU": "of one copy of a span", "outer round: CPU of a start": "of one copy of a span",
             "outer round: saving": "of the disk's rate"})
def outer_round(text, here):
    copies = [copies for (copies,) in figures(r"^round: .* = ([\d.]+) copies", text)]
    saved_gb, took_s, disk_gb_per_s = figures(r"^saved ([\d.]+) GB, the last of it ([\d.]+) s after .* takes ([\d.]+) GB/s", text)[0]
    return {"outer round: CPU": len(copies) / sum(copies), "outer round: CPU of a start": 1 / figure(r"^start: .* = ([\d.]+) copies", text),
            "outer round: saving": saved_gb / took_s / disk_gb_per_s}


# ---- Codecs ----

CODECS = {"int8": "dense:int8,block=128", "top-64": "topk:k=64"}
CODEC_ROWS = {  # row: its line in the table of bench_codec, and the peer
    "codec: encode int8": ("encode dense:int8,block=128 on 1", "memcpy"),
    "codec: decode int8": ("decode dense:int8,block=128 on 1", "memcpy"),
    "codec: encode top-64": ("encode topk:k=64 on 1", "memcpy"),
    "codec: decode top-64": ("decode topk:k=64 on 1", "read"),
} | {f"codec: select {k} of 4096": (f"select {k}", "read") for k in (41, 64, 128, 512)}
CODEC_PAIRS = {f"codec: {way} {name} on two threads": (f"{way} {spec} on 2", f"{way} {spec} on 1")
               for name, spec in CODECS.items() for way in ("encode", "decode")}
INDICES = ("rice", "elias-fano")


def codec_ratio(text, name, beside):
    own, other = figures(rf"^{re.escape(name)} +([\d.]+) GB/s \| +([\d.]+) {re.escape(beside)} +\|", text)[0]
    return own / other


@bench("bench_codec 33554432 2", rows={name: f"of {beside}" for name, (_, beside) in CODEC_ROWS.items()} |
       {f"codec: {index} {what}": of for index in INDICES
        for what, of in (("encode", "of memcpy"), ("decode", "of memcpy"), ("size", "entropy over bits"))},
       sizes=("codec: rice size", "codec: elias-fano size"))
def codec(text, here):
    ratios = {name: codec_ratio(text, *pair) for name, pair in CODEC_ROWS.items()}
    memcpy = figure(r" GB/s \| +([\d.]+) memcpy ", text)
    for index in INDICES:
        of_entropy, encoded, decoded = figures(rf"^{index}, .* ([\d.]+) of the entropy; .* at ([\d.]+) GB/s, .* at ([\d.]+) GB/s", text)[0]
        ratios |= {f"codec: {index} encode": encoded / memcpy, f"codec: {index} decode": decoded / memcpy,
                   f"codec: {index} size": 1 / of_entropy}
    return ratios


@bench("bench_codec 8388608 6", rows={name: "times one thread" for name in CODEC_PAIRS}, needs=("two cores",))
def codec_threads(text, here):
    return {name: codec_ratio(text, *pair) for name, pair in CODEC_PAIRS.items()}


@bench("bench_codec 8388608 2", rows={f"codec: select {k} of 4096, PyTorch": "times torch.topk" for k in (41, 64, 512)}, needs=("torch",))
def codec_torch(text, here):
    theirs = here.run("TORCH_PYTHON bench/codec_torch.py 8388608")
    return {f"codec: select {k} of 4096, PyTorch": figure(rf"^select {k} +([\d.]+) GB/s", text) / figure(rf"k={k}: ([\d.]+) GB/s", theirs)
            for k in (41, 64, 512)}


def payload(name, spec):
    row = f"payload: GPT-2 124M, {name}"

    @bench(f"bench_payload_size {spec} dense:int8", rows={row: "times smaller than fp32"}, sizes=(row,))
    def read(text, here):
        parameters, size = figures(r"^payload of (\d+) parameters: (\d+) bytes", text)[0]
        return {row: 4 * parameters / size}


for codec_name, codec_spec in CODECS.items():
    payload(codec_name, codec_spec)


# ---- Links and the simulated WAN ----

@bench("bench_links pki SCRATCH/pki", "bench_links allgather SCRATCH 2 32000000 9",
       rows={"links: connection alone": "of raw TLS", "links: connection alone, CPU": "of raw TLS",
             "links: all-gather": "of raw TLS with files", "links: all-gather with hashes, CPU": "of raw TLS with files",
             "links: hashing": "of OpenSSL's SHA-256"})
def links(text, here):
    runs = [json.loads(line) for line in text.splitlines()][1:]  # the first one is cold

    def ratio(peer, ours, what):
        return statistics.median(run[peer][what] for run in runs) / statistics.median(run[ours][what] for run in runs)
    hashed = 1 / statistics.median(run["hash_cpu_s_per_gb"] for run in runs)
    return {"links: connection alone": ratio("raw", "ours_link", "s"),
            "links: connection alone, CPU": ratio("raw", "ours_link", "cpu_s_per_gb"),
            "links: all-gather": ratio("raw_files", "ours", "s"),
            "links: all-gather with hashes, CPU": ratio("raw_files", "ours", "cpu_s_per_gb"),
            "links: hashing": hashed / measuring.openssl_sha256_gb_per_s()}


@bench("python3 bench/links.py causeway bench_links SCRATCH/links --rows 1 --only '1000 Mbit/s'",
       rows={"links: 1 Gbit/s": "of iperf3"}, needs=("root", "iperf3"))
def links_shaped(text, here):
    return {"links: 1 Gbit/s": json.loads((here.scratch / "links").read_text())["ours"]["of_ideal"]}


@bench("bench_relay", rows={f"relay: {rate} Mbit/s": "of the rate set" for rate in (10, 100, 1000)} |
       {"relay: 16 MB": "of the model's time", "relay: round trip of 2 ms": "of the one set",
        "relay: CPU at 1 Gbit/s": "of plain TCP over loopback"})
def relay(text, here):
    rate = {set_to: figures(rf"^ +{set_to} +([\d.]+) +\S+ % .* ([\d.]+)$", text)[0] for set_to in (10, 100, 1000)}
    model_ms, took_ms = figures(r"^ +100 +16000000 +([\d.]+) +([\d.]+) ", text)[0]
    over_us = figure(r"^ +1000 +2\.0 +-?\d+ +(-?\d+) ", text)
    return {f"relay: {set_to} Mbit/s": measured / set_to for set_to, (measured, _) in rate.items()} | {
        "relay: 16 MB": model_ms / took_ms, "relay: round trip of 2 ms": 2000 / (2000 + over_us),
        "relay: CPU at 1 Gbit/s": measuring.tcp_cpu_s_per_gb() / rate[1000][1]}


@bench("python3 bench/wan_costs.py causeway --mb 60 --rounds 1", needs=("root",),
       rows={f"{engine}: CPU with --{by}": "of it unwatched" for engine, by in (("relay", "http"), ("packet", "http"), ("packet", "pcap"))})
def watching(text, here):
    def cost(engine, by):
        return figure(rf"^\| {engine} \| {by} \| ([\d.]+) ", text)
    return {f"{engine}: CPU with --{by}": cost(engine, "plain") / cost(engine, by)
            for engine, by in (("relay", "http"), ("packet", "http"), ("packet", "pcap"))}


@bench("bench_virtual", rows={f"virtual engine: {what}": "events, of Python's heapq"
                              for what in ("chunks", "protocol", "protocol in chunks")})
def virtual(text, here):
    fastest = min(took_s / virtual_s for virtual_s, took_s in figures(r"^chunks: .* (\d+) s in ([\d.]+) s", text))

    def events_per_s(mode):
        return max(events / took_s for took_s, events in figures(rf"^protocol, {mode}: .* in ([\d.]+) s: .* (\d+) events", text))
    rates = {"chunks": 8 * 125e6 / 65_536 / fastest, "protocol": events_per_s("fluid"), "protocol in chunks": events_per_s("chunks")}
    return {f"virtual engine: {what}": rate / measuring.events_per_s() for what, rate in rates.items()}


@bench("causeway tune SCRATCH/regions.toml --links SCRATCH/links.toml --k 100 --topology direct --variant synchronous "
       "--step-ms 1000 --rehearse 3600 --probe 0.2",
       rows={"tune: an hour of 16 regions": "of 10^6 events of Python's heapq"})
def rehearsal(text, here):
    return {"tune: an hour of 16 regions": 1e6 / measuring.events_per_s(time.process_time) / here.cpu_s}


# ---- Whole runs ----

SIMULATE = "causeway simulate SCRATCH/quickstart.toml --out SCRATCH/run --sample-tokens 0"


@bench(f"{SIMULATE} --set train.steps=200", rows={"quickstart: 200 steps": "of lockstep without a WAN", "quickstart: bytes": "times fewer"},
       sizes=("quickstart: bytes",))
def quickstart(text, here):
    run = summary(here)
    return {"quickstart: 200 steps": run["baseline_wall_s"] / run["wall_s"],
            "quickstart: bytes": run["wan_bytes_if_synced_every_step"] / run["wan_bytes"]}


@bench(f"{SIMULATE} --no-baseline --set train.steps=100 --set train.timed_step_ms=120", rows={"quickstart: timed steps": "of the time"})
def utilisation(text, here):
    return {"quickstart: timed steps": statistics.mean(region["utilisation"] for region in summary(here)["regions"])}


@bench("TORCH_PYTHON bench/module_overhead.py causeway bench_worker_rounds --parameters 10e6 --rounds 12 --turns 1",
       rows={"Python module: a round": "of the C++ worker's"}, needs=("module",))
def module(text, here):
    return {"Python module: a round": 1 / figure(r"^PyTorch / C\+\+: ([\d.]+) of", text)}


# What has a speed ratio in RESULTS.md and is not measured: --list and the end of a run say so.
LEFT_OUT = {
    "steps, rounds and codecs on a GPU": "bench/gpu.sh, on a machine with one",
    "hivemind, torchft, DDP; toxiproxy, mahimahi, tc": "bench/peers.py and bench/wan_peers.py, which need these programs",
    "relay and virtual engine against the kernel's TCP": "bench/relay_versus_packet.py, which takes hours",
    "bursts after idleness, and links that lose packets": "bench/links.py --rows 2,3, which takes a quarter of an hour",
    "rounds under faults, and beside hellos of strangers": "bench/faults.py and bench/hellos.py, which take minutes for noisy figures",
    "predicted against measured time, regret of tune": "bench/tune_accuracy.py and bench/tune_regret.py, which take hours",
}
