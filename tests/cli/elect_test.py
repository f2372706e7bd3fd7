"""`holdfast elect`: who leads, what it proclaims, what observers see, and what follows a loss."""

import json
import select
import signal
import subprocess

import harness
from harness import PATIENCE, PROGRAM, CliCase

SHOW = 'echo "$HOLDFAST_VALUE $HOLDFAST_TOKEN"'


class ElectTest(CliCase):
    def candidate(self, *arguments, **options):
        return self.run_locked("--ttl", "3s", *arguments, verb="elect", **options)

    def depose(self, name="boss"):
        done = self.holdfast("break", name, "--token", self.inspect(name)["token"])
        self.assertEqual(done.returncode, 0, done.stderr)


class LeadingTest(ElectTest):
    def test_it_runs_the_command_while_it_leads(self):
        done = self.holdfast("elect", "--value", "10.0.0.7:80", "boss", "--", "sh", "-c",
                             SHOW + "; exit 7")
        self.assertEqual(done.returncode, 7, done.stderr)
        value, token = done.stdout.split()
        self.assertEqual(value, "10.0.0.7:80")
        self.assertEqual(self.inspect("boss")["held"], False)
        done = self.holdfast("elect", "boss", "--", "sh", "-c", SHOW)
        self.assertGreater(done.stdout.strip(), token)

    def test_without_a_value_it_is_empty(self):
        env = {**self.env, "HOLDFAST_VALUE": "outer"}
        done = self.holdfast("elect", "boss", "--", "printenv", "HOLDFAST_VALUE", env=env)
        self.assertEqual(done.stdout, "\n")

    def test_candidates_lead_one_after_the_other(self):
        first = self.candidate("--value", "one", "boss", "--", "sh", "-c", SHOW + "; exec sleep 60")
        token = first.line().split()[1]
        self.assertEqual(self.holdfast("elect", "--no-wait", "boss", "--", "true").returncode, 124)
        second = self.candidate("--value", "two", "boss", "--", "sh", "-c", SHOW)
        second.event("waiting")
        first.signal(signal.SIGTERM)
        self.assertEqual(first.status(), 143)
        value, next_token = second.line().split()
        self.assertEqual(value, "two")
        self.assertGreater(next_token, token)
        self.assertEqual(second.status(), 0)

    def test_a_candidate_that_waits_is_ended_by_a_signal(self):
        self.candidate("boss", "--", "sleep", "60").event("started")
        second = self.candidate("--again", "boss", "--", "true")
        second.event("waiting")
        second.signal(signal.SIGTERM)
        self.assertEqual(second.status(), 143)
        self.until(lambda: not self.inspect("boss")["waiters"], "it has left the queue")

    def test_after_a_loss_the_command_is_ended(self):
        leader = self.candidate("boss", "--", "sleep", "60")
        leader.event("started")
        self.depose()
        leader.event("lost")
        self.assertEqual(leader.status(), 123)

    def test_the_next_one_leads_when_a_leader_is_killed(self):
        leader = self.candidate("boss", "--", "sleep", "60")
        pid = leader.event("started")["command_pid"]
        second = self.candidate("boss", "--", "true")
        second.event("waiting")
        leader.signal(signal.SIGKILL)
        second.event("started")
        self.assertFalse(harness.alive(pid))
        self.assertEqual(second.status(), 0)


