"""A command of very many processes. Alone, as it takes the processor from everything else."""

import os
import shutil
import signal
import struct
import subprocess

import harness
from harness import CliCase, stands_still

# Argument 1: a file in which each of so many (2) processes that do nothing else notes the time, over
# and over, once a line comes on stdin. They end by themselves.
CROWD = """
import mmap, os, signal, struct, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
count = int(sys.argv[2])
notes = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 8 * count)
read_end, write_end = os.pipe()
for i in range(count):
    if os.fork() == 0:
        signal.alarm(120)
        os.close(write_end)
        os.read(read_end, 1)  # Until all are there.
        while True:
            struct.pack_into("d", notes, 8 * i, time.clock_gettime(time.CLOCK_BOOTTIME))
            time.sleep(0)
print("ready", flush=True)
signal.alarm(120)
sys.stdin.readline()
os.close(write_end)
signal.pause()
"""


def writes_to(files, pid):
    """Whether the process has a lock for writing on one of these files (by their inodes)."""
    with open("/proc/locks", encoding="ascii") as locks:
        words = [line.split() for line in locks]
    return any(each[3:5] == ["WRITE", str(pid)] and int(each[5].rpartition(":")[2]) in files
               for each in words)


class CrowdTest(CliCase):
    """Without privileges, as those make it easy to get the processor."""

    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o777)
        self.before = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if os.geteuid() != 0:
            self.before = []
        elif not shutil.which("setpriv"):
            self.skipTest("root needs setpriv to give its privileges away")
        if subprocess.run([*self.before, "python3", "-S", "-c", ""], check=False,
                          capture_output=True).returncode:
            self.skipTest("there is no python3 for others than root")

    def stop_between_commits(self, running):
        """One that is stopped in the middle of a commit keeps the file's lock, as the store's page says."""
        files = [os.stat(self.path(name)).st_ino for name in os.listdir(self.dir)
                 if name.startswith("locks.db")]
        while True:
            running.signal(signal.SIGSTOP)
            self.until(lambda: stands_still(running.pid), "the program stands still")
            if not writes_to(files, running.pid):
                return
            running.signal(signal.SIGCONT)
            self.until(lambda: not writes_to(files, running.pid), "the commit has ended")

    def test_a_command_of_many_busy_processes_is_dead_before_the_next_one_holds(self):
        count = 20
        notes = self.path("notes")
        with open(notes, "wb") as file:
            file.write(bytes(8 * count))
        os.chmod(notes, 0o666)
        running = self.run_locked("--ttl", "1500ms", "job", "--", "python3", "-S", "-c", CROWD,
                                  notes, str(count), before=self.before, stdin=-1)
        self.assertEqual(running.line(), "ready")
        self.stop_between_commits(running)
        running.process.stdin.write(b"\n")
        running.process.stdin.flush()
        successor = self.run_locked(
            "job", "--", "python3", "-S", "-c",
            "import time; print(time.clock_gettime(time.CLOCK_BOOTTIME))", before=self.before)
        since = float(successor.line())
        running.signal(signal.SIGCONT)
        self.assertEqual(running.status(), 123)
        with open(notes, "rb") as file:
            last = max(struct.unpack(f"{count}d", file.read()))
        self.assertGreater(last, 0, "nobody was busy")
        self.assertLess(last, since)


if __name__ == "__main__":
    harness.main()
