"""The commands on an etcd store, with one server for all tests."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

from harness import PATIENCE, PROGRAM, CliCase
from redis_server import die_with_parent, free_port

PROGRAMS = ("etcd", "etcdctl")


class EtcdServer:
    def __init__(self):
        self.folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.port = free_port()
        client, peer = (f"http://127.0.0.1:{port}" for port in (self.port, free_port()))
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen(
            ["etcd", "--name", "m0", "--data-dir", os.path.join(self.folder, "data"),
             "--listen-client-urls", client, "--advertise-client-urls", client,
             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", f"m0={peer}", "--heartbeat-interval", "20",
             "--election-timeout", "200", "--logger", "zap", "--log-level", "warn"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            preexec_fn=die_with_parent)
        end = time.monotonic() + PATIENCE
        while not self.answers(client):
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("etcd does not start")
            time.sleep(0.02)

    @staticmethod
    def answers(client):
        try:
            with urllib.request.urlopen(client + "/health", timeout=3) as answer:
                return b'"true"' in answer.read()
        except OSError:
            return False

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@unittest.skipUnless(all(map(shutil.which, PROGRAMS)), "no etcd (packages etcd-server, etcd-client)")
class EtcdTest(CliCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = EtcdServer()
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        super().setUp()
        self.store = f"etcd://127.0.0.1:{self.server.port}/{self.id().rsplit('.', 1)[1]}?session=2s"
        self.env["HOLDFAST_STORE"] = self.store

    def ok(self, *arguments, **options):
        done = self.holdfast(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def hold(self, name):
        holder = subprocess.Popen([PROGRAM, "hold", name], env=self.env, stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.stdin.close)
        self.addCleanup(holder.kill)
        end = time.monotonic() + PATIENCE
        while not self.inspect(name)["held"]:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        return holder

    def inspect(self, name):
        return json.loads(self.ok("inspect", "--json", name).stdout)

    def test_the_command_runs_under_the_lock_and_is_told_of_it(self):
        done = self.ok("run", "job", "--", "env")
        env = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        self.assertEqual((env["HOLDFAST_NAME"], env["HOLDFAST_STORE"]), ("job", self.store))
        self.assertEqual(self.holdfast("run", "job", "--", "sh", "-c", "exit 7").returncode, 7)
        self.assertFalse(self.inspect("job")["held"])

    def test_ls_and_inspect_show_who_holds(self):
        holder = self.hold("deploy/web")
        listed = json.loads(self.ok("ls", "--json").stdout)
        self.assertEqual([lock["name"] for lock in listed], ["deploy/web"])
        self.assertEqual(self.inspect("deploy/web")["holders"][0]["pid"], holder.pid)
        self.assertEqual(self.holdfast("run", "--no-wait", "deploy/web", "--", "true").returncode, 124)

    def test_a_break_frees_the_lock_and_leaves_a_trace(self):
        holder = self.hold("job")
        token = self.inspect("job")["holders"][0]["token"]
        self.ok("break", "job", "--token", token, "--reason", "test")
        self.assertEqual(self.ok("run", "--wait", "60s", "job", "--", "echo", "free").stdout, "free\n")
        self.assertEqual(holder.wait(PATIENCE), 123)

    def test_a_killed_holder_costs_its_session_and_no_more(self):
        holder = self.hold("job")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        begin = time.monotonic()
        self.ok("run", "--wait", "60s", "job", "--", "true")
        self.assertGreater(time.monotonic() - begin, 0.2)

    def test_watch_tells_of_grants(self):
        watch = subprocess.Popen([PROGRAM, "watch", "--json"], env=self.env,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.stdout.close)
        self.addCleanup(watch.kill)
        holder = self.hold("job")
        self.assertEqual(json.loads(watch.stdout.readline())["name"], "job")
        self.assertIsNone(holder.poll())

    def test_doctor_names_what_the_store_promises(self):
        report = json.loads(self.ok("doctor", "--json").stdout)
        promises = report["guarantees"]
        self.assertTrue(promises["fenced"] and promises["survives_failover"])
        self.assertTrue(promises["bound_to_client"])
        self.ok("doctor", "-q", "--require", "fenced,fair,survives-failover")

    def test_a_server_that_is_not_there_is_said_so(self):
        self.env["HOLDFAST_STORE"] = f"etcd://127.0.0.1:{free_port()}?connect_timeout=1s"
        done = self.holdfast("run", "job", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("etcd://127.0.0.1", done.stderr)


if __name__ == "__main__":
    unittest.main()