class AgainTest(ElectTest):
    def test_it_leads_again_after_a_loss(self):
        leader = self.candidate("--again", "--value", "me", "boss", "--", "sh", "-c",
                                SHOW + '; read -r word && exit "$word"', stdin=subprocess.PIPE)
        value, first = leader.line().split()
        leader.event("started")
        self.depose()
        leader.event("lost")
        leader.event("started")
        again, second = leader.line().split()
        self.assertEqual((value, again), ("me", "me"))
        self.assertGreater(second, first)
        leader.process.stdin.write(b"9\n")
        leader.process.stdin.flush()
        self.assertEqual(leader.status(), 9, "the command ended by itself: so does the candidate")

    def test_a_signal_ends_it_after_a_loss(self):
        leader = self.candidate("--again", "boss", "--", "sleep", "60")
        leader.event("started")
        second = self.candidate("boss", "--", "sleep", "60")
        second.event("waiting")
        self.depose()
        second.event("started")
        leader.event("waiting")
        leader.signal(signal.SIGINT)
        self.assertEqual(leader.status(), 130)

    def test_a_command_that_ends_is_not_begun_again(self):
        self.assertEqual(self.holdfast("elect", "--again", "boss", "--", "false").returncode, 1)

    def test_a_store_that_cannot_be_reached_at_first_is_a_failure(self):
        done = self.holdfast("elect", "--again", "--store", "sqlite:///proc/no/locks.db", "boss",
                             "--", "true")
        self.assertEqual(done.returncode, 125)


class ObserveTest(ElectTest):
    def observer(self, *options):
        process = subprocess.Popen(
            [PROGRAM, "elect", "--observe", *options, "boss"], env=self.env,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, bufsize=0)
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.wait(),
                                 process.stdout.close(), process.stderr.close()))
        return process

    def read(self, process):
        self.assertTrue(select.select([process.stdout], [], [], PATIENCE)[0], "nothing is told")
        return json.loads(process.stdout.readline())

    def test_an_observer_sees_each_change(self):
        watching = self.observer("--json")
        self.assertEqual(self.read(watching)["event"], "nobody")
        leader = self.candidate("--value", "10.0.0.7", "boss", "--", "sleep", "60")
        leader.event("started")
        seen = self.read(watching)
        while seen["value"] == "":  # It leads, and has not proclaimed anything yet.
            seen = self.read(watching)
        info = self.inspect("boss")
        self.assertEqual((seen["event"], seen["value"], seen["token"], seen["owner"], seen["name"]),
                         ("leads", "10.0.0.7", info["token"], info["owner"], "boss"))
        leader.signal(signal.SIGTERM)
        self.assertEqual(self.read(watching)["event"], "nobody")
        watching.send_signal(signal.SIGTERM)
        self.assertEqual(watching.wait(PATIENCE), 0)

    def test_inspect_shows_what_the_leader_proclaims(self):
        leader = self.candidate("--value", "10.0.0.7", "boss", "--", "sleep", "60")
        leader.event("started")
        self.assertEqual(self.inspect("boss")["value"], "10.0.0.7")
        self.assertIn("proclaims: 10.0.0.7\n", self.holdfast("inspect", "boss").stdout)
        leader.signal(signal.SIGTERM)
        leader.status()
        self.assertNotIn("value", self.inspect("boss"))
        self.holder("boss")  # Whoever holds the name after it has not proclaimed that.
        self.assertNotIn("value", self.inspect("boss"))

    def test_it_ends_after_as_many_as_are_asked_for(self):
        done = self.holdfast("elect", "--observe", "--count", "1", "boss")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("boss: nobody leads", done.stdout)


class ArgumentsTest(ElectTest):
    def test_what_contradicts_itself_is_refused(self):
        for arguments in (["boss"], ["boss", "--"], ["--", "true"], ["--observe"],
                          ["--observe", "boss", "--", "true"],
                          ["--count", "1", "boss", "--", "true"],
                          ["--shared", "boss", "--", "true"],
                          ["--permits", "1/2", "boss", "--", "true"],
                          ["--value", "x" * 1025, "boss", "--", "true"]):
            with self.subTest(arguments=arguments):
                done = self.holdfast("elect", *arguments)
                self.assertEqual(done.returncode, 125, done.stderr)
                self.assertNotEqual(done.stderr, "")
        self.assertEqual(self.holdfast("elect", "--exit-error", "77", "boss").returncode, 77)

    def test_a_name_may_stand_behind_dashes(self):
        done = self.holdfast("elect", "--", "-x", "--", "printenv", "HOLDFAST_NAME")
        self.assertEqual((done.returncode, done.stdout), (0, "-x\n"), done.stderr)
        done = self.holdfast("elect", "--observe", "--count", "1", "--", "-x")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    harness.main()
