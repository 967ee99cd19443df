"""The files of deploy/ for Kubernetes, SkyPilot and containers, each by its own tool, and what they start with our program."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest
import urllib.request

from harness import CAUSEWAY, DENSE, REGIONS, free_port, read_json, wait_until
from run_by_hand import RunByHand

SOURCE = pathlib.Path(os.environ["CAUSEWAY_SOURCE"])
BUILD = pathlib.Path(os.environ["CAUSEWAY_BUILD"])
PYTHON = SOURCE / "build-tools/launchers/bin/python"
KUBECTL = SOURCE / "build-tools/kubectl/kubectl"
SKYPILOT = SOURCE / "build-tools/skypilot/bin/python"

PARSE = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
# Every key that the file has is one of JobSet's own models.
JOBSET = """
import sys, yaml
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet
def lost(given, kept, path):
    if isinstance(given, dict):
        return [f"{path}.{key}" for key in given if key not in kept] + sum((lost(given[key], kept[key], f"{path}.{key}") for key in given if key in kept), [])
    if isinstance(given, list):
        return sum((lost(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(given, kept, strict=True))), [])
    return [] if given == kept else [path]
given = next(yaml.safe_load_all(open(sys.argv[1])))
sys.exit("\\n".join(lost(given, JobsetV1alpha2JobSet.from_dict(given).to_dict(), "")) or 0)
"""


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def is_alive(group):
    """Whether any process of the group is left that is led by this child."""
    group.poll()
    try:
        os.killpg(group.pid, 0)
    except ProcessLookupError:
        return False
    return True


class InACluster(RunByHand):
    """Commands of a pod's containers, in directories and at ports of the test instead of the pod's."""

    def setUp(self):
        super().setUp()
        self.listen, self.metrics, self.door = free_port(), free_port(), free_port()
        self.addresses[REGIONS[0]] = f"127.0.0.1:{self.listen}"
        for name in ("run", "certificates", "secret"):
            (self.directory / "etc" / name).mkdir(parents=True)
        for name in ("ca.crt", f"{REGIONS[0]}.crt", f"{REGIONS[0]}.key"):
            key = shutil.copy(self.directory / "certificates" / name, self.directory / "etc/secret")
            pathlib.Path(key).chmod(0o440)  # as a pod with fsGroup sees it

    def documents(self, manifest):
        text = self.run_tool(PYTHON, "-c", PARSE, manifest)
        region = str(self.region_directory(REGIONS[0]))
        for there, here in (("/etc/causeway", f"{self.directory}/etc"), ("/var/lib/causeway/$(CAUSEWAY_REGION)", region),
                            ("/var/lib/causeway/$CAUSEWAY_REGION", region), ("/var/lib/causeway/eu", region), ("$(CAUSEWAY_REGION)", REGIONS[0]), ('"eu"', f'"{REGIONS[0]}"'), ("--region eu", f"--region {REGIONS[0]}"),
                            ("0.0.0.0:7700", f"127.0.0.1:{self.listen}"), ("0.0.0.0:7800", f"127.0.0.1:{self.door}"),
                            ("0.0.0.0:9464", f"127.0.0.1:{self.metrics}"), ("$MASTER_ADDR:7800", f"127.0.0.1:{self.door}")):
            text = text.replace(there, here)
        return json.loads(text)

    def run_tool(self, *command, **options):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def check_confined(self, pod):
        """By the strictest of Kubernetes' own pod security standards, `restricted`, and without a token for its API."""
        self.assertIs(pod["automountServiceAccountToken"], False)
        self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        self.assertIs(pod["securityContext"]["runAsNonRoot"], True)
        self.assertEqual(pod["securityContext"]["fsGroupChangePolicy"], "OnRootMismatch")
        mounted = {volume["name"]: volume for volume in pod["volumes"]}
        self.assertEqual(mounted["shared-memory"]["emptyDir"]["medium"], "Memory")
        for container in pod["initContainers"] + pod["containers"]:
            self.assertIn("memory", container["resources"]["limits"], container["name"])
            self.assertIs(container["securityContext"]["allowPrivilegeEscalation"], False, container["name"])
            self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]}, container["name"])

    def check_ends(self, job):
        """A mistake ends it, what passes is not counted, and what is done (0) is not started again."""
        actions = [(rule["action"], rule.get("onExitCodes", {}).get("values")) for rule in job["podFailurePolicy"]["rules"]]
        self.assertEqual(actions, [("FailJob", [2, 3, 4]), ("Ignore", [75]), ("Ignore", None)])
        self.assertEqual(job["template"]["spec"]["restartPolicy"], "Never")

    def probe(self, container):
        """The exit code of its liveness probe, asked once."""
        return subprocess.run(container["livenessProbe"]["exec"]["command"], env={**os.environ, "TMPDIR": str(self.directory)}, check=False).returncode

    def check_probe_of_one_that_waits(self, container):
        """Before there is a coordinator, and before it has anything to report, it is left alone; then it must go on reporting."""
        region = self.region_directory(REGIONS[0])
        self.assertEqual([self.probe(container) for _ in range(3)], [0] * 3)  # its coordinator has not run yet
        region.mkdir(parents=True)
        for said, codes in (("null", [0, 0, 0]), ("5.25", [0, 1, 1]), ("null", [0, 0])):
            (region / "status.json").write_text(f'{{\n  "reported_unix_s": {said},\n  "finished": false\n}}\n')
            self.assertEqual([self.probe(container) for _ in codes], codes, said)
        shutil.rmtree(region)

    def check_worker_probe(self, container, worker):
        """It sees a worker at work, and one that hangs."""
        wait_until(lambda: self.probe(container) == 0, "the worker to report", worker)
        wait_until(lambda: self.probe(container) == 0, "the worker to report again", worker)
        worker.send_signal(signal.SIGSTOP)
        wait_until(lambda: self.probe(container) != 0, "the probe to see that it hangs", worker)
        worker.send_signal(signal.SIGCONT)
        wait_until(lambda: self.probe(container) == 0, "the worker to report after all", worker)

    def start_container(self, container, **environment):
        command = [*container["command"], *container.get("args", ())]
        return self.start_program(*command, env={"OMP_NUM_THREADS": "1", "PATH": f"{pathlib.Path(CAUSEWAY).parent}:{os.environ['PATH']}", **environment})


