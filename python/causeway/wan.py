"""A simulated WAN before real sockets, for tests: `causeway wan-sim` for as long as a block lasts.

    from causeway.wan import Wan

    with Wan("wan.toml", maps={("us", "eu"): "127.0.0.1:5432"}) as wan:
        client = connect(*wan.address("us", "eu"))    # instead of 127.0.0.1:5432
        wan.change("eu", "us", rate_mbit_s=1, for_s=10)
        wan.cut("eu", "us")
        wan.heal("eu", "us")
        assert wan.link("eu", "us")["bytes"] > 0

It needs the program `causeway` and nothing else. docs/wan-scenarios.md has the scenario file and what happens to a link.

The packet engine, for programs that find each other's addresses by themselves, or whose packets are to be lost, has regions
instead of maps. It needs root or user namespaces:

    with Wan("wan.toml", engine="packet") as wan:
        server = subprocess.Popen([*wan.inside("eu"), "iperf3", "--server", "--one-off"])
        subprocess.run([*wan.inside("us"), "iperf3", "--client", wan.host("eu")], check=True)
"""
import collections
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

_START_S = 30
_ANSWER_S = 30
_END_S = 10
_LINES_KEPT = 100


class WanError(RuntimeError):
    """`causeway wan-sim` failed; the text says why."""


