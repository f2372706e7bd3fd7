"""A crowd at the lock service, or one client with a million names: others are served meanwhile."""

import contextlib
import json
import resource
import select
import socket
import sqlite3
import unittest

import harness
from harness import PATIENCE
from serve_ids_test import RedisClient
from serve_test import ServeCase

PING = b"*1\r\n$4\r\nPING\r\n"
TOO_MANY = b"-ERR max number of clients reached\r\n"


def raise_open_files(wanted):
    """Skips the test, with the reason, where the system allows fewer."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < wanted:
        raise unittest.SkipTest(f"needs {wanted} open files, and the system allows {most} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class CrowdCase(ServeCase):
    def start_on(self, journal):
        self.server, said = self.serve("--listen", f"127.0.0.1:{self.port}", "--http", "127.0.0.1:0",
                                       *journal)
        return said

    def connect(self):
        made = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        self.addCleanup(made.close)
        return made

    def memory(self, what="VmRSS"):
        with open(f"/proc/{self.server.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(what + ":"))

    def has_sanitizer(self):
        return self.memory("VmSize") > 1 << 40

    def client(self):
        client = RedisClient(self.port)
        self.addCleanup(client.close)
        return client

    def take_and_release(self, client):
        self.assertEqual(client.ask("SET", "other", "me", "NX", "PX", "60000"), "+OK")
        self.assertEqual(client.ask("DEL", "other"), ":1")


class ConnectionsTest(CrowdCase):
    MOST = 16_384  # The server's own limit.

    def crowd(self, count):
        """So many connections. Each has half a request under way, which the server keeps for it."""
        half = PING + b"*2\r\n$4\r\nECHO\r\n$400\r\n" + b"x" * 200
        for first in range(0, count, 256):
            made = [self.connect() for _ in range(min(256, count - first))]
            for each in made:
                each.sendall(half)
            for each in made:
                self.assertEqual(each.recv(64), b"+PONG\r\n")
            self.connections += made

    def test_a_full_house_costs_others_nothing_and_strangers_are_told(self):
        raise_open_files(self.MOST + 300)
        self.connections = []
        self.start_on(("--data", self.data))
        holder = self.holder("job", ttl="10s")  # It renews all the time.
        other = self.client()
        self.take_and_release(other)
        before = self.memory()
        self.crowd(self.MOST - 200)
        self.take_and_release(other)
        self.ok("run", "another", "--", "true")
        if not self.has_sanitizer():
            self.assertLess((self.memory() - before) / len(self.connections), 8 << 10)
        while True:  # The clients of Holdfast have some connections, too.
            last = self.connect()
            last.sendall(PING)
            told = last.recv(64)
            if told != b"+PONG\r\n":
                break
            self.connections.append(last)
        self.assertEqual(told, TOO_MANY)
        self.assertGreater(len(self.connections), self.MOST - 50)
        self.take_and_release(other)
        self.assertIsNone(holder.process.poll())
        self.assertIn("refused a connection of 127.0.0.1: there are 16384", self.server.stderr.readline())
        for each in self.connections:
            each.close()
        self.until(lambda: self.holdfast("run", "job-2", "--", "true").returncode == 0, "there is room")
        self.assertIsNone(holder.process.poll())


class NamesTest(CrowdCase):
    COUNT = 1_000_000
    AT_ONCE = 100  # The most keys of one call.

    def acquire(self, first):
        """A call of Holdfast's own protocol, for 24 h and as many locks as it takes."""
        which = range(first, first + self.AT_ONCE)
        wanted = b"$1\r\n0\r\n$11\r\n86400000000\r\n$2\r\n{}\r\n$14\r\nTe 1 1 0 0 0 -\r\n"
        return b"".join((b"*%d\r\n$3\r\nHF1\r\n$7\r\nacquire\r\n$3\r\n%d\r\n" % (4 + 6 * self.AT_ONCE, self.AT_ONCE),
                         *(b"$16\r\nhf1:{job-%06d}\r\n" % i for i in which), b"$6\r\nclient\r\n",
                         *(b"$32\r\n%032x\r\n%s" % (i + 1, wanted) for i in which)))

    def test_a_million_names_cost_others_nothing_but_their_memory(self):
        said = self.start_on(("--journal", "memory:"))
        other = self.client()
        greedy = self.client()
        greedy.ask("HF1", "attach", "0")
        before = self.memory()
        for first in range(0, self.COUNT, self.AT_ONCE):
            greedy.socket.sendall(self.acquire(first))
            if first % (20 * self.AT_ONCE) == 0:
                self.take_and_release(other)  # While that one is served.
            self.assertEqual(greedy.file.readline(), b"*100\r\n")
            told = [(greedy.file.readline(), greedy.file.readline())[1] for _ in range(self.AT_ONCE)]
            self.assertTrue(all(each.startswith(b"held ") for each in told), told[-1])
        page = json.loads(self.get(said, "/v1/locks?limit=100&after=job-500000"))
        self.assertEqual(page["next_after"], "job-500100")
        self.take_and_release(other)
        self.ok("run", "another", "--", "true")
        if not self.has_sanitizer():
            self.assertLess((self.memory() - before) / self.COUNT, 1_024)


class NoSnapshotTest(CrowdCase):
    """A record of the journal is damaged, which a running server notices when it writes a snapshot."""

    def damage_a_batch(self):
        with contextlib.closing(sqlite3.connect(f"{self.data}/journal.db", timeout=PATIENCE)) as journal:
            with journal:
                changed = journal.execute("UPDATE ring SET bytes = x'00' WHERE number = 3")
                self.assertEqual(changed.rowcount, 1)

    def commit_five_mib(self, run):
        """A snapshot is due after 4 MiB of batches."""
        client = self.connect()
        value = b"v" * 500
        for first in range(0, 10_000, 500):
            client.sendall(b"".join(
                b"*6\r\n$3\r\nSET\r\n$12\r\njob-%d-%06d\r\n$500\r\n%s\r\n$2\r\nNX\r\n$2\r\nPX\r\n$6\r\n600000\r\n"
                % (run, i, value) for i in range(first, first + 500)))
            left = 5 * 500
            while left > 0:
                told = client.recv(left)
                self.assertEqual(told.strip(b"+OK\r\n"), b"")
                left -= len(told)

    def warnings(self):
        """Those that have come and not been read yet."""
        told = []
        while select.select([self.server.stderr], [], [], 0)[0]:
            told.append(self.server.stderr.readline())
        return told

    def test_the_operator_is_told_once_and_locks_are_granted(self):
        self.start_on(("--data", self.data))
        other = self.client()
        for _ in range(3):
            self.take_and_release(other)
        self.damage_a_batch()
        self.commit_five_mib(1)
        told = []
        self.until(lambda: told.extend(self.warnings()) or any("no snapshot" in each for each in told),
                   "the operator is told")
        (line,) = (each for each in told if "no snapshot" in each)
        self.assertIn("cannot be read back", line)
        self.assertIn("batch 3", line)
        self.assertIn("holdfast server verify", line)
        self.commit_five_mib(2)
        self.take_and_release(other)
        self.assertFalse([each for each in self.warnings() if "no snapshot" in each])
        verified = self.holdfast("server", "verify", self.data)
        self.assertNotEqual(verified.returncode, 0)
        self.assertIn("batch 3", verified.stderr)


if __name__ == "__main__":
    harness.main()