@unittest.skipUnless(KUBECTL.exists() and PYTHON.exists(), "kubectl and kubernetes-validate are not here: ./check --launchers fetches them")
class Kubernetes(InACluster):
    def kustomized(self, config):
        """The overlay of eu with a run's files beside it, as kubectl would apply it."""
        shutil.copytree(SOURCE / "deploy/kubernetes", self.directory / "kubernetes")
        overlay = self.directory / "kubernetes/eu"
        shutil.copy(config, overlay / "run.toml")
        for there, here in (("ca.crt", "ca.crt"), (f"{REGIONS[0]}.crt", "eu.crt"), (f"{REGIONS[0]}.key", "eu.key")):
            shutil.copy(self.directory / "certificates" / there, overlay / here)
        manifest = self.directory / "manifest.yaml"
        manifest.write_text(self.run_tool(KUBECTL, "kustomize", overlay))
        return manifest

    def test_the_overlay_is_valid(self):
        manifest = self.kustomized(self.config())
        self.run_tool(PYTHON.parent / "kubernetes-validate", "--strict", manifest)
        kinds = {each["kind"]: each for each in self.documents(manifest)}
        self.assertEqual(set(kinds), {"Service", "Job", "NetworkPolicy", "PersistentVolumeClaim", "ConfigMap", "Secret"})
        pod = kinds["Job"]["spec"]["template"]
        self.check_confined(pod["spec"])
        self.check_ends(kinds["Job"]["spec"])
        for selector in (kinds["Service"]["spec"]["selector"], kinds["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]):
            self.assertLessEqual(selector.items(), pod["metadata"]["labels"].items())
        self.assertEqual(kinds["PersistentVolumeClaim"]["spec"]["accessModes"], ["ReadWriteOncePod"])
        volumes = pod["spec"]["volumes"]
        self.assertIn(kinds["PersistentVolumeClaim"]["metadata"]["name"], [each.get("persistentVolumeClaim", {}).get("claimName") for each in volumes])
        self.assertIn(kinds["ConfigMap"]["metadata"]["name"], [each.get("configMap", {}).get("name") for each in volumes])
        self.assertIn(kinds["Secret"]["metadata"]["name"], [each.get("secret", {}).get("secretName") for each in volumes])

    def test_what_the_pod_starts_trains_and_answers_its_probes(self):
        config = self.config(addresses=self.addresses, steps=3000, **DENSE)
        shutil.copy(config, self.directory / "etc/run/run.toml")
        found = {each["kind"]: each for each in self.documents(self.kustomized(config))}
        pod = found["Job"]["spec"]["template"]["spec"]
        certificates, sidecar = pod["initContainers"]
        self.check_probe_of_one_that_waits(pod["containers"][0])
        self.assertGreaterEqual(sidecar["startupProbe"]["periodSeconds"] * sidecar["startupProbe"]["failureThreshold"], 3600)
        self.finish(self.start_container(certificates))
        self.assertEqual(sidecar["restartPolicy"], "Always")
        worker = self.start_container(pod["containers"][0])
        coordinator = self.start_container(sidecar)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            path = sidecar[probe]["httpGet"]["path"]
            if probe == "readinessProbe":
                others = [self.coordinator(config, region, "--auto") for region in REGIONS[1:]]
                others += [self.worker(config, region) for region in REGIONS[1:]]
            wait_until(lambda: answers(f"http://127.0.0.1:{self.metrics}{path}"), path, coordinator)
        self.check_worker_probe(pod["containers"][0], worker)
        before_stop = ["timeout", "5", *sidecar["lifecycle"]["preStop"]["exec"]["command"]]
        self.run_tool(*before_stop)  # in an eviction it does not wait
        self.finish(worker)
        # At the end it waits for the coordinator, which a kubelet would stop now.
        self.run_tool(*sidecar["lifecycle"]["preStop"]["exec"]["command"])
        self.assertTrue(read_json(self.region_directory(REGIONS[0]) / "status.json")["finished"])
        self.finish_all([coordinator, *others])
        self.assert_same_weights()


@unittest.skipUnless(PYTHON.exists(), "JobSet's models are not here: ./check --launchers fetches them")
class JobSet(InACluster):
    manifest = SOURCE / "deploy/kubernetes/jobset.yaml"

    def test_the_manifest_has_only_what_jobset_knows(self):
        self.run_tool(PYTHON, "-c", JOBSET, self.manifest)

    def test_what_stands_beside_it_is_valid_and_chooses_its_pods(self):
        jobset, *beside = self.documents(self.manifest)
        written = self.directory / "beside.json"
        written.write_text("\n---\n".join(map(json.dumps, beside)))
        self.run_tool(PYTHON.parent / "kubernetes-validate", "--strict", written)
        labels = {job["name"]: job["template"]["spec"]["template"]["metadata"]["labels"] for job in jobset["spec"]["replicatedJobs"]}
        service, policy = beside
        self.assertLessEqual(service["spec"]["selector"].items(), labels["coordinator"].items())
        self.assertFalse(service["spec"]["selector"].items() <= labels["workers"].items())
        for each in labels.values():
            self.assertLessEqual(policy["spec"]["podSelector"]["matchLabels"].items(), each.items())

    def test_what_its_pods_start_trains(self):
        config = self.config(workers=(4, 1, 1), addresses=self.addresses, steps=60, **DENSE)
        for path in (config, self.directory / "etc/run/run.toml"):
            path.write_text(config.read_text().replace("batch = 6", "batch = 8"))
        for each in self.documents(self.manifest)[0]["spec"]["replicatedJobs"]:
            self.check_confined(each["template"]["spec"]["template"]["spec"])
            self.check_ends(each["template"]["spec"])
        jobs = {each["name"]: each["template"]["spec"] for each in self.documents(self.manifest)[0]["spec"]["replicatedJobs"]}
        pods = {name: job["template"]["spec"] for name, job in jobs.items()}
        self.check_probe_of_one_that_waits(pods["workers"]["containers"][0])
        self.finish(self.start_container(pods["workers"]["initContainers"][0]))
        children = [self.start_container(pods["coordinator"]["containers"][0])]
        for rank in range(jobs["workers"]["completions"]):
            children.append(self.start_container(pods["workers"]["containers"][0], JOB_COMPLETION_INDEX=str(rank), MASTER_ADDR="127.0.0.1"))
        for region in REGIONS[1:]:
            children += [self.coordinator(config, region, "--auto"), self.worker(config, region)]
        self.finish_all(children)
        self.assert_same_weights()


class SkyPilot(InACluster):
    task = SOURCE / "deploy/skypilot/region.yaml"

    @unittest.skipUnless(SKYPILOT.exists(), "SkyPilot is not here: ./check --launchers fetches it")
    def test_skypilot_takes_the_task(self):
        script = "import sys, sky; task = sky.Task.from_yaml(sys.argv[1]); print(task.name, sorted(map(str, task.resources)))"
        said = self.run_tool(SKYPILOT, "-c", script, self.task, env={**os.environ, "HOME": str(self.directory)})
        self.assertIn("causeway-eu", said)

    @unittest.skipUnless(PYTHON.exists(), "PyYAML is not here: ./check --launchers fetches it")
    def test_what_it_runs_trains_and_stops_cleanly(self):
        config = self.config(workers=(2, 1, 1), addresses=self.addresses, steps=1500, name="run.toml", **DENSE)
        script = self.documents(self.task)[0]["run"]
        self.out = self.directory / "runs/e2e"  # as it is without --directory: runs/NAME/REGION
        self.out.mkdir(parents=True)
        (self.out / "regions").symlink_to(".")
        environment = {"CAUSEWAY_REGION": REGIONS[0], "SKYPILOT_NUM_GPUS_PER_NODE": "2"}
        region = {"command": ["setsid", "bash", "-c", script]}
        host = self.start_container(region, **environment)
        others = [self.coordinator(config, region, "--auto") for region in REGIONS[1:]] + [self.worker(config, region) for region in REGIONS[1:]]
        wait_until(lambda: self.version(REGIONS[0]) > 3, "rounds", host)
        os.killpg(host.pid, signal.SIGTERM)  # the cloud takes the host back
        wait_until(lambda: not is_alive(host), "the host to be empty")
        again = self.start_container(region, **environment)
        self.finish_all([again, *others])
        self.assert_same_weights()


@unittest.skipUnless(shutil.which("buildah") and shutil.which("debootstrap") and os.geteuid() == 0,
                     "buildah and debootstrap are not here, or this is not root: ./check --launchers")
class Container(RunByHand):
    base = "docker.io/library/debian:13-slim"

    def buildah(self, *arguments):
        done = subprocess.run(["buildah", "--storage-driver", "vfs", "--root", self.directory / "images", "--runroot", self.directory / "buildah",
                               *map(str, arguments)], capture_output=True, text=True, check=False, cwd=self.directory)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        return done.stdout.strip()

    def make_base(self):
        """What the image of that name has, from the same packages: no registry is asked."""
        root = self.directory / "debian"
        subprocess.run(["debootstrap", "--variant=minbase", "trixie", root], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.copytree("/etc/apt/apt.conf.d", root / "etc/apt/apt.conf.d", dirs_exist_ok=True)  # this host's way to packages
        shutil.copy("/etc/resolv.conf", root / "etc")
        container = self.buildah("from", "scratch")
        self.buildah("add", container, root, "/")
        self.buildah("commit", container, self.base)

    def test_the_image_runs_the_program_as_no_root(self):
        self.make_base()
        subprocess.run(["cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", self.directory / "context"], check=True, capture_output=True)
        self.buildah("bud", "--isolation", "chroot", "--pull-never", "-f", SOURCE / "deploy/container/Containerfile", "-t", "causeway", self.directory / "context")
        container = self.buildah("from", "--pull-never", "causeway")
        self.assertIn("causeway", self.buildah("run", "--isolation", "chroot", container, "--", "causeway", "--version"))
        self.assertEqual(self.buildah("run", "--isolation", "chroot", container, "--", "id", "-u"), "1000")


if __name__ == "__main__":
    unittest.main()