class Wan:
    """A simulated WAN, for as long as a `with` block lasts.

    scenario: a file, or, if it has several lines, the text of one.
    maps: where TO listens, by (FROM, TO), as in `--map`; with ",listen=HOST:PORT" the relay listens there, otherwise on a
        free port of 127.0.0.1.
    record: a file into which everything that happens is written.
    program: the program `causeway`. Default: that of the wheel, or of the PATH.
    engine: "relay", or "packet", which has no maps.
    pcap: a directory into which the packet engine writes the packets of each link.
    """

    def __init__(self, scenario: str | os.PathLike[str], maps: Mapping[tuple[str, str], str] | None = None,
                 record: str | os.PathLike[str] | None = None, program: str | os.PathLike[str] | None = None,
                 engine: str = "relay", pcap: str | os.PathLike[str] | None = None):
        self._scenario = os.fspath(scenario)
        self._maps = dict(maps or {})
        self._record = record
        self._engine = engine
        self._pcap = pcap
        self._program = os.fspath(program) if program else _find_program()
        self._said: collections.deque[str] = collections.deque(maxlen=_LINES_KEPT)
        self._listens = threading.Event()
        self._url = ""
        # Not by way of a proxy that the environment names.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __enter__(self) -> "Wan":
        self._directory = tempfile.TemporaryDirectory(prefix="causeway-wan-")
        try:
            self._start()
        except BaseException:
            self._directory.cleanup()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop()
        self._directory.cleanup()

    def address(self, source: str, target: str) -> tuple[str, int]:
        """Host and port that a program in `source` dials to reach `target`. Only with the relay."""
        for port in self._ask("/maps")["maps"]:
            if (port["from"], port["to"]) == (source, target):
                host, _, number = port["listen"].rpartition(":")
                return host.strip("[]"), int(number)
        raise KeyError(f"no map from {source!r} to {target!r}")

    def host(self, region: str) -> str:
        """The address of a region. Only with the packet engine."""
        return str(self._region(region)["address"])

    def inside(self, region: str) -> list[str]:
        """The words to put before a command, so that it runs in this region. Only with the packet engine."""
        return shlex.split(self._region(region)["enter"])

    def cut(self, a: str, b: str, for_s: float | None = None) -> None:
        """Cuts the links between two regions, for `for_s` seconds or until `heal`. The relay resets their connections and
        refuses new ones. In the packet engine nothing arrives, as on a cable that is cut."""
        self._post("/cut", _with(for_s, pair=[a, b]))

    def heal(self, *pair: str) -> None:
        """Ends cuts and black holes between two regions, or everywhere."""
        self._post("/heal", {"pair": pair} if pair else {})

    def pause(self, a: str, b: str, for_s: float) -> None:
        """For `for_s` seconds nothing enters the links between two regions; connections stay open."""
        self._post("/pause", _with(for_s, pair=[a, b]))

    def change(self, a: str, b: str, for_s: float | None = None, **settings: float) -> None:
        """Changes settings of the links between two regions, by their keys in a scenario: rate_mbit_s, loss, ..."""
        self._post("/command", _with(for_s, pair=[a, b], **settings))

    def command(self, event: str | Mapping[str, Any]) -> None:
        """Does what an [[event]] can do, given as one line or as its keys."""
        self._post("/command", event)

    def link(self, source: str, target: str) -> dict[str, Any]:
        """The link's settings now, and what it has carried (docs/wan-sim.openapi.json, Link)."""
        for link in self.links():
            if (link["from"], link["to"]) == (source, target):
                return link
        raise KeyError(f"no link from {source!r} to {target!r}")

    def links(self) -> list[dict[str, Any]]:
        links: list[dict[str, Any]] = self._ask("/links")["links"]
        return links

    def verdict(self) -> dict[str, Any]:
        """Whether this machine has kept up so far: if it is not "valid", the test saw the machine and not the WAN."""
        verdict: dict[str, Any] = self._ask("/verdict")
        return verdict

    def capture(self, on: bool) -> None:
        """Begins or ends to write packets into the directory `pcap`."""
        self._post("/capture", {"on": on})

    @property
    def url(self) -> str:
        """The URL of the WAN's HTTP port; a browser shows the links there."""
        return self._url

    def _start(self) -> None:
        scenario = self._scenario
        if "\n" in scenario:
            scenario = str(pathlib.Path(self._directory.name) / "wan.toml")
            pathlib.Path(scenario).write_text(self._scenario)
        words = [self._program, "wan-sim", scenario, "--http", "127.0.0.1:0", "--engine", self._engine]
        if self._engine == "packet":
            words += ["--unnamed"]  # so that tests may run side by side
        if self._pcap:
            words += ["--pcap", os.fspath(self._pcap)]
        for (source, target), place in self._maps.items():
            words += ["--map", f"{source}:{target}={place}"]
        if self._record:
            words += ["--record", os.fspath(self._record)]
        self._child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        # Read to the end: the program prints figures, and would stop at a full pipe.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._listens.wait(_START_S) or not self._url:
            self._stop()
            raise WanError("".join(self._said).strip() or f"{self._program} did not start within {_START_S} s")

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._said.append(line)
            if place := re.match(r"(http://\S+)  shows the links", line):
                self._url = place.group(1)
            if line.startswith("Ctrl-C ends it"):
                self._listens.set()
        self._listens.set()  # it has ended

    def _stop(self) -> None:
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._reader.join()
        assert self._child.stdout is not None
        self._child.stdout.close()

    def _region(self, name: str) -> dict[str, Any]:
        for region in self._ask("/regions")["regions"]:
            if region["region"] == name:
                if not region["enter"]:
                    raise WanError("the relay has no networks of regions; give engine=\"packet\", or use address()")
                found: dict[str, Any] = region
                return found
        raise KeyError(f"no region {name!r}")

    def _post(self, path: str, body: str | Mapping[str, Any]) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self._ask(path, text.encode())

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        try:
            with self._opener.open(urllib.request.Request(self._url + path, body), timeout=_ANSWER_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                said = refusal.read().decode(errors="replace").strip()
            raise WanError(json.loads(said)["error"] if said.startswith("{") else said) from None
        except OSError as gone:
            raise WanError("".join(self._said).strip() or str(gone)) from gone


def _with(for_s: float | None, **keys: Any) -> dict[str, Any]:
    return keys if for_s is None else {**keys, "for_s": for_s}


def _find_program() -> str:
    carried = pathlib.Path(__file__).parent / "bin" / "causeway"
    found = str(carried) if carried.exists() else shutil.which("causeway")
    if found is None:
        raise WanError("no program `causeway` on the PATH: install it, or give program=")
    return found
