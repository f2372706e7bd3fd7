"""What holdfast-lab says and with which status it ends. Usage: program_test.py PROGRAM"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = ""

CALM = """name = "calm"
duration = "1500ms"
calm = "500ms"
[store]
kind = "memory"
[clients]
processes = 1
[[workload]]
kind = "contend"
owners = 2
"""

GUIDE = os.path.join(os.path.dirname(__file__), "../../docs/guide/lab-reference.md")


def of_the_guide():
    """The topology that the guide shows."""
    with open(GUIDE, encoding="utf-8") as file:
        return re.search(r"^```toml\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)[1]


# Another name than that of the lab's own, and other options.
PLUGGED = """name = "plugged"
duration = "4s"
calm = "2s"
[store]
topology = "my.toml"
proxy = true
[[workload]]
kind = "contend"
[[workload]]
kind = "guarded"
careful = false
[[nemesis]]
kind = "kill"
every = "400ms"
lasts = "100ms"
[[nemesis]]
kind = "restart"
every = "600ms"
lasts = "100ms"
"""

AT_A_POINT = """name = "point"
duration = "3s"
calm = "1s"
[store]
kind = "redis"
[clients]
subject = "get-then-del"
[[workload]]
kind = "contend"
[[nemesis]]
kind = "pause"
at = "between GET and DEL"
lasts = "50ms"
"""


def call(*arguments, cwd=None):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-lab-test-")
        self.addCleanup(self.folder.cleanup)

    # Asked at the first use, as the program is known then.
    def needs_exhibits(self):
        if call("exhibits", "--list")[0] != 0:
            self.skipTest("SKIPPED: built without the exhibits")

    def needs_the_redis_store(self):
        if "was left out" in call("matrix", "--store", "redis://127.0.0.1:1/")[2]:
            self.skipTest("SKIPPED: built without the Redis store")

    def file(self, text, name="x.toml"):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_run_keeps_what_check_judges_again(self):
        out = os.path.join(self.folder.name, "out")
        status, said, _ = call("run", "-q", "--seed", "9", "--out", out, self.file(CALM))
        self.assertEqual(status, 0, said)
        self.assertIn("ok      calm (memory, seed 9", said)
        kept = os.path.join(out, "calm-9")
        with open(os.path.join(kept, "report.json"), encoding="utf-8") as file:
            self.assertRegex(json.load(file).get("commit", "0"), r"^[0-9a-f]+(-dirty)?$")
        self.assertEqual(sorted(os.listdir(kept)), ["history.txt", "report.json", "report.md",
                                                    "scenario.toml", "timeline.svg"])
        status, said, _ = call("check", os.path.join(kept, "history.txt"))
        self.assertEqual(status, 0, said)
        self.assertIn("V0 0, V1 0, V2 0, V3 0", said)
        status, said, _ = call("run", "-q", os.path.join(kept, "scenario.toml"))
        self.assertIn("seed 9", said)
        self.assertEqual(status, 0, said)

    def test_a_cell_that_had_to_violate_and_did_not_is_wrong(self):
        path = self.file(CALM + "[expect]\nV1 = \"must\"\n")
        status, said, _ = call("run", "-q", path, cwd=self.folder.name)
        self.assertEqual(status, 1)
        self.assertIn("V1: required but never seen: the cell is wrong", said)
        self.assertIn("history: lab-found/calm-1\n", said)
        self.assertIn("timeline.svg", os.listdir(os.path.join(self.folder.name, "lab-found/calm-1")))

    def test_what_was_kept_is_not_overwritten(self):
        path = self.file(CALM)
        out = os.path.join(self.folder.name, "out")
        runs = [subprocess.Popen([PROGRAM, "run", "-q", "--out", out, path],
                                 stdout=subprocess.DEVNULL) for _ in range(3)]
        for run in runs:
            self.assertEqual(run.wait(timeout=60), 0)
        self.assertEqual(sorted(os.listdir(out)), ["calm-1", "calm-1-2", "calm-1-3"])
        for kept in os.listdir(out):
            self.assertEqual(call("check", os.path.join(out, kept, "history.txt"))[0], 0)

    def test_a_verdict_is_told_where_it_cannot_be_kept(self):
        path = self.file(CALM + "[expect]\nV1 = \"must\"\n")
        self.file("", "lab-found")
        status, said, told = call("run", "-q", path, cwd=self.folder.name)
        self.assertEqual(status, 1)
        self.assertIn("V1: required but never seen", said)
        self.assertIn("calm could not be kept: ", told)

    def test_what_cannot_be_told_is_no_success(self):
        with open("/dev/full", "wb") as full:
            for arguments in (["run", "-q", self.file(CALM)], ["exhibits", "--list"],
                              ["matrix", "--store", "memory", "--list"]):
                done = subprocess.run([PROGRAM, *arguments], stdout=full, timeout=60, check=False)
                self.assertEqual(done.returncode, 125, arguments)

    @unittest.skipUnless(shutil.which("redis-server"), "SKIPPED: no redis-server")
    def test_exhibits_without_an_output_end_as_a_failure(self):
        self.needs_exhibits()
        done = subprocess.run(["sh", "-c", 'exec "$0" exhibits thread-id >&-', PROGRAM], timeout=60,
                              stderr=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 125)

    @unittest.skipUnless(shutil.which("redis-server"), "SKIPPED: no redis-server")
    def test_an_exhibit_that_was_not_finished_is_not_judged(self):
        self.needs_exhibits()
        show = subprocess.Popen([PROGRAM, "exhibits"], stdout=subprocess.PIPE, text=True)
        rows = [show.stdout.readline(), show.stdout.readline()]
        show.send_signal(signal.SIGTERM)
        rows += show.communicate(timeout=60)[0].splitlines()
        self.assertEqual(show.returncode, 128 + signal.SIGTERM, rows)
        self.assertNotRegex("\n".join(rows), "MISSED|HOLDFAST")

    def test_check_finds_what_is_wrong_in_a_history(self):
        grant = ("{0}00 acquire invoke p={1} call=1 ttl=1000000\n"
                 "{0}50 acquire return p={1} call=1 ttl=1000000 outcome=granted id={1:032x} "
                 "token=0.{1} deadline=900000\n")
        text = "holdfast-history 1\nlock a\ntarget t\n" + grant.format(1, 1) + grant.format(2, 2)
        status, _, said = call("check", self.file(text, "cut.txt"))
        self.assertEqual(status, 2)
        self.assertIn("cut off", said)
        text += "end 4\n"
        # Another waits for three seconds after the release.
        waited = ("holdfast-history 1\nlock a\ntarget t\n" + grant.format(1, 1) +
                  "250 release invoke p=1 call=2 id={0:032x}\n"
                  "260 release return p=1 call=2 outcome=released id={0:032x}\n"
                  "270 acquire invoke p=3 call=1 ttl=1000000 wait=9000000000\n"
                  "3000000270 acquire return p=3 call=1 outcome=granted ttl=1000000 "
                  "wait=9000000000 id={1:032x} token=0.3 deadline=3000000300\nend 6\n"
                  ).format(1, 3)
        late = waited.replace("lock a", "limits 4000000000 5000000000 yes\nlock a")
        for history, flags, found in ((waited, [], "lost wake-up 1"), (late, [], "lost wake-up 0"),
                                      (late, ["--wake", "1s"], "lost wake-up 1")):
            said = call("check", *flags, self.file(history, "waited.txt"))[1]
            self.assertIn(found, said)
        status, said, _ = call("check", self.file(text, "history.txt"))
        self.assertEqual(status, 1, said)
        self.assertIn("V1 two-beliefs: lock 'a'", said)
        status, _, said = call("check", self.file("nonsense\n", "other.txt"))
        self.assertEqual(status, 2)
        self.assertIn("other.txt", said)

    def test_what_cannot_be_kept_is_told_before_anything_runs(self):
        calm = self.file(CALM)
        for command in (("run", calm), ("matrix", "--store", "memory")):
            for folder in ("/proc/x", "/dev/null", calm + "/x", ""):
                with self.subTest(command=command[0], folder=folder):
                    status, said, told = call(*command, "--out", folder)
                    self.assertEqual((status, said), (2, ""))
                    self.assertIn("cannot write there", told)

    def test_what_is_no_file_of_a_scenario_is_refused(self):
        for path, why in ((self.folder.name, "is a folder"), ("/dev/zero", "longer than such a file"),
                          (self.file(CALM.replace('"calm"', '"../calm"', 1)), "name may have")):
            with self.subTest(path=path):
                status, _, told = call("run", path)
                self.assertEqual(status, 2)
                self.assertIn(why, told)

    def test_bad_input_is_told_with_what_to_do(self):
        calm = self.file(CALM)
        path = self.file(CALM + "[[nemesis]]\nkind = \"kil\"\n", "bad.toml")
        stranger = self.file(CALM.replace("processes", "subject = \"x\"\nprocesses"), "other.toml")
        for arguments, words in (
                (["run", path], path + ":12: kind in [[nemesis]] is 'kil' (did you mean kill?)"),
                (["run", "/no/such.toml"], "cannot read the scenario '/no/such.toml'"),
                (["run"], "name the file of at least one scenario"),
                (["run", "--sed", "1", path], "did you mean --seed?"),
                (["run", "--seed", "x", calm], "--seed: 'x' is not a whole number"),
                (["run", "--duration", "100ms", calm], "--duration must be longer"),
                (["run", stranger],
                 "there are: holdfast"),
                (["matrix"],
                 "--store consul, etcd, failover-chain, holdfast-etcd, holdfast-shards, holdfast, hybrid-filter, hybrid, "
                 "memcached, memory, mysql, postgres, redis-cluster, redis-sentinel, redis, redlock, sqlite, "
                 "zookeeper, or a URL"),
                (["matrix", "--store", "oracle"], "there is no store 'oracle'"),
                (["matrix", "--store", "nosuch://x"], "there is no store 'nosuch:'"),
                (["matrix", "--store", "memory", "--cell", "x"], "there is no cell 'x'; --list"),
                (["matrix", "--store", "memory", "--rounds", "0"], "--rounds: must be from 1"),
                (["matrix", "--store", "memory", "x"], "'x' is one argument too many"),
                (["exhibits", "--out", "/dev/null/x"], "cannot write there"),
                (["exhibits", "--lst"], "did you mean --list?"),
                (["check"], "name the file of at least one history"),
                (["check", "/dev/zero"], "a line of more than 64 KiB"),
                (["check", self.folder.name], "is a folder, not a history"),
                (["rnu"], "did you mean 'run'?"),
                ([], "say what to do")):
            with self.subTest(arguments=arguments):
                status, out, said = call(*arguments)
                self.assertEqual((status, out), (2, ""))
                self.assertIn(words, said)

    def test_a_nemesis_that_never_strikes_is_told(self):
        never = self.file(CALM + '[[nemesis]]\nkind = "pause"\nfirst = "1h"\n', "never.toml")
        status, out, said = call("run", never)
        self.assertEqual((status, out), (2, ""))
        self.assertIn("never.toml: the nemesis pause can never strike", said)
        misspelt = self.file(CALM + '[[nemesis]]\nkind = "kill"\nat = "betwen"\n')
        status, said, _ = call("run", "-q", misspelt, cwd=self.folder.name)
        self.assertEqual(status, 1)
        self.assertIn("the nemesis kill never struck: no process passed 'betwen'", said)

    @unittest.skipUnless(shutil.which("redis-server"), "SKIPPED: no redis-server")
    def test_what_happens_at_a_point_counts_as_a_fault(self):
        self.needs_exhibits()
        out = os.path.join(self.folder.name, "out")
        scenario = self.file(AT_A_POINT)
        said = call("run", "-q", "--out", out, scenario)[1]
        with open(os.path.join(out, "point-1/report.json"), encoding="utf-8") as file:
            pauses = json.load(file)["faults"]["pause"]
        self.assertGreater(pauses, 0)
        self.assertIn(f" {pauses} faults", said)

    def test_a_store_that_is_not_there_is_told_before_anything_runs(self):
        status, out, said = call("matrix", "--store", "redis://127.0.0.1:1/")
        self.assertEqual((status, out), (125, ""))
        self.assertIn("the store cannot be used: ", said)

    def test_a_store_of_ones_own_is_used_where_it_is(self):
        place = os.path.join(self.folder.name, "own.db")
        text = CALM.replace('"memory"', f'"url"\nurl = "sqlite://{place}"')
        status, said, _ = call("run", "-q", self.file(text))
        self.assertEqual(status, 0, said)
        self.assertIn("ok      calm (sqlite", said)
        self.assertTrue(os.path.exists(place))

    def topology(self, text=None, name="my.toml"):
        return self.file(text or of_the_guide(), name)

    @unittest.skipUnless(shutil.which("redis-server") and shutil.which("redis-cli"),
                         "SKIPPED: no redis-server")
    def test_a_store_plugs_in_by_one_file(self):
        self.needs_the_redis_store()
        self.topology()
        out = os.path.join(self.folder.name, "out")
        scenario = self.file(PLUGGED, "plugged.toml")
        status, said, told = call("run", "-q", "--out", out, scenario)
        self.assertEqual(status, 0, said + told)
        self.assertRegex(said, r"ok      plugged \(my-redis \d+\.\d+\.\d+, seed 1")
        kept = os.path.join(out, "plugged-1")
        with open(os.path.join(kept, "report.json"), encoding="utf-8") as file:
            faults = json.load(file)["faults"]
        self.assertGreater(faults["kill"], 0)
        self.assertGreater(faults["restart"], 0)
        # What was kept needs nothing else to be run again.
        os.remove(os.path.join(self.folder.name, "my.toml"))
        status, said, told = call("run", "-q", os.path.join(kept, "scenario.toml"))
        self.assertEqual(status, 0, said + told)

    @unittest.skipUnless(shutil.which("redis-server") and shutil.which("redis-cli"),
                         "SKIPPED: no redis-server")
    def test_a_server_that_ends_by_itself_is_told_and_what_was_recorded_is_kept(self):
        self.needs_the_redis_store()
        self.topology(of_the_guide().replace(
            '["redis-server", "{folder}/my.conf"]',
            '["sh", "-c", "redis-server {folder}/my.conf & sleep 2; echo enough; exit 3"]'))
        scenario = self.file(PLUGGED.split("[[nemesis]]")[0], "plugged.toml")
        out = os.path.join(self.folder.name, "out")
        status, said, told = call("run", "-q", "--out", out, scenario)
        self.assertEqual(status, 1, said + told)
        self.assertIn("NOT OK  plugged", said)
        self.assertIn("the server of the topology 'my-redis' ended by itself with 3", said)
        kept = os.path.join(out, "plugged-1")
        with open(os.path.join(kept, "node-1.log"), encoding="utf-8") as file:
            self.assertIn("enough\n", file.read())
        status, said, told = call("check", os.path.join(kept, "history.txt"))
        self.assertEqual(status, 0, said + told)

    def test_the_matrix_has_cells_by_what_a_topology_can_do(self):
        path = self.topology()
        status, said, told = call("matrix", "--topology", path, "--list")
        self.assertEqual(status, 0, told)
        cells = said.split()
        for cell in ("kill", "partition", "server-pause", "restart", "wiped"):
            self.assertIn("my-redis-" + cell, cells)
        self.assertNotIn("my-redis-clock-ahead", cells)
        three = of_the_guide().replace('framing = ', 'nodes = [3]\npeer = "{port}"\nleader = ["true"]\nframing = ')
        status, said, told = call("matrix", "--topology", self.topology(three, "three.toml"), "--list")
        self.assertIn("my-redis-leader-pause", said.split(), told)
        status, _, told = call("matrix", "--topology", path, "--store", "memory")
        self.assertEqual(status, 2)
        self.assertIn("name the store", told)
        broken = self.topology(of_the_guide().replace("framing", "frmaing"), "z.toml")
        status, _, told = call("matrix", "--topology", broken)
        self.assertEqual(status, 2)
        self.assertIn("the key 'frmaing' in [server] is not known; did you mean framing?", told)

    def test_a_clock_that_cannot_be_shifted_is_skipped_with_the_reason(self):
        status, said, told = call("matrix", "--store", "zookeeper", "--list")
        self.assertEqual(status, 0, told)
        self.assertIn("zookeeper-server-clock", said.split())
        self.assertNotIn("SKIPPED: zookeeper-server-clock", told)
        for store in ("etcd", "consul"):
            status, said, told = call("matrix", "--store", store, "--list")
            self.assertEqual(status, 0, told)
            self.assertIn(store + "-clock", said.split())
            self.assertNotIn(store + "-server-clock", said.split())
            self.assertRegex(told, f"SKIPPED: {store}-server-clock: a static Go program")
        status, said, told = call("matrix", "--store", "holdfast-etcd", "--list")
        self.assertIn("holdfast-etcd-server-clock", said.split())
        self.assertNotIn("server-clock", told)
        status, _, told = call("matrix", "--store", "etcd", "--cell", "etcd-server-clock")
        self.assertEqual(status, 2)
        self.assertIn("etcd-server-clock cannot be run: a static Go program", told)

    def test_servers_that_are_cut_off_from_each_other_take_root_or_are_skipped(self):
        for store in ("etcd", "zookeeper", "consul"):
            status, said, told = call("matrix", "--store", store, "--list")
            self.assertEqual(status, 0, told)
            for role in ("leader", "follower"):
                cell = f"{store}-3-nodes-{role}-isolate"
                if os.geteuid() == 0:
                    self.assertIn(cell, said.split())
                else:
                    self.assertIn(f"SKIPPED: {cell}: only root", told)
        _, said, _ = call("matrix", "--store", "redis-cluster", "--list")
        for cell in ("redis-cluster-client-cut", "redis-cluster-node-cut"):
            self.assertEqual(cell in said.split(), os.geteuid() == 0)

    def test_every_cell_that_takes_root_is_skipped_with_the_reason_for_others(self):
        other = ["unshare", "--user"]  # Nobody, who may read what this user may read.
        if os.geteuid() == 0 and subprocess.run([*other, "true"], check=False).returncode != 0:
            self.skipTest("SKIPPED: no namespace of users")
        for store, cells, why in (
                ("holdfast-etcd", ("leader-isolate", "leader-isolate-one", "follower-isolate",
                                   "etcd-leader-partition", "etcd-follower-isolate"),
                 "only root may make a network between servers"),
                ("holdfast", ("disk-full",), "only root may mount a disk for the store"),
                ("sqlite", ("disk-full",), "only root may mount a disk for the store")):
            command = [PROGRAM, "matrix", "--store", store, "--list"]
            done = subprocess.run(other + command if os.geteuid() == 0 else command,
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            for cell in cells:
                self.assertNotIn(f"{store}-{cell}", done.stdout.split())
                told = done.stderr.count(f"SKIPPED: {store}-{cell}: {why}")
                self.assertEqual(told, 1, done.stderr)

    def test_what_a_topology_needs_and_is_not_there_is_told(self):
        long = "a-cell-with-a-very-lengthy-name"
        path = self.topology(of_the_guide().replace("redis-server", "rediss-server") +
                             f'[[cell]]\nname = "{long}"\n')
        status, said, told = call("matrix", "-q", "--topology", path, "--rounds", "1")
        self.assertEqual(status, 125)
        missing = "rediss-server of the topology 'my-redis' is not installed"
        self.assertIn(missing, told)
        # A cell that fails is a row, and the others are run.
        self.assertRegex(said, "my-redis-calm .* failed: " + missing)
        self.assertRegex(said, "my-redis-wiped .* failed: " + missing)
        self.assertRegex(said, f"my-redis-{long}  0 .* failed: " + missing)

    def test_help_has_a_page_for_every_command(self):
        for command in ("run", "matrix", "check", "exhibits"):
            status, said, _ = call("help", command)
            self.assertEqual(status, 0)
            self.assertIn("holdfast-lab " + command, said)
            self.assertEqual(call(command, "--help"), (0, said, ""))

    def test_the_matrix_names_its_cells(self):
        status, said, _ = call("matrix", "--store", "memory", "--list")
        self.assertEqual(status, 0)
        self.assertIn("memory-kill\n", said)

    def test_the_exhibits_have_names(self):
        self.needs_exhibits()
        status, said, _ = call("exhibits", "--list")
        self.assertEqual(status, 0)
        self.assertIn("get-then-del ", said)
        status, _, complaint = call("exhibits", "get-then-dell")
        self.assertEqual(status, 2)
        self.assertIn("there is no exhibit 'get-then-dell'", complaint)

    def test_the_matrix_tells_what_it_did_not_run(self):
        matrix = subprocess.Popen([PROGRAM, "matrix", "--store", "memory"], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertRegex(matrix.stderr.readline(), r"5 cells, a round takes 1m\d\ds")
        matrix.send_signal(signal.SIGTERM)
        said, _ = matrix.communicate(timeout=60)
        self.assertEqual(matrix.returncode, 128 + signal.SIGTERM)
        self.assertRegex(said, r"memory-kill +0 .* not run")
        self.assertRegex(said, r"not run: 5 of 5 cells \(a round takes 1m\d\ds\)")

    def test_a_signal_ends_a_run_and_leaves_nothing_behind(self):
        for number in (signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                self.end_by(number)

    def end_by(self, number):
        long = self.file(CALM.replace("1500ms", "60s"))
        run = subprocess.Popen([PROGRAM, "run", "-q", long])
        children = f"/proc/{run.pid}/task"
        deadline = time.monotonic() + 60
        folders = {}
        while not folders and time.monotonic() < deadline:
            for task in os.listdir(children):
                with open(f"{children}/{task}/children", encoding="ascii") as file:
                    for pid in file.read().split():
                        with open(f"/proc/{pid}/cmdline", encoding="ascii") as words:
                            order = words.read().split("\0")
                        if order[1:2] == ["worker"]:
                            folders[pid] = order[2]
            time.sleep(0.01)
        self.assertTrue(folders)
        run.send_signal(number)
        self.assertEqual(run.wait(timeout=60), 128 + number)
        for pid, folder in folders.items():
            self.assertFalse(os.path.exists(f"/proc/{pid}"))
            self.assertFalse(os.path.exists(folder))

    def test_a_run_whose_reader_has_gone_is_kept_and_is_the_last(self):
        reader, writer = os.pipe()
        os.close(reader)
        calm, out = self.file(CALM), os.path.join(self.folder.name, "unread")
        try:
            done = subprocess.run([PROGRAM, "run", "-q", "--out", out, calm, calm], stdout=writer,
                                  timeout=120, check=False)
        finally:
            os.close(writer)
        self.assertEqual(done.returncode, 128 + signal.SIGPIPE)
        self.assertEqual(len(os.listdir(out)), 1)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
