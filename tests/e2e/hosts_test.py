"""Regions of several hosts: each host a network namespace, with one network for all and a faster one inside each region."""
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from harness import CAUSEWAY, DENSE, REGIONS, EndToEnd, namespaces_allowed, read_json, wait_until

PYTHON_TOOLS = pathlib.Path(os.environ["CAUSEWAY_SOURCE"]) / "build-python/bin"
TORCHRUN = shutil.which("torchrun", path=os.pathsep.join((os.environ["PATH"], str(PYTHON_TOOLS))))
TOGETHER = REGIONS[:2]
HOSTS = [(region, host) for region in range(2) for host in range(2)]

# Prints a pid for each host, in the order of HOSTS: whoever enters its namespaces is on that host. 10.0.0.0/24 joins all of them,
# 10.1.REGION.0/24 those of one region. Ends with its standard input.
NETWORKS = """
set -e
ip link set lo up
ip link add wide type bridge && ip link set wide up
for region in 0 1; do
  ip link add region$region type bridge && ip link set region$region up
  for host in 0 1; do
    unshare --net --uts sleep infinity & holder=$!
    until [ "$(readlink /proc/$holder/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do :; done
    in="nsenter --target $holder --net --uts"
    $in hostname host-$region-$host
    $in ip link set lo up
    for network in wide region$region; do
      ip link add $network-$host type veth peer name inside netns $holder
      ip link set $network-$host name p$region$host${network%%[0-9]*} master $network up
      name=wan0 address=10.0.0.$((10 * region + host + 1))
      [ $network = wide ] || name=fast0 address=10.1.$region.$((host + 1))
      $in ip link set inside name $name up
      $in ip address add $address/24 dev $name
    done
    echo $holder
  done
done
echo ready
cat > /dev/null
"""


