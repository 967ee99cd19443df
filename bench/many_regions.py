"""What an exchange of every region with every other one gives in 2 to 64 regions, for models of 1 to 100 billion parameters.

    python3 bench/many_regions.py PATH/TO/causeway RESULTS.jsonl [--only NAME] [--jobs 2]
    python3 bench/many_regions.py --report RESULTS.jsonl

Each case is `causeway tune --parameters`: the real round protocol in virtual time, with payloads that are names with a size. Beside it
stands a bound that is computed, not rehearsed: what a reduce-scatter and an all-gather of 8 bits a parameter would move and take, without
any agreement, waiting or unequal regions. Resumable: what is in RESULTS.jsonl is not done again.
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time

# Parameters, and the time of a step that Streaming DiLoCo's Table 4 (arXiv 2501.18512) has for them.
MODELS = {"1B": (1e9, 100), "10B": (10e9, 800), "100B": (100e9, 4900)}
# The profile; what a region sends in all, Mbit/s; money per 10^9 bytes.
LINKS = {"cloud": ("configs/wan/cloud-ten-regions.toml", 25_000, 0.02),  # half of a NIC of 50 Gbit/s; assumed price
         "commodity": ("configs/wan/commodity.toml", 1_000, 0.0)}         # a port of 1 Gbit/s, at a flat price
CODECS = {"int8": "dense:int8,block=128", "sparse": "topk:k=64,chunk=4096,value=2bit,index=elias-fano"}
REGIONS = [2, 4, 8, 16, 32, 64]
K, FRAGMENTS, OVERLAP = 100, 10, 5
# Eight GPUs of a region, each as fast as one H200 encodes 124 million parameters (RESULTS.md: 20.2 ms); disks are assumed.
CODEC_GB_S, DISK_GB_S = 200, 5
BOUND_BITS = 8.125
# Every round waits for all: exchanges of hours are longer than the usual grace.
WAITS = ["--set", "sync.grace_min_s=1e6", "--set", "sync.grace_max_s=1e6"]


def case(model, links, regions, codec, variant="synchronous", topology="direct", exchange="full"):
    return {"model": model, "links": links, "regions": regions, "codec": codec, "variant": variant, "topology": topology,
            "exchange": exchange}


def grids():
    """Table by table."""
    return {
        "regions": [case(model, links, regions, codec)
                    for model in MODELS for links in LINKS for codec in CODECS for regions in REGIONS],
        "sharded": [case(model, links, regions, "int8", exchange="sharded")
                    for model in MODELS for links in LINKS for regions in REGIONS if regions > 2],
        "variants": [case("10B", links, regions, codec, variant) for links in LINKS for codec in CODECS for regions in (2, 4, 8, 16, 32)
                     for variant in ("streaming", "eager")],
        "topologies": [case("10B", links, regions, codec, topology=topology)
                       for links in LINKS for codec in CODECS for regions in (4, 8, 16, 32)
                       for topology in ("ring", "relay", "auto")]}


def rounds(one):
    """Of a rehearsal, measured: few where they cost minutes."""
    return 3 if one["regions"] <= 8 else 2 if one["regions"] <= 16 else 1


def command(causeway, one, directory):
    parameters, step_ms = MODELS[one["model"]]
    profile, region_mbit_s, price = LINKS[one["links"]]
    prices = directory / "prices.toml"
    prices.write_text(f"default_per_gb = {price}\n")
    return [causeway, "tune", "--json", "--parameters", f"{parameters:.0f}", "--step-ms", f"{step_ms}", "--links", profile,
            "--regions", f"{one['regions']}", "--region-mbit-s", f"{region_mbit_s}", "--codec-gb-s", f"{CODEC_GB_S}",
            "--disk-gb-s", f"{DISK_GB_S}", "--codec", CODECS[one["codec"]], "--variant", one["variant"], "--topology", one["topology"],
            "--k", f"{K}", "--fragments", f"{FRAGMENTS}", "--overlap-steps", f"{OVERLAP}", "--rounds", f"{rounds(one)}",
            "--prices", str(prices), "--cache", str(directory), "--set", f"sync.exchange={json.dumps(one['exchange'])}", *WAITS]


def bound(one, told):
    """Bytes that a region sends, and the utilisation, if 8 bits were scattered, reduced and gathered: two R-ths over each link."""
    parameters, step_ms = MODELS[one["model"]]
    payload, regions = parameters * BOUND_BITS / 8, one["regions"]
    region_s = 2 * (regions - 1) / regions * payload / (LINKS[one["links"]][1] * 125_000)
    slowest_s = max(2 * payload / regions * link["beta_s_per_byte"] for link in told["link_probes"])
    farthest_s = max(link["alpha_s"] for link in told["link_probes"])
    codec_s = 4 * 4 * parameters / (CODEC_GB_S * 1e9)  # encoded and decoded twice
    steps_s = K * step_ms / 1e3
    round_s = steps_s + codec_s + max(region_s, slowest_s) + 2 * farthest_s
    return {"bytes": 2 * (regions - 1) / regions * payload, "utilisation": steps_s / round_s}


def rehearse(causeway, one):
    began = time.time()
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(command(causeway, one, pathlib.Path(directory)), capture_output=True, text=True)
    if not done.stdout:
        sys.exit(done.stderr)
    told = json.loads(done.stdout)
    row = told["rows"][0]
    return one | {"payload_bytes": told["probe"]["codecs"][0]["payload_bytes"], "complete": row["complete"],
                  "round_s": row["predicted_round_s"], "utilisation": row["predicted_utilisation"], "participation": row["participation"],
                  "bytes_per_region": row["bytes_per_round"] / one["regions"], "cost_per_round": row["cost_per_round"],
                  "bound": bound(one, told), "took_s": round(time.time() - began, 1)}


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(arguments):
    path = pathlib.Path(arguments.results)
    known = [{name: row[name] for name in case(*[None] * 4)} for row in read(path)]
    wanted = [one for name, grid in grids().items() if arguments.only in ("", name) for one in grid if one not in known]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool, path.open("a") as out:
        for row in pool.map(lambda one: rehearse(arguments.causeway, one), wanted):
            out.write(json.dumps(row) + "\n")
            out.flush()


def size(count):
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def cell(row):
    if not row["complete"]:
        return "does not complete"
    missed = f" ({100 * row['participation']:.0f} % take part)" if row["participation"] < 0.995 else ""
    return f"{100 * row['utilisation']:.1f}{missed}"


def find(rows, **wanted):
    return next((row for row in rows if all(row[name] == value for name, value in wanted.items())), None)


def line(*cells):
    print("| " + " | ".join(cells) + " |")


def report_regions(rows):
    rows = [row for row in rows if row["variant"] == "synchronous" and row["topology"] == "direct"]
    sharded = [row for row in rows if row["exchange"] == "sharded"]
    rows = [row for row in rows if row["exchange"] == "full"]
    for links in LINKS:
        print(f"\nUtilisation in %, {links} links, K = {K}, synchronous, direct:\n")
        line("model", "codec", *[f"R = {regions}" for regions in REGIONS])
        line(*["---"] * (len(REGIONS) + 2))
        for model in MODELS:
            for codec in CODECS:
                found = [find(rows, links=links, model=model, codec=codec, regions=regions) for regions in REGIONS]
                line(model, codec, *[cell(row) if row else "" for row in found])
            found = [find(sharded, links=links, model=model, regions=regions) for regions in REGIONS]
            line(model, "int8, sharded", *[cell(row) if row else "" for row in found])
            found = [find(rows + sharded, links=links, model=model, codec="int8", regions=regions) for regions in REGIONS]
            line(model, "bound, 8 bits", *[f"{100 * row['bound']['utilisation']:.1f}" if row else "" for row in found])
    print("\nBytes that a region sends in a round, and what all of them cost at 0.02 a GB (cloud):\n")
    line("model", "codec", *[f"R = {regions}" for regions in REGIONS])
    line(*["---"] * (len(REGIONS) + 2))
    for model in MODELS:
        for codec in CODECS:
            found = [find(rows, links="cloud", model=model, codec=codec, regions=regions) for regions in REGIONS]
            line(model, codec, *[f"{size(row['bytes_per_region'])}, {row['cost_per_round']:.3g}" if row else "" for row in found])
        found = [find(sharded, links="cloud", model=model, regions=regions) for regions in REGIONS]
        line(model, "int8, sharded", *[f"{size(row['bytes_per_region'])}, {row['cost_per_round']:.3g}" if row else "" for row in found])
        found = [find(rows + sharded, links="cloud", model=model, codec="int8", regions=regions) for regions in REGIONS]
        line(model, "bound, 8 bits",
             *[f"{size(row['bound']['bytes'])}, {row['bound']['bytes'] * row['regions'] * 0.02e-9:.3g}" if row else "" for row in found])


def report_choices(rows, name, among):
    print(f"\nUtilisation in %, 10B, K = {K}, by {name}:\n")
    columns = [regions for regions in REGIONS if find(rows, regions=regions, **{name: among[-1]})]
    line("links", "codec", name, *[f"R = {regions}" for regions in columns])
    line(*["---"] * (len(columns) + 3))
    for links in LINKS:
        for codec in CODECS:
            for choice in among:
                wanted = {"variant": "synchronous", "topology": "direct", "exchange": "full"} | {name: choice}
                found = [find(rows, links=links, model="10B", codec=codec, regions=regions, **wanted) for regions in columns]
                line(links, codec, choice, *[cell(row) if row else "" for row in found])


def report(path):
    rows = read(path)
    REGIONS[:] = [regions for regions in REGIONS if find(rows, regions=regions)]
    report_regions(rows)
    report_choices(rows, "variant", ["synchronous", "streaming", "eager"])
    report_choices(rows, "topology", ["direct", "ring", "relay", "auto"])
    print(f"\n{len(rows)} rehearsals, {sum(row['took_s'] for row in rows) / 60:.0f} min of them one after the other; the longest "
          f"{max(row['took_s'] for row in rows):.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", metavar="RESULTS", type=pathlib.Path)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="causeway, and the results' file")
    parser.add_argument("--only", default="", choices=["", *grids()], help="one table")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.report:
        return report(arguments.report)
    if len(arguments.programs) != 2:
        parser.error("which causeway, and which file of results?")
    arguments.causeway, arguments.results = arguments.programs
    return measure(arguments)


if __name__ == "__main__":
    sys.exit(main())
