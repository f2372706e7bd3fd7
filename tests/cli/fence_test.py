"""`holdfast fence check`: the zombie's write, the record, and the exit status."""

import json
import os
import signal
import subprocess
import unittest

from harness import PATIENCE, PROGRAM, CliCase, main


def token(counter, epoch=0):
    return f"{epoch:010d}.{counter:020d}"


class FenceCase(CliCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("state"))

    def check(self, shown, *arguments, resource="stock", **options):
        return self.holdfast("fence", "check", "--state", self.path("state"), "--token", str(shown),
                             resource, *arguments, **options)

    def accepts(self, shown, *arguments):
        done = self.check(shown, *arguments)
        self.assertIn(done.returncode, (0, 123), done.stderr)
        return done.returncode == 0

    def read(self, name):
        with open(self.path(name), encoding="ascii") as file:
            return file.read().strip()


class ZombieTest(FenceCase):
    def write(self, who, items):
        """What each holder's script does in the end."""
        return self.check(who, "--", "sh", "-c", f"echo {items} >{self.path('items')}")

    def test_a_holder_that_was_stopped_beyond_its_lease_is_refused(self):
        held = subprocess.Popen([PROGRAM, "hold", "--json", "--ttl", "1s", "stock"], env=self.env,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                start_new_session=True)
        self.addCleanup(held.stdout.close)
        self.addCleanup(held.wait, PATIENCE)
        self.addCleanup(held.stdin.close)
        event = {"event": ""}
        while event["event"] != "acquired":
            event = json.loads(held.stdout.readline())
        paused = event["token"]
        self.assertEqual(self.write(paused, 10).returncode, 0)
        os.kill(held.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, held.pid, signal.SIGCONT)

        # Waits until the lease of the stopped one is over.
        done = self.holdfast("run", "stock", "--", PROGRAM, "fence", "check", "--state",
                             self.path("state"), "stock", "--", "sh", "-c",
                             f"echo 9 >{self.path('items')}", timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)

        late = self.write(paused, 10)
        self.assertEqual(late.returncode, 123)
        self.assertIn(paused, late.stderr)
        self.assertEqual(self.read("items"), "9")

    def test_nobody_is_let_in_while_a_command_runs(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        first = subprocess.Popen(
            [PROGRAM, "fence", "check", "--state", self.path("state"), "--token", "5", "stock", "--",
             "sh", "-c", f"echo in >{self.path('first')}; read go <{fifo}"], env=self.env)
        self.addCleanup(first.wait, PATIENCE)
        try:
            self.until(lambda: os.path.exists(self.path("first")), "the first command")
            done = self.check(6, "--wait", "0", "--", "true")
            self.assertEqual(done.returncode, 124, done.stderr)
        finally:
            with open(fifo, "w", encoding="ascii") as file:
                file.write("go\n")
        self.assertEqual(first.wait(PATIENCE), 0)
        self.assertTrue(self.accepts(6))


class StoreTest(FenceCase):
    def ask(self, shown, *arguments, resource="stock"):
        return self.holdfast("fence", "check", "--store", self.env["HOLDFAST_STORE"], "--token",
                             str(shown), resource, *arguments)

    def test_the_store_tells_whether_a_token_is_current(self):
        done = self.holdfast("run", "stock", "--", "sh", "-c",
                             f'echo "$HOLDFAST_TOKEN" >{self.path("old")}; exec "$@"', "sh",
                             PROGRAM, "fence", "check", "--store", self.env["HOLDFAST_STORE"],
                             "--json", "stock")
        self.assertEqual(done.returncode, 0, done.stderr)
        old = self.read("old")
        self.assertEqual(json.loads(done.stdout), {"name": "stock", "token": old, "current": True})
        late = self.ask(old)
        self.assertEqual(late.returncode, 123)
        self.assertIn("that hold has ended", late.stderr)
        self.assertIn("has ended", self.ask(old, "-q").stderr)
        self.assertIs(json.loads(self.ask(old, "--json").stdout)["current"], False)

    def test_it_keeps_no_record_and_runs_nothing(self):
        self.assertEqual(self.ask(5).returncode, 123)
        refused = self.ask(5, "--", "touch", self.path("ran"))
        self.assertEqual(refused.returncode, 125)
        self.assertIn("takes no command", refused.stderr)
        self.assertIn("--file", self.ask(5, "--file", self.path("x")).stderr)
        self.assertEqual(self.ask(0).returncode, 125)
        self.assertEqual(self.ask(5, resource="x" * 600).returncode, 125)
        away = self.holdfast("fence", "check", "--store", "redis://127.0.0.1:1", "--token", "5",
                             "stock")
        self.assertEqual(away.returncode, 125, away.stderr)
        self.assertEqual(sorted(os.listdir(self.path("state"))), [])


class RecordTest(FenceCase):
    def test_the_newest_exclusive_token_is_remembered(self):
        self.assertTrue(self.accepts(5))
        self.assertTrue(self.accepts(token(5)))
        self.assertTrue(self.accepts(7))
        self.assertFalse(self.accepts(6))
        self.assertTrue(self.accepts(9, "--mode", "shared"))
        self.assertFalse(self.accepts(7, "--mode", "shared"))
        self.assertTrue(self.accepts(8))
        self.assertTrue(self.accepts(token(1, epoch=1)))
        self.assertFalse(self.accepts(2**64 - 1))

    def test_json_tells_both_tokens_as_text(self):
        done = self.check(9007199254740993, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(list(said), ["resource", "token", "mode", "accepted", "newest", "file"])
        self.assertEqual(said["newest"], token(9007199254740993))
        self.assertTrue(said["file"].startswith(self.path("state")))
        done = self.check(9007199254740992, "--json")
        self.assertEqual(done.returncode, 123)
        said = json.loads(done.stdout)
        self.assertEqual((said["accepted"], said["token"], said["newest"]),
                         (False, token(9007199254740992), token(9007199254740993)))

    def test_the_token_of_run_is_the_default(self):
        done = self.holdfast("run", "stock", "--", PROGRAM, "fence", "check", "--state",
                             self.path("state"), "stock")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^accepted stock token \d{10}\.\d{20}\n$")

    def test_readers_of_one_lock_do_not_shut_each_other_out(self):
        """Both are right at once: the older token is as good as the newer."""
        shown = f"{PROGRAM} fence check --state {self.path('state')} stock"
        older = subprocess.Popen(
            [PROGRAM, "run", "--shared", "stock", "--", "sh", "-c", f"echo in; read go; {shown}"],
            env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)
        self.addCleanup(older.communicate, timeout=PATIENCE)
        self.assertEqual(older.stdout.readline(), "in\n")
        newer = self.holdfast("run", "--shared", "stock", "--", "sh", "-c", shown)
        self.assertEqual(newer.returncode, 0, newer.stderr)
        said, complained = older.communicate("go\n", timeout=PATIENCE)
        self.assertEqual(older.returncode, 0, complained)
        self.assertIn("accepted", said)
        # A writer that comes after them is recorded, and then a reader of before is too late.
        done = self.holdfast("run", "stock", "--", "sh", "-c", shown)
        self.assertEqual(done.returncode, 0, done.stderr)
        late = said.split()[-1]
        done = self.check(late, env=self.env | {"HOLDFAST_TOKEN": late, "HOLDFAST_MODE": "shared"})
        self.assertEqual(done.returncode, 123, done.stderr)

    def test_permits_cannot_be_fenced(self):
        done = self.holdfast("run", "--permits", "1/3", "pool", "--", PROGRAM, "fence", "check",
                             "--state", self.path("state"), "stock")
        self.assertEqual(done.returncode, 125)
        self.assertIn("HOLDFAST_MODE: permits cannot be fenced", done.stderr)
        self.assertEqual(os.listdir(self.path("state")), [])

    def test_the_inherited_mode_is_that_of_the_inherited_token(self):
        env = self.env | {"HOLDFAST_TOKEN": "7", "HOLDFAST_MODE": "shared"}
        self.assertEqual(self.check(token(7), env=env).returncode, 0)
        self.assertTrue(self.accepts(5), "a shared token is not remembered")
        self.assertEqual(self.check(9, env=env).returncode, 0)
        self.assertFalse(self.accepts(8), "another token than the inherited one is exclusive")
        self.assertEqual(self.check(9, "--mode", "exclusive", env=env).returncode, 0)
        done = self.check(7, env=env | {"HOLDFAST_MODE": "odd"})
        self.assertEqual(done.returncode, 125)
        self.assertIn("HOLDFAST_MODE", done.stderr)

    def test_a_resource_has_its_own_record(self):
        self.assertTrue(self.accepts(7))
        self.assertEqual(self.check(5, resource="other/..").returncode, 0)
        self.assertEqual(sorted(f for f in os.listdir(self.path("state")) if f.endswith("fence")),
                         ["other%2F...fence", "stock.fence"])

    def test_a_file_of_ones_own_serves_one_resource(self):
        file = self.path("my.fence")
        arguments = ("fence", "check", "--file", file, "--token", "5")
        self.assertEqual(self.holdfast(*arguments, "stock").returncode, 0)
        self.assertEqual(self.holdfast(*arguments, "-q", "stock").stdout, "")
        done = self.holdfast(*arguments, "other")
        self.assertEqual(done.returncode, 125)
        self.assertIn("another resource", done.stderr)

    def test_what_is_not_a_whole_record_admits_nobody(self):
        file = self.path("my.fence")
        arguments = ("fence", "check", "--file", file, "stock", "--token")
        self.assertEqual(self.holdfast(*arguments, "5").returncode, 0)
        with open(file, encoding="ascii") as record:
            whole = record.read()
        for text in ("", whole[:-3], whole.replace("5\n", "4\n"), whole + "x", "mine\n" * 9):
            with self.subTest(text=text):
                with open(file, "w", encoding="ascii") as record:
                    record.write(text)
                done = self.holdfast(*arguments, "9", "--", "touch", self.path("ran"))
                self.assertEqual(done.returncode, 125)
                self.assertIn("nobody is admitted", done.stderr)
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_the_default_folder_is_beside_the_default_store(self):
        options = {}
        if os.geteuid() == 0:  # Whose folder is the system's.
            os.chmod(self.dir, 0o755)
            options = {"user": 65534, "group": 65534, "extra_groups": []}
        os.mkdir(self.path("home"))
        os.chmod(self.path("home"), 0o777)
        done = self.holdfast("fence", "check", "--token", "5", "stock",
                             env=self.env | {"HOME": self.path("home")}, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(
            os.path.exists(self.path("home/.local/state/holdfast/fence/stock.fence")))


class MistakesTest(FenceCase):
    def wrong(self, *arguments):
        done = self.holdfast("fence", *arguments)
        self.assertEqual(done.returncode, 125, done.stderr)
        return done.stderr

    def test_each_mistake_is_named(self):
        state = ("--state", self.path("state"))
        self.assertIn("HOLDFAST_TOKEN", self.wrong("check", *state, "stock"))
        self.assertIn("'x' is not a token", self.wrong("check", *state, "--token", "x", "stock"))
        self.assertIn("RESOURCE is missing", self.wrong("check", *state, "--token", "5"))
        self.assertIn("permits", self.wrong("check", *state, "--token", "5", "--mode", "permits",
                                            "stock"))
        self.assertIn("contradict", self.wrong("check", *state, "--file", "x", "--token", "5",
                                               "stock"))
        self.assertIn("only: holdfast fence check", self.wrong("chekc"))
        self.assertIn("holdfast fence check RESOURCE", self.wrong())
        self.assertIn("--json", self.wrong("check", *state, "--token", "5", "--json", "stock", "--",
                                           "true"))
        self.assertIn("no token", self.wrong("check", *state, "--token", "0", "stock"))
        self.assertIn("No such file", self.wrong("check", "--state", self.path("none"), "--token",
                                                 "5", "stock"))
        self.assertEqual(os.listdir(self.path("state")), [])

    def test_what_is_no_regular_file_gets_nothing_beside_it(self):
        os.mkfifo(self.path("pipe"))
        before = sorted(os.listdir(self.dir))
        self.assertIn("is not a regular file",
                      self.wrong("check", "--file", self.path("pipe"), "--token", "5", "stock"))
        self.assertIn("is a directory",
                      self.wrong("check", "--file", self.path("state"), "--token", "5", "stock"))
        self.assertEqual(sorted(os.listdir(self.dir)), before)

    def test_the_commands_own_status_is_ours(self):
        self.assertEqual(self.check(5, "--", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.check(5, "--", self.path("none")).returncode, 127)
        self.assertEqual(self.check(5, "--", self.path("state")).returncode, 126)

    def test_a_name_behind_dashes_is_a_name(self):
        state = ("--state", self.path("state"), "--token", "5")
        done = self.holdfast("fence", "check", *state, "--", "-x", "--", "echo", "ran")
        self.assertEqual((done.returncode, done.stdout), (0, "ran\n"), done.stderr)
        self.assertIn("dashes of its own", self.wrong("check", *state, "--", "-x", "echo"))


if __name__ == "__main__":
    main()