@unittest.skipUnless(namespaces_allowed(), "network namespaces are not allowed here")
class Hosts(EndToEnd):
    def setUp(self):
        super().setUp()
        self.run_causeway("certs", "--directory", "certificates", "init")
        self.run_causeway("certs", "--directory", "certificates", "add-region", *TOGETHER)
        self.networks = subprocess.Popen(["unshare", "--user", "--net", "--map-root-user", "sh", "-c", NETWORKS], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.holders = dict(zip(HOSTS, (int(self.networks.stdout.readline()) for _ in HOSTS)))
        self.assertEqual(self.networks.stdout.readline().strip(), "ready")

    def tearDown(self):
        super().tearDown()
        os.killpg(self.networks.pid, signal.SIGKILL)
        self.networks.wait()
        self.networks.stdin.close()
        self.networks.stdout.close()

    def on(self, host, *command, env=None):
        return self.start_program("nsenter", "--target", self.holders[host], "--user", "--net", "--uts", "--preserve-credentials", *command,
                                  env={"OMP_NUM_THREADS": "1", **(env or {})})

    def directory_of(self, region):
        return self.out / "regions" / TOGETHER[region]

    def coordinator(self, config, region):
        return self.on((region, 0), CAUSEWAY, "coordinator", config, "--region", TOGETHER[region], "--directory", self.directory_of(region),
                       "--auto", "--worker-listen", f"10.1.{region}.1:7800")

    def worker(self, config, region, rank):
        return self.on((region, rank), CAUSEWAY, "worker", config, "--region", TOGETHER[region], "--directory", self.directory_of(region),
                       "--rank", rank, "--coordinator", f"10.1.{region}.1:7800")

    def sent(self, host, interface):
        done = subprocess.run(["nsenter", "--target", str(self.holders[host]), "--user", "--net", "--preserve-credentials", "ip", "-json", "-s",
                               "link", "show", interface], capture_output=True, text=True, check=True)
        return int(done.stdout.split('"tx":{"bytes":')[1].split(",")[0])

    def version(self, region):
        return read_json(self.directory_of(region) / "status.json").get("version", 0)

    def configured(self, steps):
        addresses = {name: f"10.0.0.{10 * region + 1}:7700" for region, name in enumerate(TOGETHER)}
        return self.config(workers=(2, 2), addresses=addresses, steps=steps, **DENSE)

    def start_all(self, steps):
        config = self.configured(steps)
        return config, [self.coordinator(config, region) for region in range(2)], {host: self.worker(config, *host) for host in HOSTS}

    def assert_same_bits(self):
        digests = {read_json(self.directory_of(region) / "result.json")["params_digest"] for region in range(2)}
        self.assertEqual(len(digests), 1)

    def test_ranks_on_two_hosts_meet_on_the_network_inside_their_region(self):
        _, coordinators, workers = self.start_all(steps=60)
        for child in (*coordinators, *workers.values()):
            self.finish(child)
        self.assert_same_bits()
        for region, rank in HOSTS:
            self.assertIn("network fast0", (self.directory_of(region) / f"worker-{rank}.log").read_text())
        parameters = read_json(self.directory_of(0) / "result.json")["steps"] * 4 * 10_000  # a gradient has more than that
        for region in range(2):
            self.assertGreater(self.sent((region, 1), "fast0"), parameters)
            self.assertLess(self.sent((region, 1), "wan0"), 100_000)  # only coordinators talk between regions

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not here: ./check --launchers")
    def test_mpirun_starts_the_ranks_of_each_region_on_its_two_hosts(self):
        agent = self.directory / "agent"  # in place of ssh: enters the host of that address
        entries = "\n".join(f"10.1.{region}.{host + 1}) pid={pid} ;;" for (region, host), pid in self.holders.items())
        agent.write_text(f'#!/bin/sh\ncase $1 in\n{entries}\nesac\nshift\nexec nsenter --target $pid --net --uts sh -c "$*"\n')
        agent.chmod(0o755)
        config = self.configured(steps=60)
        children = [self.coordinator(config, region) for region in range(2)]
        for region in range(2):
            children.append(self.on((region, 0), "mpirun", "--allow-run-as-root", "-n", "2", "--host", f"10.1.{region}.1,10.1.{region}.2",
                                    "--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", "fast0", "-x", f"MASTER_ADDR=10.1.{region}.1",
                                    CAUSEWAY, "worker", config, "--region", TOGETHER[region], "--directory", self.directory_of(region),
                                    "--certificates", self.directory / "certificates", "--coordinator", f"10.1.{region}.1:7800"))
        for child in children:
            self.finish(child)
        self.assert_same_bits()
        for region, rank in HOSTS:
            self.assertIn("network fast0", (self.directory_of(region) / f"worker-{rank}.log").read_text())
        self.assertGreater(self.sent((0, 1), "fast0"), 60 * 40_000)

    @unittest.skipUnless(TORCHRUN, "torchrun is not here: ./check --python fetches it")
    def test_torchrun_starts_the_ranks_of_each_region_on_its_two_hosts(self):
        config = self.configured(steps=60)
        children = [self.coordinator(config, region) for region in range(2)]
        for region, host in HOSTS:
            children.append(self.on((region, host), TORCHRUN, "--nnodes", "2", "--node-rank", host, "--nproc-per-node", "1", "--master-addr",
                                    f"10.1.{region}.1", "--master-port", "29500", "--no-python", CAUSEWAY, "worker", config, "--region",
                                    TOGETHER[region], "--directory", self.directory_of(region), "--coordinator", f"10.1.{region}.1:7800"))
        for child in children:
            self.finish(child)
        self.assert_same_bits()
        self.assertGreater(self.sent((0, 1), "fast0"), 60 * 40_000)

    def test_a_host_of_a_region_that_dies_is_missed_and_comes_back(self):
        config, coordinators, workers = self.start_all(steps=100_000)
        wait_until(lambda: self.version(1) > 2, "rounds", coordinators[1])
        workers[1, 1].kill()
        workers[1, 1].wait()
        wait_until(lambda: read_json(self.directory_of(1) / "status.json").get("missing_ranks") == [1], "a missing rank", coordinators[1])
        reached = self.version(1)
        wait_until(lambda: self.version(1) > reached + 2, "the rank that is left to go on", coordinators[1])
        workers[1, 1] = self.worker(config, 1, 1)
        wait_until(lambda: read_json(self.directory_of(1) / "status.json").get("missing_ranks") == [], "the rank to be back", coordinators[1])
        for child in (*coordinators, *workers.values()):
            child.send_signal(signal.SIGTERM)
        for child in (*coordinators, *workers.values()):
            self.finish(child, code=130)
        self.run_causeway("verify", *map(self.directory_of, range(2)), "--certificates", "certificates")


if __name__ == "__main__":
    unittest.main()
