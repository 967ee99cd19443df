"""Slurm with four nodes on this host, for a test: munged, slurmctld and four slurmd of its own, with ports and directories of their own."""
import os
import shutil
import socket
import subprocess

from harness import free_port, wait_until

NODES = 4
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "scancel")
SBIN = os.pathsep.join((os.environ["PATH"], "/usr/sbin"))


def usable():
    return os.geteuid() == 0 and all(shutil.which(program, path=SBIN) for program in PROGRAMS)


class SlurmCluster:
    def __init__(self, directory):
        self.directory = directory
        directory.mkdir(mode=0o755)
        directory.parent.chmod(0o755)  # munged wants its socket where all may go
        self.config = directory / "slurm.conf"
        self.servers = []
        self.start_munged()
        self.config.write_text(self.text())
        self.environment = {**os.environ, "SLURM_CONF": str(self.config)}
        self.start("slurmctld", "-D", "-c", "-f", self.config)
        for node in range(NODES):
            (directory / f"spool-n{node}").mkdir()
            self.start("slurmd", "-D", "-N", f"n{node}", "-f", self.config)
        wait_until(lambda: self.run("sinfo", "--noheader", "--states=idle", "--format=%D").strip() == str(NODES), "idle nodes")

    def start_munged(self):
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o600)
        self.socket = self.directory / "munge.socket"
        self.start("munged", "--foreground", "--force", "--num-threads=1", f"--key-file={key}", f"--socket={self.socket}",
                   *(f"--{name}-file={self.directory / name}" for name in ("pid", "log", "seed")))
        wait_until(self.socket.exists, "munged", self.servers[0])

    def text(self):
        lines = ["ClusterName=test", f"SlurmctldHost={socket.gethostname().split('.')[0]}(127.0.0.1)", "AuthType=auth/munge",
                 f"AuthInfo=socket={self.socket},cred_expire=5", "SlurmUser=root", "SlurmdUser=root",
                 f"StateSaveLocation={self.directory}/state", f"SlurmdSpoolDir={self.directory}/spool-%n",
                 f"SlurmctldPidFile={self.directory}/slurmctld.pid", f"SlurmdPidFile={self.directory}/slurmd-%n.pid",
                 f"SlurmctldPort={free_port()}", "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none",
                 "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "SlurmdParameters=config_overrides",
                 "ReturnToService=2", "KillWait=30", "MpiDefault=none", "SchedulerParameters=sched_interval=1"]
        for node in range(NODES):
            lines.append(f"NodeName=n{node} NodeHostname={socket.gethostname().split('.')[0]} NodeAddr=127.0.0.1 "
                         f"Port={free_port()} CPUs=4 State=UNKNOWN")
        return "\n".join((*lines, "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP", ""))

    def start(self, program, *arguments):
        environment = {**os.environ, "PATH": SBIN}
        if program != "munged":
            environment["SLURM_CONF"] = str(self.config)
        with (self.directory / f"{program}-{len(self.servers)}.log").open("w") as log:
            self.servers.append(subprocess.Popen([shutil.which(program, path=SBIN), *map(str, arguments)], stdout=log,
                                                 stderr=subprocess.STDOUT, env=environment))

    def run(self, *command, **environment):
        done = subprocess.run([*map(str, command)], env={**self.environment, **environment}, capture_output=True, text=True,
                              cwd=self.directory.parent, check=False)
        return done.stdout if done.returncode == 0 else f"{command}: {done.stderr}"

    def state(self, job):
        """PENDING, RUNNING, COMPLETED, ..."""
        shown = self.run("scontrol", "show", "job", job)
        return next((word.split("=")[1] for word in shown.split() if word.startswith("JobState=")), shown)

    def stop(self):
        self.run("scancel", "--user=root")
        for server in reversed(self.servers):
            server.terminate()
            server.wait()
