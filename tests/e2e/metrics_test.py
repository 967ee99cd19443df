"""Metrics, health and readiness of a coordinator, with real HTTP and a real Prometheus."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

from harness import REGIONS, free_port, wait_until
from run_by_hand import RunByHand

SOURCE = pathlib.Path(os.environ["CAUSEWAY_SOURCE"])
TOOLS = f"{os.environ['PATH']}:{SOURCE / 'build-tools/prometheus/usr/bin'}"


def tool(name):
    return shutil.which(name, path=TOOLS)


def get(url):
    """Status and text of an answer."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


class Metrics(RunByHand):
    def start_run(self, steps=100_000):
        self.start_coordinators_with_metrics(steps)
        self.workers = self.start_workers(self.config_file, (1, 1, 1))

    def start_coordinators_with_metrics(self, steps):
        self.config_file = self.config(addresses=self.addresses, steps=steps)
        prices = self.directory / "prices.toml"
        prices.write_text("default_per_gb = 1000")
        text = self.config_file.read_text()
        self.config_file.write_text(f'{text}\n[links]\nprices = "{prices}"\n[budget]\nper_day = 1e6\n')
        self.coordinators = [
            self.start("coordinator", self.config_file, "--region", region, "--found" if region == REGIONS[0] else "--join",
                       "--directory", self.region_directory(region), "--metrics", "127.0.0.1:0")
            for region in REGIONS]
        self.ports = [self.port_of(coordinator) for coordinator in self.coordinators]

    def port_of(self, coordinator):
        said = wait_until(lambda: re.search(r"metrics at port (\d+)", coordinator.log.read_text()), "the port", coordinator)
        return int(said[1])

    def end(self):
        for child in (*self.workers, *self.coordinators):
            child.kill()
            child.wait()

    def value(self, name, port):
        found = re.search(rf"^causeway_{name}{{.*}} (\S+)$", get(f"http://127.0.0.1:{port}/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else 0

    def test_metrics_health_and_readiness_follow_the_run(self):
        self.start_run()
        first = self.ports[0]
        wait_until(lambda: self.value("rounds_applied_total", first) >= 3, "three rounds", self.coordinators[0])
        self.assertEqual(get(f"http://127.0.0.1:{first}/healthz"), (200, "ok\n"))
        wait_until(lambda: get(f"http://127.0.0.1:{first}/readyz") == (200, "ok\n"), "readiness", self.coordinators[0])
        self.assertGreater(self.value("link_sent_bytes_total", first), 1000)
        self.assertGreater(self.value("egress_cost_total", first), 0.001)
        wait_until(lambda: self.value("budget_limit", first) == 1e6, "the budget", self.coordinators[0])  # status.json is behind the rounds
        self.assertGreater(self.value("budget_forecast", first), self.value("budget_spent", first))
        self.assertEqual(get(f"http://127.0.0.1:{first}/")[0], 404)
        rounds = self.value("rounds_applied_total", first)
        steps = self.value("steps_total", first)
        self.workers[0].kill()
        wait_until(lambda: get(f"http://127.0.0.1:{first}/readyz") == (503, "no worker is attached\n"), "no worker", self.coordinators[0])
        self.assertEqual((self.value("workers_missing", first), self.value("tokens_per_second", first)), (1, 0))
        for child in self.coordinators[1:]:
            child.kill()
        wait_until(lambda: get(f"http://127.0.0.1:{first}/readyz") == (503, "no leader is known\n"), "no leader")
        self.assertEqual(get(f"http://127.0.0.1:{first}/healthz")[0], 200)
        self.coordinators[0].kill()
        self.coordinators[0].wait()
        again = self.start("coordinator", self.config_file, "--region", REGIONS[0], "--directory",
                           self.region_directory(REGIONS[0]), "--metrics", "127.0.0.1:0")
        self.coordinators.append(again)
        self.assertGreaterEqual(self.value("rounds_applied_total", self.port_of(again)), rounds)
        self.assertGreaterEqual(self.value("steps_total", self.port_of(again)), steps, "no worker has reported to it")
        self.end()

    def test_whoever_sends_rubbish_or_nothing_holds_nobody_up(self):
        self.start_run()
        silent = [socket.create_connection(("127.0.0.1", self.ports[0])) for _ in range(4)]
        rubbish = socket.create_connection(("127.0.0.1", self.ports[0]))
        rubbish.sendall(b"GET /metrics HTTP/9.9\r\nx: " + b"y" * 100_000)
        wait_until(lambda: get(f"http://127.0.0.1:{self.ports[0]}/healthz")[0] == 200, "an answer", self.coordinators[0])
        for one in (*silent, rubbish):
            one.close()
        self.coordinators[0].send_signal(signal.SIGTERM)
        self.finish(self.coordinators[0], code=130)
        self.end()

    def test_more_connections_than_a_process_may_open_files_cost_the_run_nothing(self):
        few = 1024
        self.allow_open_files(2 * few)
        self.start_run()
        first = self.ports[0]
        resource.prlimit(self.coordinators[0].pid, resource.RLIMIT_NOFILE, (few, few))
        slow = []
        for _ in range(few + 76):
            slow.append(socket.create_connection(("127.0.0.1", first)))
            slow[-1].sendall(b"GET /metr")
        rounds = self.value("rounds_applied_total", first)
        wait_until(lambda: get(f"http://127.0.0.1:{first}/healthz") == (200, "ok\n"), "it to have started", self.coordinators[0])
        wait_until(lambda: self.value("rounds_applied_total", first) >= rounds + 2, "two more rounds", self.coordinators[0])
        self.assertEqual(get(f"http://127.0.0.1:{first}/healthz"), (200, "ok\n"))
        self.assertNotIn("Too many open files", self.coordinators[0].log.read_text())
        for one in slow:
            one.close()
        self.end()

    def allow_open_files(self, count):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], count), before[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)

    def test_a_coordinator_without_a_free_descriptor_goes_on_when_there_is_one(self):
        self.start_run()
        coordinator = self.coordinators[1]
        wait_until(lambda: self.version(REGIONS[1]) >= 2, "two rounds", coordinator)
        before = resource.prlimit(coordinator.pid, resource.RLIMIT_NOFILE)
        self.assertEqual(*before, "it is to take what it may have")
        resource.prlimit(coordinator.pid, resource.RLIMIT_NOFILE, (8, before[1]))
        wait_until(lambda: "its storage fails" in coordinator.log.read_text(), "the coordinator to say so", coordinator)
        self.assertIn("Too many open files", coordinator.log.read_text())
        resource.prlimit(coordinator.pid, resource.RLIMIT_NOFILE, before)
        rounds = self.version(REGIONS[1])
        wait_until(lambda: self.version(REGIONS[1]) >= rounds + 2, "two more rounds", coordinator)
        self.end()

    def test_an_address_that_is_none_is_said_at_once(self):
        config = self.config(addresses=self.addresses)
        self.assertIn("nonsense", self.finish(self.coordinator(config, REGIONS[0], "--found", "--metrics", "nonsense"), code=2))

    def test_the_page_lists_each_metric_that_the_code_names(self):
        code = (SOURCE / "apps/run/watch/region_metrics.cc").read_text()
        named = {f"causeway_{name}" for name in re.findall(r'out\.(?:counter|gauge|gauge_of_\w+)\(\s*"(\w+)"', code)}
        rows = [line for line in (SOURCE / "docs/operate.md").read_text().splitlines() if line.startswith("| `causeway_")]
        self.assertEqual(named, set(re.findall(r"`(causeway_\w+)`", "".join(row.split("|")[1] for row in rows))))

    def test_the_page_says_what_to_do_about_each_alert(self):
        alerts = re.findall(r"alert: (\w+)", (SOURCE / "deploy/prometheus/alerts.yml").read_text())
        self.assertEqual(sorted(alerts), sorted(re.findall(r"^\| `(Causeway\w+)`", (SOURCE / "docs/operate.md").read_text(), re.M)))

    def prometheus(self):
        """A server that scrapes the run every second; its address."""
        targets = json.dumps([f"127.0.0.1:{port}" for port in self.ports])
        rules = SOURCE / "deploy/prometheus/alerts.yml"
        text = (SOURCE / "deploy/prometheus/scrape.yml").read_text()
        text = re.sub(r"targets: \[.*\]", f"targets: {targets}", text).replace("15s", "1s").replace("- alerts.yml", f"- {rules}")
        (self.directory / "prometheus.yml").write_text(text)
        port = free_port()
        with (self.directory / "prometheus.log").open("w") as log:
            server = subprocess.Popen(
                [tool("prometheus"), "--config.file", self.directory / "prometheus.yml", "--storage.tsdb.path",
                 self.directory / "tsdb", "--web.listen-address", f"127.0.0.1:{port}"], stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        wait_until(lambda: get(f"http://127.0.0.1:{port}/-/ready")[0] == 200, "Prometheus", server)
        return f"http://127.0.0.1:{port}/api/v1"

    def query(self, api, expression):
        answer = json.loads(get(f"{api}/query?" + urllib.parse.urlencode({"query": expression}))[1])
        self.assertEqual(answer["status"], "success", (expression, answer))
        return answer["data"]["result"]

    @unittest.skipUnless(shutil.which("prometheus", path=TOOLS), "Prometheus is not here: ./check fetches it")
    def test_a_real_prometheus_scrapes_a_run_and_answers_every_query_of_the_dashboard(self):
        self.start_run()
        wait_until(lambda: self.value("rounds_applied_total", self.ports[0]) >= 3, "three rounds", self.coordinators[0])
        checked = subprocess.run([tool("promtool"), "check", "metrics"], input=get(f"http://127.0.0.1:{self.ports[0]}/metrics")[1],
                                 capture_output=True, text=True)
        self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))
        api = self.prometheus()
        wait_until(lambda: len(self.query(api, "rate(causeway_steps_total[5s])")) == 3, "two scrapes of each region")
        panels = json.loads((SOURCE / "deploy/grafana/causeway.json").read_text())["panels"]
        for target in (target for panel in panels for target in panel["targets"]):
            if "validation" not in target["expr"]:  # this run has none
                found = self.query(api, target["expr"].replace("$__rate_interval", "5s").replace("$run", ".*"))
                self.assertTrue(found, f"no result: {target['expr']}")
        self.coordinators[2].kill()
        wait_until(lambda: self.query(api, 'up{job="causeway"} == 0'), "the region to be seen as down")
        wait_until(lambda: "CausewayRegionDown" in get(f"{api}/alerts")[1], "the alert")
        self.end()

    @unittest.skipUnless(shutil.which("prometheus", path=TOOLS), "Prometheus is not here: ./check fetches it")
    def test_a_run_that_is_over_pages_nobody_and_is_seen_as_over(self):
        self.start_coordinators_with_metrics(steps=400)
        api = self.prometheus()
        wait_until(lambda: len(self.query(api, 'count_over_time(up{job="causeway"}[1m]) >= 2')) == 3, "two scrapes of each region")
        self.workers = self.start_workers(self.config_file, (1, 1, 1))
        self.finish_all([*self.workers, *self.coordinators])
        wait_until(lambda: len(self.query(api, 'up{job="causeway"} == 0')) == 3, "Prometheus to see that nobody is there")
        self.assertEqual([one["value"][1] for one in self.query(api, "last_over_time(causeway_ended_well[1h])")], ["1"] * 3)
        rule = next(rule for rule in self.rules(api) if rule["name"] == "CausewayRegionDown")
        self.assertEqual(self.query(api, rule["query"]), [])
        table = self.run_causeway("status", "--config", self.config_file, "--certificates", "certificates", "--as", REGIONS[0], code=3)
        self.assertIn("NOT SEEN", table, "no directory of the run is where the configuration has it")
        (self.directory / "runs/e2e").mkdir(parents=True)
        (self.directory / "runs/e2e" / REGIONS[1]).symlink_to(self.region_directory(REGIONS[1]))
        table = self.run_causeway("status", "--config", self.config_file, "--certificates", "certificates", "--as", REGIONS[0])
        self.assertNotIn("NOT SEEN", table)
        self.assertIn("finished", table)

    def rules(self, api):
        return json.loads(get(f"{api}/rules")[1])["data"]["groups"][0]["rules"]

    @unittest.skipUnless(shutil.which("promtool", path=TOOLS), "promtool is not here: ./check fetches it")
    def test_each_alert_fires_where_it_should_and_none_where_all_is_well(self):
        for words in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml"), ("check", "config", "scrape.yml")):
            told = subprocess.run([tool("promtool"), *words], cwd=SOURCE / "deploy/prometheus", capture_output=True, text=True)
            self.assertEqual(told.returncode, 0, told.stdout + told.stderr)


if __name__ == "__main__":
    unittest.main()
