"""What starts regions where clusters are: one command line for all starts, Slurm, Open MPI, torchrun, systemd."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import slurm_cluster
from harness import CAUSEWAY, DENSE, REGIONS, free_port, kill, processes, wait_until
from run_by_hand import RunByHand

SOURCE = pathlib.Path(os.environ["CAUSEWAY_SOURCE"])
PYTHON_TOOLS = SOURCE / "build-python" / "bin"
SHORT = ("--time=1", "--signal=B:USR1@40")  # a job's time limit, and how long before it the job hears of it
TORCHRUN = shutil.which("torchrun", path=os.pathsep.join((os.environ["PATH"], str(PYTHON_TOOLS))))


class Launch(RunByHand):
    def automatic(self, config):
        return [self.coordinator(config, region, "--auto") for region in REGIONS]

    def test_the_same_command_founds_joins_resumes_and_joins_again_without_its_disk(self):
        config = self.config(addresses=self.addresses, steps=3000, **DENSE)
        coordinators, workers = self.automatic(config), self.start_workers(config, (1, 1, 1))
        for _ in range(2):
            reached = self.version(REGIONS[0]) + 3
            wait_until(lambda: min(map(self.version, REGIONS)) >= reached, "rounds", coordinators[0])
            for child in (*coordinators, *workers):
                child.send_signal(signal.SIGTERM)
            for child in (*coordinators, *workers):
                self.finish(child, code=130)
            coordinators, workers = self.automatic(config), self.start_workers(config, (1, 1, 1))
        reached = self.version(REGIONS[0]) + 3
        wait_until(lambda: self.version(REGIONS[1]) >= reached, "rounds", coordinators[1])
        for child in (coordinators[0], workers[0]):
            child.kill()
            child.wait()
        shutil.rmtree(self.region_directory(REGIONS[0]))
        again = self.coordinator(config, REGIONS[0], "--auto")
        wait_until(lambda: "joins that run instead of founding another" in again.log.read_text(), "joining", again)
        self.finish_all([again, *coordinators[1:], self.worker(config, REGIONS[0]), *workers[1:]])
        self.assert_same_weights()

    def test_a_region_that_vanishes_twenty_times_costs_no_finished_round(self):
        config = self.config(addresses=self.addresses, steps=100_000, **DENSE)
        children = {region: [self.coordinator(config, region, "--auto"), self.worker(config, region)] for region in REGIONS}
        gone = REGIONS[1]
        for time_gone in range(20):
            reached = self.version(REGIONS[0]) + 3
            wait_until(lambda: min(self.version(REGIONS[0]), self.version(gone)) >= reached, "the region to take part", children[gone][0])
            for child in children[gone]:
                child.send_signal(signal.SIGTERM if time_gone % 2 else signal.SIGKILL)
            for child in children[gone]:
                child.wait()
            reached = self.version(REGIONS[0]) + 3
            wait_until(lambda: self.version(REGIONS[0]) >= reached, "the others to go on", children[REGIONS[0]][0])
            children[gone] = [self.coordinator(config, gone, "--auto"), self.worker(config, gone)]
        wait_until(lambda: self.version(gone) > reached + 3, "the region to be back", children[gone][0])
        for child in sum(children.values(), []):
            child.send_signal(signal.SIGTERM)
        for child in sum(children.values(), []):
            self.finish(child, code=130)
        self.run_causeway("verify", *map(self.region_directory, REGIONS), "--certificates", "certificates")

    def run_with(self, launchers):
        """Two ranks of the first region by `launchers`, the others by hand."""
        config = self.config(workers=(2, 1, 1), addresses=self.addresses, steps=30, **DENSE)
        coordinators = self.automatic(config)
        worker = (CAUSEWAY, "worker", config, "--region", REGIONS[0], "--directory", self.region_directory(REGIONS[0]))
        launcher = self.start_program(*launchers, *worker)
        self.finish_all([*coordinators, launcher, *(self.worker(config, region) for region in REGIONS[1:])])
        self.assert_same_weights()
        self.assertIn("memory: at most", (self.region_directory(REGIONS[0]) / "worker-1.log").read_text())

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not here: ./check --launchers")
    def test_mpirun_starts_the_ranks_of_a_region(self):
        self.run_with(("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"))

    @unittest.skipUnless(TORCHRUN, "torchrun is not here: ./check --python fetches it")
    def test_torchrun_starts_the_ranks_of_a_region(self):
        self.run_with((TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python"))

    def check_killed(self, *launchers):
        """A launcher that cannot stop its workers any more: they end, and make room for the next start."""
        config = self.config(workers=(2, 1, 1), addresses=self.addresses, steps=100_000, **DENSE)
        coordinators = self.automatic(config)
        directory = self.region_directory(REGIONS[0])
        start = (*launchers, CAUSEWAY, "worker", config, "--region", REGIONS[0], "--directory", directory)
        others = [self.worker(config, region) for region in REGIONS[1:]]
        self.addCleanup(lambda: kill(processes("worker", str(directory))))
        for _ in range(2):
            reached = self.version(REGIONS[0]) + 3
            launcher = self.start_program(*start)
            wait_until(lambda: self.version(REGIONS[0]) >= reached, "rounds", launcher)
            workers = [pid for pid in processes("worker", str(directory)) if pid != launcher.pid]
            launcher.kill()
            launcher.wait()
            wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in workers), "its workers to end")
            self.assertIn("is gone: this worker saves its state and ends", (directory / "worker-0.log").read_text())
        for child in (*coordinators, *others):
            child.send_signal(signal.SIGTERM)
        for child in (*coordinators, *others):
            self.finish(child, code=130)

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not here: ./check --launchers")
    def test_the_ranks_of_an_mpirun_that_was_killed_end(self):
        self.check_killed("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2")

    @unittest.skipUnless(TORCHRUN, "torchrun is not here: ./check --python fetches it")
    def test_the_ranks_of_a_torchrun_that_was_killed_end(self):
        self.check_killed(TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not here")
    def test_systemd_takes_the_units(self):
        (self.directory / "region.env").write_text((SOURCE / "deploy/systemd/region.env").read_text())
        units = []
        for unit in sorted((SOURCE / "deploy/systemd").glob("*.service")):
            text = unit.read_text().replace("/usr/bin/causeway", CAUSEWAY)
            text = text.replace("Documentation=file:/usr/share/doc/causeway/docs/launch.md", f"Documentation=file:{SOURCE}/docs/launch.md")
            units.append(self.directory / unit.name.replace("@.", "@0."))
            units[-1].write_text(text)
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False)
        # What the host's own units are lacking is none of ours.
        self.assertFalse([line for line in done.stderr.splitlines() if "causeway" in line], done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not here")
    def test_the_units_are_in_a_sandbox(self):
        for unit in (SOURCE / "deploy/systemd").glob("*.service"):
            shown = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit], capture_output=True, text=True, check=True).stdout
            self.assertLess(float(re.search(r"Overall exposure level for \S+: ([\d.]+)", shown)[1]), 4, shown)

    def test_the_units_and_jobs_agree_with_the_table_of_exit_codes(self):
        never = r"2 \| 3 \| 4"
        for file, pattern in (("systemd/causeway-coordinator.service", r"^RestartPreventExitStatus=2 3 4$"),
                              ("systemd/causeway-worker@.service", r"^RestartPreventExitStatus=2 3 4$"),
                              ("slurm/region.sbatch", rf"case \$code in 0 \| {never} \| 130 \| 143\) return"),
                              ("skypilot/region.yaml", rf"case \$code in {never} \| 130 \| 143\) return")):
            self.assertRegex((SOURCE / "deploy" / file).read_text(), re.compile(pattern, re.M))

    def kept_in_a_job(self, *lives):
        """What a Slurm job does with a step of these lives, each its seconds and its exit code: the job's waits, its code, what it says."""
        keep = re.search(r"^keep\(\) \{.*?^\}", (SOURCE / "deploy/slurm/region.sbatch").read_text(), re.M | re.S)[0]
        script = f"""set -u
            lives=({' '.join(f'{seconds},{code}' for seconds, code in lives)}); life=0
            step() {{ local now=${{lives[life++]}}; SECONDS=$((SECONDS + ${{now%,*}})); return ${{now#*,}}; }}
            sleep() {{ echo "$1"; }}
            {keep}
            keep step"""
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        return list(map(int, done.stdout.split())), done.returncode, done.stderr

    def test_a_slurm_job_gives_up_what_dies_at_once_again_and_again_and_nothing_else(self):
        waits, code, said = self.kept_in_a_job(*[(3, 1)] * 5)
        self.assertEqual((waits, code), ([1, 2, 4, 8], 2))
        self.assertIn("the fifth death in a row within a minute of its start; not started again", said)
        # A long life between: it begins anew, with short waits, and what fails later may come back.
        lives = [(3, 1)] * 4 + [(4000, 137)] + [(3, 1)] * 9 + [(5, 0)]
        waits, code, said = self.kept_in_a_job(*lives)
        self.assertEqual((waits, code), ([1, 2, 4, 8, 1, 2, 4, 8, 16, 32, 64, 60, 60, 60], 0))
        self.assertNotIn("not started again", said)
        for lacks in (5, 75):
            waits, code, _ = self.kept_in_a_job(*[(3, lacks)] * 9, (5, 0))
            self.assertEqual((waits, code), ([1, 2, 4, 8, 16, 32, 64, 60, 60], 0))
        for final in (2, 3, 4, 130, 143):
            self.assertEqual(self.kept_in_a_job((3, final))[:2], ([], final))

    def slurm_script(self, srun):
        """region.sbatch as a process, with these programs in place of Slurm's; every step leaves its pid in a file."""
        tools = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        for name, text in (("srun", f"echo $$ >> {tools}/steps; {srun}"), ("scancel", f"kill -TERM $(cat {tools}/steps)"), ("scontrol", "exit 1")):
            (tools / name).write_text(f"#!/bin/bash\ncd {tools}\n{text}\n")
            (tools / name).chmod(0o755)
        script = self.start_program("bash", SOURCE / "deploy/slurm/region.sbatch", env=dict(
            PATH=f"{tools}:{os.environ['PATH']}", SLURM_JOB_ID="1", SLURM_JOB_NUM_NODES="1", SLURMD_NODENAME="n0",
            CAUSEWAY_CONFIG="run.toml", CAUSEWAY_REGION=REGIONS[0], CAUSEWAY_DIRECTORY="region"))
        return tools, script

    def test_a_slurm_job_that_ends_starts_nothing_again_that_died_a_moment_ago(self):
        # Started again without its coordinator, the worker would wait until the job is killed.
        worker = "[[ $* != *--kill-on-bad-exit* ]] || { echo >> worker; (($(wc -l < worker) > 1)) || exit 1; }"
        tools, script = self.slurm_script(f"{worker}; exec sleep 1000")
        wait_until(lambda: (tools / "worker").exists() and len((tools / "steps").read_text().split()) > 1, "the worker to die beside its coordinator", script)
        script.send_signal(signal.SIGUSR1)  # time is up
        self.finish(script, code=124)
        _, script = self.slurm_script(f"{worker}; if [[ $* == *--gres* ]]; then until [ -e worker ]; do sleep 0.01; done; exit 3; fi; exec sleep 1000")
        self.finish(script, code=3)  # its coordinator is refused

    def test_a_slurm_job_that_ends_also_ends_a_step_that_was_just_being_started(self):
        # It trained on until the job was killed, unsaved.
        tools, script = self.slurm_script("trap '' TERM; until [ -e cancelled ]; do sleep 0.01; done; trap 'exit 130' TERM; touch runs; sleep 1000 & wait")
        with (tools / "scancel").open("a") as scancel:
            scancel.write("touch cancelled\n")
        wait_until(lambda: (tools / "steps").exists() and len((tools / "steps").read_text().split()) > 1, "both steps", script)
        script.send_signal(signal.SIGUSR1)
        self.finish(script, code=124)
        self.assertTrue((tools / "runs").exists())

    def test_the_commands_of_the_units_are_ones_that_the_program_takes(self):
        variables = dict(re.findall(r"^(\w+)=(.*)$", (SOURCE / "deploy/systemd/region.env").read_text(), re.M))
        for unit in (SOURCE / "deploy/systemd").glob("*.service"):
            command = re.search(r"^ExecStart=/usr/bin/causeway (.*)$", unit.read_text(), re.M)[1].replace("%i", "0")
            for name, value in variables.items():
                command = command.replace("${" + name + "}", value)
            self.assertIn("/etc/causeway/run.toml", self.run_causeway(*command.split(), code=2))


