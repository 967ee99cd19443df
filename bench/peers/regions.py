"""Starts the training program in four regions of the packet engine, with Causeway or with a peer between them."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

TRAIN = pathlib.Path(__file__).resolve().parent / "train.py"
# Within a namespace of this run's own, so that no other program has it.
PORT = 7500
FAULT_AT_S, FAULT_FOR_S = 30, 30

CAUSEWAY = {
    "causeway-int8": '[outer]\noptimizer = "nesterov"\nlr = 0.7\nmomentum = 0.9\n[codec]\nmatrix = "dense:int8,block=128"\n',
    "causeway-streaming": ('[outer]\noptimizer = "nesterov"\nlr = 0.7\nmomentum = 0.9\n[codec]\nmatrix = "dense:int8,block=128"\n'
                           '[sync]\nvariant = "streaming"\nfragments = 2\noverlap_steps = 5\n'),
    "causeway-sparse": ('[outer]\noptimizer = "sgd"\nlr = 1.7\n[codec]\nmatrix = "topk:k=106,chunk=4096,value=2bit,index=rice"\n'
                        'vector = "dense:1bit"\nfeedback = true\nfeedback_decay = 1.0\n'),
}


class Failed(Exception):
    pass


def end(process):
    """A WAN, a run and their children end in order when they are asked to; what does not is killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def kill_all_of(process):
    """With all that it started: hivemind leaves processes behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Wan:
    """The packet engine, its output in a file: nobody has to read a pipe while the regions train."""

    def __init__(self, causeway, directory, regions):
        self.out = directory / "wan.out"
        with self.out.open("w") as out:
            self.process = subprocess.Popen([causeway, "wan-sim", directory / "wan.toml", "--engine", "packet"], stdout=out,
                                            stderr=subprocess.STDOUT)
        try:
            self.addresses = self.wait_for_addresses(regions)
        except BaseException:
            end(self.process)
            raise

    def wait_for_addresses(self, regions):
        while True:
            found = dict(re.findall(r"^([a-z0-9-]+)\s+(\d+\.\d+\.\d+\.\d+)", self.out.read_text(), re.MULTILINE))
            if set(regions) <= set(found):
                return found
            if self.process.poll() is not None:
                raise Failed(f"the packet engine did not start: {self.out.read_text()[-400:]}")
            time.sleep(0.1)

    def device(self, region):
        """Name of the interface with the region's address, and the bytes that it has sent, headers included."""
        words = [*inside(region), "ip", "-json", "-stats", "address"]
        for each in json.loads(subprocess.check_output(words, text=True)):
            if any(address.get("local") == self.addresses[region] for address in each["addr_info"]):
                return each["ifname"], each["stats64"]["tx"]["bytes"]
        raise Failed(f"no interface of {region} has {self.addresses[region]}")

    def close(self):
        end(self.process)
        return "INVALID" not in self.out.read_text()


def inside(region):
    return ["ip", "netns", "exec", f"causeway-{region}"]


def tail(directory):
    return " | ".join(f"{path.name}: {path.read_text()[-300:].strip()}" for path in sorted(directory.glob("*.err")))


def wait_for_all(ranks, limit_s, directory, fault=()):
    """`fault`, a generator, is gone on with again and again, and may replace a process of `ranks`."""
    until = time.monotonic() + limit_s
    fault = iter(fault)
    while next(fault, None) is not None or any(rank.poll() is None for rank in ranks):
        if any(rank.poll() not in (None, 0, -signal.SIGKILL) for rank in ranks):
            raise Failed(f"a region's program failed: {tail(directory)}")
        if time.monotonic() > until:
            raise Failed(f"not done after {limit_s} s: {tail(directory)}")
        time.sleep(0.05)
    if any(rank.returncode for rank in ranks):
        raise Failed(f"a region's program failed: {tail(directory)}")


