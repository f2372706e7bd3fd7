"""A Redis server of a test's own: on loopback, on a free port, in a folder of its own."""

import ctypes
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

import harness
from harness import PATIENCE


def server_program():
    """The words that start a server; None: there is none."""
    chosen = os.environ.get("HOLDFAST_REDIS_SERVER") or "redis-server"
    words = [chosen] if shutil.which(chosen) else shlex.split(chosen)
    return words if words and shutil.which(words[0]) else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class RedisServer:
    def __init__(self, case, lines=(), name="redis"):
        self.folder = case.path(name)
        os.mkdir(self.folder)
        self.lines = lines
        self.process = None
        case.addCleanup(self.kill)
        for _ in range(5):  # Somebody else may have taken the port meanwhile.
            self.port = free_port()
            self.start()
            if self.answers():
                return
            self.kill()
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
            case.fail(f"the server does not start: {log.read()[-2000:]}")

    def start(self):
        config = ["bind 127.0.0.1", f"port {self.port}", f"dir {self.folder}", "daemonize no",
                  'save ""', f"logfile {self.folder}/log", *self.lines]
        path = os.path.join(self.folder, "redis.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(config) + "\n")
        self.process = subprocess.Popen(
            [*server_program(), path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def answers(self):
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            try:
                if self.ask("PING").startswith(("+PONG", "-NOAUTH", "-NOPERM")):
                    return True
            except OSError:
                time.sleep(0.01)
        return False

    def ask(self, *words):
        """The beginning of the server's answer, as it comes over the wire."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as link:
            link.sendall(b"*%d\r\n" % len(words) +
                         b"".join(b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode())
                                  for word in words))
            return link.recv(65536).decode(errors="replace")

    def url(self, options="", user="", host="127.0.0.1"):
        return f"redis://{user + '@' if user else ''}{host}:{self.port}{options}"

    def restart(self):
        """As after a crash: with an empty memory, at the same place."""
        self.kill()
        self.start()

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()


def main():
    """harness.main(), or what CTest takes for a skip where there is no server."""
    if server_program() is None:
        print("SKIPPED: no program redis-server (package redis-server, or HOLDFAST_REDIS_SERVER):"
              " nothing of the program was tested on Redis")
        sys.exit(77)
    harness.main()