@unittest.skipUnless(slurm_cluster.usable(), "Slurm is not here, or this is not root: ./check --launchers")
class Slurm(RunByHand):
    def setUp(self):
        super().setUp()
        self.slurm = slurm_cluster.SlurmCluster(self.directory / "slurm")

    def tearDown(self):
        self.slurm.stop()
        super().tearDown()

    def submit(self, config, region, nodes, *flags, own_program=False, directory=None):
        port = str(free_port())
        worker = f"exec {CAUSEWAY} worker {config} --region $CAUSEWAY_REGION --directory $CAUSEWAY_DIRECTORY --coordinator 127.0.0.1:{port}"
        shown = self.slurm.run("sbatch", "--parsable", f"--nodes={nodes}", f"--ntasks={nodes}", *flags, SOURCE / "deploy/slurm/region.sbatch",
                               CAUSEWAY=CAUSEWAY, CAUSEWAY_CONFIG=str(config), CAUSEWAY_REGION=region, CAUSEWAY_HOST="127.0.0.1",
                               CAUSEWAY_DIRECTORY=str(self.region_directory(region)) if directory is None else directory, CAUSEWAY_WORKER_PORT=port, CAUSEWAY_WORKER=worker if own_program else "")
        self.assertRegex(shown, r"^\d+$")
        return shown.strip()

    def submit_after(self, job):
        """A job that waits for the end of the other."""
        return self.slurm.run("sbatch", "--parsable", f"--dependency=afterok:{job}", "--output=after.log", "--wrap=true").strip()

    def logs_of_jobs(self):
        return "".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in self.directory.glob("causeway-*.log"))

    def test_two_regions_of_two_nodes_where_one_is_preempted_and_comes_back(self):
        config = self.config(workers=(2, 2, 1), addresses=self.addresses, steps=2000, **DENSE)
        jobs = {region: self.submit(config, region, 2, own_program=region == REGIONS[0]) for region in REGIONS[:2]}
        after = self.submit_after(jobs[REGIONS[1]])
        self.addCleanup(lambda: kill_all(self.out))
        third = [self.coordinator(config, REGIONS[2], "--auto"), self.worker(config, REGIONS[2])]
        wait_until(lambda: min(map(self.version, REGIONS)) >= 5, "rounds", third[0])
        began = time.monotonic()
        before = self.version(REGIONS[1])
        self.slurm.run("scontrol", "requeue", jobs[REGIONS[1]])
        wait_until(lambda: not processes("coordinator", str(self.region_directory(REGIONS[1]))), "the job to end")
        self.assertLess(time.monotonic() - began, 30, "longer than a preempted job has")
        wait_until(lambda: self.version(REGIONS[1]) > before + 5, "the region to be back", third[0])
        for child in third:
            self.finish(child)
        for region, job in jobs.items():
            wait_until(lambda: self.slurm.state(job) not in ("RUNNING", "COMPLETING", "PENDING"), f"the job of {region}")
            self.assertEqual(self.slurm.state(job), "COMPLETED", self.slurm.run("scontrol", "show", "job", job) + self.logs_of_jobs())
        self.assert_same_weights()
        shown = self.slurm.run("scontrol", "show", "job", jobs[REGIONS[1]])
        self.assertIn("Restarts=1", shown)
        wait_until(lambda: self.slurm.state(after) == "COMPLETED", "the job that waited for the run")

    def test_a_job_at_its_time_limit_saves_is_requeued_and_lets_those_wait_who_wait_for_its_end(self):
        config = self.config(addresses=self.addresses, steps=100_000, **DENSE)
        job = self.submit(config, REGIONS[0], 1, *SHORT)
        after = self.submit_after(job)
        self.addCleanup(lambda: kill_all(self.out))
        others = [self.coordinator(config, region, "--auto") for region in REGIONS[1:]] + [self.worker(config, region) for region in REGIONS[1:]]
        wait_until(lambda: "Restarts=1" in self.slurm.run("scontrol", "show", "job", job), "the job to be requeued", others[0])
        self.assertIn("interrupted", self.logs_of_jobs())  # it saved before the limit
        before = self.version(REGIONS[0])
        wait_until(lambda: self.version(REGIONS[0]) > before + 5, "the region to be back", others[0])
        self.assertEqual(self.slurm.state(after), "PENDING")

    def test_a_task_of_an_array_that_fails_leaves_the_others_running(self):
        config = self.config(addresses=self.addresses, steps=100_000, **DENSE)
        script = self.directory / "array.sh"
        directories = " ".join(str(self.region_directory(region)) for region in REGIONS[:2])
        script.write_text(f"""#!/bin/bash
regions=({REGIONS[0]} {REGIONS[1]}) directories=({directories}) workers=("" "exit 2")
export CAUSEWAY={CAUSEWAY} CAUSEWAY_CONFIG={config} CAUSEWAY_REGION=${{regions[SLURM_ARRAY_TASK_ID]}}
export CAUSEWAY_DIRECTORY=${{directories[SLURM_ARRAY_TASK_ID]}} CAUSEWAY_WORKER=${{workers[SLURM_ARRAY_TASK_ID]}}
. {SOURCE}/deploy/slurm/region.sbatch
""")
        job = self.slurm.run("sbatch", "--parsable", "--array=0-1", "--nodes=1", "--ntasks=1", script).strip()
        self.addCleanup(lambda: kill_all(self.out))
        third = [self.coordinator(config, REGIONS[2], "--auto"), self.worker(config, REGIONS[2])]
        wait_until(lambda: self.slurm.state(f"{job}_1") == "FAILED", "the task whose program fails to end", third[0])
        before = self.version(REGIONS[0])
        wait_until(lambda: self.version(REGIONS[0]) > before + 5, "rounds of the other task", third[0])
        self.assertEqual(self.slurm.state(f"{job}_0"), "RUNNING", self.slurm.run("scontrol", "show", "job", job) + self.logs_of_jobs())

    def test_a_job_that_may_not_be_requeued_ends_at_its_time_limit_with_a_code_of_its_own(self):
        config = self.config(addresses=self.addresses, steps=100_000, **DENSE)
        job = self.submit(config, REGIONS[0], 1, *SHORT, "--no-requeue", directory="")
        wait_until(lambda: self.slurm.state(job) == "FAILED", "the job to end")
        self.assertIn("ExitCode=124:0", self.slurm.run("scontrol", "show", "job", job))
        self.assertTrue((self.directory / "runs/e2e" / REGIONS[0] / "worker-0.log").exists())  # as without Slurm

    def test_a_mistake_in_the_configuration_ends_the_job_with_its_code(self):
        config = self.config(addresses=self.addresses)
        config.write_text(config.read_text() + "\n[nonsense]\nkey = 1\n")
        job = self.submit(config, REGIONS[0], 1)
        wait_until(lambda: self.slurm.state(job) == "FAILED", "the job to end")
        self.assertIn("ExitCode=2:0", self.slurm.run("scontrol", "show", "job", job))
        self.assertIn("nonsense", self.logs_of_jobs())


def kill_all(directory):
    for pid in processes("--directory"):
        command = pathlib.Path(f"/proc/{pid}/cmdline")
        if command.exists() and str(directory) in command.read_text():
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
