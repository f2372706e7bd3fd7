"""Plays the Containerfile of the lock service in folders that are made of Debian's packages, and
uses what comes out: as its user, in a network of its own.

Usage: play_container.py FOLDER          # which is made; the images stay there
Needs root, mmdebstrap and the package registry, and says so with 77 (skipped).

It shows that the recipe's steps build, that the packages it names are there, and that the image
serves, is healthy, keeps its locks over a kill, and stops in order. It does not show that podman or
docker read the recipe in the same way; it shares the kernel's namespaces only in part.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import containerfile

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "packaging/server/Containerfile"
SUITES = {"12": "bookworm", "13": "trixie"}
SECONDS = 60


def say(text):
    print(f"== {text}", flush=True)


def skip(why):
    print(f"play_container: SKIPPED: {why}", file=sys.stderr)
    sys.exit(77)


def check(fact, what):
    if not fact:
        sys.exit(f"play_container: {what}")


def make_image(image, folder):
    suite = SUITES[image.removeprefix("docker.io/library/debian:").removesuffix("-slim")]
    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", suite, str(folder)], check=True)
    # As the registry's image has it: a file of the machine must not stay behind.
    (folder / "etc/resolv.conf").unlink(missing_ok=True)


def inside(folder, words, user="", alone=False, **options):
    """Starts `words` in that root; `alone`: without the machine's network."""
    own = ["unshare", "--mount", *(["--net"] if alone else []), "--pid", "--fork", "--kill-child"]
    who = [f"--userspec={user}"] if user else []
    script = ('mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && '
              '{ [ "$1" = no ] || ip link set lo up; } && shift && exec chroot "$@"')
    return subprocess.Popen([*own, "sh", "-c", script, str(folder), "yes" if alone else "no",
                             *who, str(folder), *words], **options)


def run_step(folder, text, place):
    """A RUN, with the machine's names and authorities for fetching packages."""
    resolver = folder / "etc/resolv.conf"
    shutil.copy("/etc/resolv.conf", resolver)
    done = inside(folder, ["/bin/sh", "-c", f"cd {place} && {text}"]).wait()
    resolver.unlink()
    check(done == 0, f"this step ends with {done}: {text}")


def copy_step(folder, text, place, stages):
    stage, sources, target = containerfile.copied(text)
    into = folder / (place / Path(target)).as_posix().lstrip("/")
    into.parent.mkdir(parents=True, exist_ok=True)
    if stage:
        for source in sources:
            shutil.copytree(stages[stage] / source.lstrip("/"), into)
    elif sources == ["."]:
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT,
                               check=True, capture_output=True, text=True).stdout.split()
        for name in names:
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_file():
                shutil.copy(ROOT / name, into / name)
    else:
        source, = sources
        shutil.copy(ROOT / source, into)


def play(stage, folder, stages):
    say(f"stage {stage.name or 'image'}")
    make_image(stage.image, folder)
    place = Path("/")
    for word, text in stage.steps:
        if word == "WORKDIR":
            place = Path(text)
            (folder / text.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "RUN":
            say(text[:70])
            run_step(folder, text, place)
        elif word == "COPY":
            copy_step(folder, text, place, stages)


class Container:
    """The image, as a machine for containers would start it; its commands share its network."""

    def __init__(self, folder, stage):
        self.folder, self.stage = folder, stage
        words = [*stage.words("ENTRYPOINT"), *stage.words("CMD")]
        self.process = inside(folder, words, user=stage.text("USER"), alone=True,
                              stdout=subprocess.PIPE, text=True)
        said = self.process.stdout.readline()
        check(said.startswith("serving holdfast://127.0.0.1:7420"), f"it said: {said}")
        self.init = self.child_of(self.process.pid)

    @staticmethod
    def child_of(pid):
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()[0])

    def ask(self, *words):
        done = subprocess.run(["nsenter", "--net", "--mount", "--pid", "--target", str(self.init), "chroot",
                               f"--userspec={self.stage.text('USER')}", str(self.folder), *words],
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        return done.returncode, done.stdout + done.stderr

    def end(self, number):
        os.kill(self.init, number)
        self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(timeout=SECONDS)


def use(folder, stage):
    say("use")
    store = ["--store", "holdfast://127.0.0.1:7420"]
    container = Container(folder, stage)
    health = stage.words("HEALTHCHECK")
    check(container.ask(*health) == (0, ""), "a server that serves is not healthy")
    check(container.ask("/usr/bin/id", "-u") == (0, "7420\n"), "it runs as another user")
    code, lease = container.ask("/usr/bin/holdfast", "acquire", *store, "--ttl", "10m", "kept")
    check(code == 0, f"acquire ends with {code}: {lease}")
    container.end(signal.SIGKILL)
    container = Container(folder, stage)
    code, said = container.ask("/usr/bin/holdfast", "run", *store, "--no-wait", "kept", "--", "true")
    check(code == 124, f"after a kill the lock is free: {code} {said}")
    code, said = container.ask("/usr/bin/holdfast", "doctor", *store)
    print(said)
    check(code in (0, 1), f"doctor ends with {code}")
    began = time.monotonic()
    check(container.end(signal.SIGTERM) == 0, "it does not stop in order")
    say(f"stopped in {time.monotonic() - began:.1f} s")
    data = folder / stage.text("VOLUME").lstrip("/")
    check((data.stat().st_uid, data.stat().st_mode & 0o777) == (7420, 0o700), "the volume's rights")
    size = subprocess.run(["du", "-sm", "--exclude=proc", "--exclude=dev", str(folder)], check=True,
                          capture_output=True, text=True).stdout.split()[0]
    say(f"the image has {size} MiB")


def main():
    folder = Path(sys.argv[1]).resolve()
    if os.geteuid() != 0:
        skip("it needs root")
    if shutil.which("mmdebstrap") is None:
        skip("it needs mmdebstrap (apt-get install mmdebstrap)")
    folder.mkdir()
    stages = containerfile.read(RECIPE)
    made = {}
    for number, stage in enumerate(stages):
        made[stage.name] = folder / (stage.name or f"stage-{number}")
        play(stage, made[stage.name], made)
    use(made[stages[-1].name], stages[-1])
    say("done")


if __name__ == "__main__":
    main()
