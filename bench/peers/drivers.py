"""What the comparisons of bench/peers/run share: drivers in several languages, and the machine."""

import os
import platform
import re
import shutil
import statistics
import subprocess
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass
class Toolchain:
    """How the drivers of one language are built; `why` tells why they cannot be."""

    program: str
    steps: list
    why: str = ""

    def prepare(self, work):
        if not shutil.which(self.program):
            self.why = f"no program '{self.program}'"
            return
        for step in self.steps:
            try:
                done = subprocess.run([str(word) for word in step], cwd=work, text=True, timeout=900,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                self.why = str(error)
                return
            if done.returncode != 0:
                last = done.stdout.strip().splitlines()[-1:] or ["no output"]
                self.why = f"'{' '.join(map(str, step))}' failed: {last[0]}"
                return


@dataclass
class NoDriver:
    """A library of C++ that has no driver here, so it is only looked for."""

    header: str
    why: str = ""

    def prepare(self, _):
        folders = ("/usr/include", "/usr/local/include")
        found = [folder for folder in folders if (Path(folder) / self.header).exists()]
        self.why = (f"{found[0]}/{self.header} is there, but this comparison has no driver for it" if found else
                    f"no header {self.header} in {' or '.join(folders)}")


@dataclass
class Peer:
    name: str
    store: str
    language: str
    lock: str
    command: list
    version: str = ""
    warmup: float = 0.3
    most_callers: int = 256
    missing: str = ""
    figures: dict = field(default_factory=dict)  # {figure: [value of each round]}

    @property
    def ours(self):
        return self.language == "holdfast"

    def add(self, figure, value):
        self.figures.setdefault(figure, []).append(value)

    def median(self, figure):
        values = self.figures.get(figure)
        return statistics.median(values) if values else None


def prepare(work, folders, toolchains, peers, pattern):
    """Builds the drivers of the peers that match, in the folder `work`, and returns these peers. Those
    that cannot be had are marked."""
    work.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        shutil.copytree(HERE / folder, work / folder, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("node_modules", "target"))
    peers = [peer for peer in peers if re.search(pattern, f"{peer.name} on {peer.store}", re.IGNORECASE)]
    for language in dict.fromkeys(peer.language for peer in peers if not peer.missing):
        print(f"== {language}: prepare", flush=True)
        toolchains[language].prepare(work)
    for peer in peers:
        peer.missing = peer.missing or toolchains[peer.language].why
        if peer.missing:
            print(f"MISSING: {peer.name}: {peer.missing}")
    return peers


def facts_of(peers, rounds, seconds):
    return {"machine": machine(), "rounds": rounds, "seconds": seconds,
            "peers": [{"name": peer.name, "store": peer.store, "ours": peer.ours,
                       "version": peer.version, "missing": peer.missing, "figures": peer.figures}
                      for peer in peers]}


def version_of(command):
    try:
        said = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False).stdout
    except OSError:
        return "none"
    return said.strip().splitlines()[0] if said.strip() else "unknown"


def consul():
    """The program that the tests take, too (scripts/consul-server)."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return os.environ.get("HOLDFAST_CONSUL") or shutil.which("consul") or Path(cache) / "holdfast" / "consul"


def machine():
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {"date": date.today().isoformat(), "processors": os.cpu_count(),
            "model": model[1] if model else platform.machine(), "kernel": platform.release(),
            "redis": version_of(["redis-server", "--version"]),
            "zookeeper": version_of(["dpkg-query", "-W", "-f", "${Version}", "zookeeper"]),
            "etcd": version_of(["etcd", "--version"]),
            "consul": version_of([consul(), "--version"]),
            "java": version_of(["java", "-version"]), "go": version_of(["go", "version"]),
            "node": version_of(["node", "--version"]), "rust": version_of(["cargo", "--version"])}
