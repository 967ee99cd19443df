"""QUIC from another region: how fast a file comes by HTTP/3 when datagrams are lost, with two congestion controls.

    python3 goodput.py [PATH/TO/causeway]     # needs gtlsserver and gtlsclient (Debian: ngtcp2-server, ngtcp2-client), openssl, and causeway on the PATH

The server is in eu, the client in us. The relay passes their datagrams on, drops some by the scenario's seed, and never sends one again: that is QUIC's work.
"""
import contextlib
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from causeway.wan import Wan

SCENARIO = pathlib.Path(__file__).with_name("wan.toml")
FILE_BYTES = 1_000_000
CLIENT_S = 120
WINDOWS = ["--max-data=16M", "--max-stream-data-bidi-local=16M"]  # none that the delay would make the limit


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, directory, congestion):
        self.port = free_port()
        self.child = subprocess.Popen(["gtlsserver", "--quiet", f"--cc={congestion}", f"--htdocs={directory}", "127.0.0.1", str(self.port),
                                       directory / "key.pem", directory / "certificate.pem"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def close(self):
        self.child.kill()
        self.child.wait()


def make_files(directory):
    (directory / "file").write_bytes(random.Random(1).randbytes(FILE_BYTES))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost", "-days", "1",
                    "-keyout", directory / "key.pem", "-out", directory / "certificate.pem"], check=True, capture_output=True)


def fetch(directory, host, port):
    """Seconds until the file is here, from the first datagram on."""
    into = directory / "download"
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    begin = time.monotonic()
    subprocess.run(["gtlsclient", "--quiet", "--exit-on-all-streams-close", f"--download={into}", *WINDOWS, host, str(port),
                    f"https://{host}:{port}/file"], check=True, capture_output=True, timeout=CLIENT_S)
    seconds = time.monotonic() - begin
    if (into / "file").read_bytes() != (directory / "file").read_bytes():
        raise SystemExit("what came is not the file")
    return seconds


def measure(directory, congestion, program):
    with contextlib.ExitStack() as stack:
        server = Server(directory, congestion)
        stack.callback(server.close)
        wan = stack.enter_context(Wan(SCENARIO, {("us", "eu"): f"127.0.0.1:{server.port},udp"}, program=program))
        for loss in (0, 0.05):
            wan.change("eu", "us", loss=loss)
            before = wan.link("eu", "us")["datagrams_lost"]
            seconds = fetch(directory, *wan.address("us", "eu"))
            lost = wan.link("eu", "us")["datagrams_lost"] - before
            print(f"{congestion:<6} {100 * loss:.0f} % lost  {8e-6 * FILE_BYTES / seconds:6.2f} Mbit/s  {seconds:6.2f} s  lost {lost}", flush=True)
        print(wan.verdict()["text"])


def main():
    for program in ("gtlsserver", "gtlsclient", "openssl"):
        if shutil.which(program) is None:
            raise SystemExit(f"needs {program}: apt install ngtcp2-server ngtcp2-client openssl")
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        make_files(directory)
        for congestion in ("cubic", "bbr2"):
            measure(directory, congestion, (sys.argv[1:] or [None])[0])


if __name__ == "__main__":
    main()