def kill_the_last(ranks, start_it_again):
    """A generator that kills the last region at FAULT_AT_S and starts it again after FAULT_FOR_S."""
    for after_s, act in ((FAULT_AT_S, lambda: kill_all_of(ranks[-1])), (FAULT_FOR_S, lambda: ranks.append(start_it_again()))):
        until = time.monotonic() + after_s
        while time.monotonic() < until:
            yield True
        act()
    ranks.pop(-2).wait()


def events(fault, regions):
    """The part of a scenario that the packet engine, or `causeway simulate`, carries out."""
    when = f"\n[[event]]\nat_s = {FAULT_AT_S}\nfor_s = {FAULT_FOR_S}\n"
    if fault == "black-hole":
        return when + f'pair = ["{regions[0]}", "{regions[1]}"]\nfault = "black-hole"\n'
    return when + f'process = "kill"\nregion = "{regions[-1]}"\n' if fault == "kill" else ""


def by_peer(causeway, directory, environment, regions, limit_s):
    """DDP or torchft; bytes that each region's interface sent, and whether the packet engine kept up."""
    wan = Wan(causeway, directory, regions)
    first = wan.addresses[regions[0]]
    started = []

    def start(region, words, **more):
        with (directory / f"{len(started)}.err").open("w") as err:
            # ip becomes the program, which a signal to it therefore reaches.
            started.append(subprocess.Popen([*inside(region), sys.executable, *words], env=dict(environment, **more), stdout=err,
                                            stderr=subprocess.STDOUT, start_new_session=True))
        return started[-1]

    def start_rank(rank):
        region = regions[rank]
        # One thread, as the program has it: hivemind computes in a process that it forks, where more of them wait for each other for ever.
        return start(region, [TRAIN, directory / "log-"], OMP_NUM_THREADS="1", RANK=str(rank), WORLD_SIZE=str(len(regions)),
                     MASTER_ADDR=first, MASTER_PORT=str(PORT), OWN_ADDR=wan.addresses[region], TORCHFT_LIGHTHOUSE=f"http://{first}:{PORT}",
                     GLOO_SOCKET_IFNAME=wan.device(region)[0])

    valid = False
    try:
        if environment["SYSTEM"] in ("diloco", "local_sgd"):
            start(regions[0], [TRAIN.with_name("lighthouse.py"), f"{first}:{PORT}", environment["MIN_REGIONS"]])
        ranks = [start_rank(rank) for rank in range(len(regions))]
        fault = kill_the_last(ranks, lambda: start_rank(len(regions) - 1)) if environment["FAULT"] == "kill" else ()
        wait_for_all(ranks, limit_s, directory, fault)
        sent = [wan.device(region)[1] for region in regions]
    finally:
        for process in started:
            kill_all_of(process)
        valid = wan.close()
    return sent, valid


def by_causeway(causeway, directory, environment, regions, limit_s):
    """Bytes that each region's sockets sent, TLS included, and whether the packet engine kept up."""
    text = (f'[run]\nname = "peers"\nseed = 1\n[train]\nsteps = {environment["STEPS"]}\nk = {environment["K"]}\n'
            f'{CAUSEWAY[environment["NAME"]]}[wan]\nprofile = "{directory / "wan.toml"}"\n')
    (directory / "run.toml").write_text(text + "".join(f'[[regions]]\nname = "{region}"\n' for region in regions))
    with (directory / "simulate.err").open("w") as err:
        run = subprocess.Popen([causeway, "simulate", directory / "run.toml", "--wan", "packet", "--no-baseline", "--out",
                                directory / "run", "--worker", f"{sys.executable} {TRAIN} {directory / 'log-'}"],
                               env=environment, stdout=err, stderr=subprocess.STDOUT)
    try:
        wait_for_all([run], limit_s, directory)
    finally:
        end(run)
    summary = json.loads((directory / "run" / "summary.json").read_text())
    if not summary["identical"]:
        raise Failed("the regions ended with different parameters")
    return [region["wan_tx_bytes"] for region in summary["regions"]], "INVALID" not in (directory / "simulate.err").read_text()
