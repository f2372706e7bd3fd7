"""The other commands: help, stores, configuration, looking, leases, JSON shapes."""

import contextlib
import getpass
import json
import os
import re
import select
import signal
import socket
import sqlite3
import subprocess

import harness
import pages
from harness import PATIENCE, PROGRAM, CliCase

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMANDS = [line.split(":")[0] for line in subprocess.run(
    [PROGRAM, "help", "--commands"], capture_output=True, text=True, check=True).stdout.splitlines()]


def shape(value):
    """JSON with every value replaced by its type: what readers rely on."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return {str: "text", bool: "bool", int: "number", float: "number",
            type(None): "null"}[type(value)]


def listed_options(case):
    """The rows of `holdfast help --options`."""
    return [line.split("\t") for line in case.holdfast("help", "--options").stdout.splitlines()]


class StoreInitTest(CliCase):
    def test_a_store_without_tables_has_nothing_to_make(self):
        for url, name in ((self.store, "sqlite"), ("memory:", "memory"), ("redis://127.0.0.1:1", "redis")):
            said = f"the {name} store has no tables of its own: there is nothing to make\n"
            done = self.holdfast("store", "init", "--store", url)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, said, ""))
            done = self.holdfast("store", "init", "--store", url, "--json")
            self.assertEqual(json.loads(done.stdout),
                             {"place": None, "format": None, "created": False})
            done = self.holdfast("store", "init", "--store", url, "--print-sql")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", "holdfast: " + said))

    def test_nobody_sees_the_password_of_a_store_that_is_a_word(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = "redis://u:sekret@127.0.0.1:%d" % silent.getsockname()[1]
            asking = subprocess.Popen([PROGRAM, "doctor", url], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
            silent.settimeout(30)
            with silent.accept()[0], open(f"/proc/{asking.pid}/cmdline", encoding="utf-8") as file:
                shown = file.read()  # It has read its arguments by now.
            asking.kill()
            asking.wait()
        self.assertIn("redis://127.0.0.1", shown)
        self.assertNotIn("sekret", shown)

    def test_wrong_words_are_named(self):
        for arguments, words in (([], "holdfast store init"), (["make"], "there is no 'make'"),
                                 (["init", "x"], "one argument too many"),
                                 (["init", "redis://u:pw@h"],
                                  "'redis://h' is one argument too many; a store is named by --store"),
                                 (["init", "--print-sql", "--json"], "contradict"),
                                 (["init", "--store", "other://x"], "no store 'other:'")):
            done = self.holdfast("store", *arguments)
            self.assertEqual((done.returncode, done.stdout), (125, ""), arguments)
            self.assertIn(words, done.stderr)


class HelpTest(CliCase):
    def test_without_arguments_it_helps_and_fails(self):
        done = self.holdfast()
        self.assertEqual(done.returncode, 125)
        self.assertIn("holdfast run NAME -- COMMAND", done.stdout)

    def test_every_command_has_a_page_and_the_front_page_names_it(self):
        front = self.holdfast("help").stdout
        for command in COMMANDS:
            with self.subTest(command=command):
                page = self.holdfast("help", command)
                self.assertEqual(page.returncode, 0)
                self.assertTrue(page.stdout.startswith("holdfast " + command))
                self.assertIn(command, front)
        for command in COMMANDS[:-2]:  # help and version have no --help.
            self.assertEqual(self.holdfast(command, "--help").stdout,
                             self.holdfast("help", command).stdout)

    def test_a_wrong_option_names_the_nearest_and_the_page(self):
        done = self.holdfast("run", "--no-wiat", "job", "--", "true")
        self.assertIn("did you mean --no-wait?", done.stderr)
        self.assertIn("holdfast help run", done.stderr)

    def test_an_empty_value_does_not_take_the_next_argument(self):
        done = self.holdfast("run", "--reason=", "job", "--", "printenv", "HOLDFAST_NAME")
        self.assertEqual((done.returncode, done.stdout), (0, "job\n"), done.stderr)
        done = self.holdfast("run", "--wait=", "job", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("'' is not a duration", done.stderr)
        done = self.holdfast("ls", "--store=", self.store)
        self.assertEqual(done.returncode, 125, "an empty URL")

    def test_an_option_without_its_value_is_named(self):
        for arguments in (["run", "--wait"], ["acquire", "job", "--ttl"], ["ls", "--store"],
                          ["run", "--wait", "--", "true"], ["fence", "check", "--token"]):
            with self.subTest(arguments=arguments):
                done = self.holdfast(*arguments)
                option = [word for word in arguments if len(word) > 2 and word[0] == "-"][0]
                self.assertEqual((done.returncode, done.stderr),
                                 (125, f"holdfast: {arguments[0]}: {option} needs a value"
                                       f" (see 'holdfast help {arguments[0]}')\n"))

    def test_help_and_version_know_their_arguments(self):
        for arguments in (["version", "--jsn"], ["version", "x"], ["help", "run", "x"],
                          ["help", "fence", "x"], ["help", "fence", "check", "x"],
                          ["help", "store", "init", "x"],
                          ["help", "--foo"], ["--version", "x"], [""], ["help", ""]):
            with self.subTest(arguments=arguments):
                done = self.holdfast(*arguments)
                self.assertEqual(done.returncode, 125)
                self.assertIn("holdfast: ", done.stderr)
        for arguments in (["version", "--help"], ["help", "--help"], ["help"], ["help", "fence"],
                          ["help", "fence", "check"], ["help", "store", "init"]):
            self.assertEqual(self.holdfast(*arguments).returncode, 0)

    def test_what_acquire_and_renew_cannot_do_is_refused(self):
        done = self.holdfast("acquire", "--max-hold", "5s", "job")
        self.assertEqual(done.returncode, 125)
        self.assertIn("--ttl", done.stderr)
        lease = self.holdfast("acquire", "job").stdout.strip()
        done = self.holdfast("renew", "--ttl", "0", lease)
        self.assertEqual(done.returncode, 125)
        self.assertIn("must be positive", done.stderr)

    def test_a_wrong_command_names_the_nearest(self):
        done = self.holdfast("inspct", "job")
        self.assertEqual(done.returncode, 125)
        self.assertIn("did you mean 'inspect'?", done.stderr)
        self.assertIn("after the command", self.holdfast("--json", "ls").stderr)

    def test_what_other_programs_call_it_is_understood(self):
        for word, meant in (("lock", "'run' or 'acquire'"), ("unlock", "'release'"),
                            ("list", "'ls'"), ("kill", "'break'"),
                            ("rm", "'break'"), ("show", "'inspect'"), ("flock", "'run'"),
                            ("init", "'store init'")):
            self.assertIn(f"did you mean {meant}?", self.holdfast(word, "job").stderr)

    def test_the_options_of_flock_are_understood_or_answered(self):
        run = lambda *options: self.holdfast("run", *options, "job", "--", "echo", "ran")
        for options in (("-n",), ("-w", "5"), ("-w5",), ("-s",), ("-x",), ("-e",), ("-xn",)):
            self.assertEqual(run(*options).stdout, "ran\n", options)
        for options, words in ((("-u",), "holdfast release LEASE"), (("-o",), "nothing to close"),
                               (("-c", "true"), "sh -c"), (("--timeout", "5"), "use --wait D"),
                               (("--nonblock",), "use --no-wait"), (("-sx",), "contradict"),
                               (("-nw", "5"), "contradict")):
            done = run(*options)
            self.assertEqual((done.returncode, done.stdout), (125, ""), options)
            self.assertIn(words, done.stderr)
        self.holdfast("acquire", "--ttl", "60s", "job")
        self.assertEqual(run("-n", "-E", "0").returncode, 0)
        self.assertEqual(run("-w", "0.2", "-E", "7").returncode, 7)
        self.assertEqual(run("-n").returncode, 124)

    def test_a_forgotten_double_dash_is_explained(self):
        done = self.holdfast("run", "job", "make", "deploy")
        self.assertEqual(done.returncode, 125)
        self.assertIn("after '--'", done.stderr)

    def test_wrong_durations_are_refused(self):
        for text in ("", "x", "-1s", "1x", "1s1h", "1e3", "5 s", "9" * 30, "1.s", ".5s", "0x10",
                     "1h1h", "200000y"):
            with self.subTest(duration=text):
                done = self.holdfast("run", "--ttl=" + text, "job", "--", "true")
                self.assertEqual(done.returncode, 125)
                self.assertIn("--ttl", done.stderr)

    def test_manual_and_reference_repeat_the_help_pages(self):
        shown = {command: self.holdfast("help", command).stdout for command in COMMANDS}
        for path in ("docs/man/holdfast.1", "docs/cli.md"):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                text = file.read()
            new = pages.updated(text, shown)
            if os.environ.get("HOLDFAST_UPDATE_GOLDEN") == "1":
                with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
                    file.write(new)
            else:
                self.assertEqual(text, new, f"{path} (HOLDFAST_UPDATE_GOLDEN=1 writes it anew)")

    def test_the_reference_knows_every_command(self):
        with open(os.path.join(ROOT, "docs/cli.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual([each for each in COMMANDS if not re.search(rf"\b{each}\b", text)], [])

    def test_every_page_knows_every_kind_of_store(self):
        refused = self.holdfast("ls", "--store", "nosuch://x").stderr
        schemes = re.findall(r"[a-z+]+(?=:)", refused.split("there is ")[-1].split(" (")[0])
        self.assertIn("consuls", schemes)
        texts = {"help": self.holdfast("help").stdout,
                 "help stores": self.holdfast("help", "stores").stdout}
        texts["completions"] = self.holdfast("help", "--stores").stdout
        for path in ("docs/man/holdfast.1", "include/holdfast/client.h"):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                texts[path] = file.read().replace("\\:", ":")
        for path, text in texts.items():
            missing = [each for each in schemes
                       if not re.search(rf"(?<![a-z+]){re.escape(each)}:", text)]
            self.assertEqual(missing, [], path)

    def test_the_reference_and_the_list_for_completions_know_every_option(self):
        options = {option for command in COMMANDS for option in
                   re.findall(r"(?<![\w-])--[a-z][a-z-]+", self.holdfast("help", command).stdout)}
        listed = {name for row in listed_options(self) for name in row[1].split()}
        with open(os.path.join(ROOT, "docs/cli.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(sorted(o for o in options if o not in text), [])
        self.assertEqual(sorted(options - listed), [])

    def test_the_list_for_completions_tells_what_the_parser_accepts(self):
        rows = listed_options(self)
        # What a page does not explain is left out: acquire refuses --max-hold.
        self.assertNotIn(("acquire", "--max-hold"), [tuple(row[:2]) for row in rows])
        words_seen = 0
        for command, names, takes, excludes, words in rows:
            name = names.split()[-1]
            with self.subTest(command=command, name=name):
                self.assertNotEqual(words, "")
                if takes == "duration" or "|" in takes and names.startswith("-"):
                    said = self.holdfast(command, name, "?").stderr
                    fitting = re.search(r"'\?' is not one of (.*) \(see", said)
                    words_seen += bool(fitting)
                    if fitting:
                        self.assertEqual(fitting[1].split(", "), takes.split("|"))
                    elif takes == "duration":
                        self.assertIn("is not a duration", said)
                for other in excludes.split() if excludes != "-" else []:
                    self.assertIn(name, next(row[3] for row in rows
                                             if row[0] == command and other in row[1].split()))
        self.assertGreaterEqual(words_seen, 5)


class StoreChoiceTest(CliCase):
    def setUp(self):
        super().setUp()
        del self.env["HOLDFAST_STORE"]

    def as_user(self, *arguments, env=None):
        """As somebody who is not root, with a home of their own."""
        options = {}
        if os.geteuid() == 0:
            os.chmod(self.dir, 0o755)
            os.makedirs(self.path("home"), exist_ok=True)
            os.chown(self.path("home"), 65534, 65534)
            options = {"user": 65534, "group": 65534, "extra_groups": []}
        else:
            os.makedirs(self.path("home"), exist_ok=True)
        base = {**self.env, "HOME": self.path("home")}
        return self.holdfast(*arguments, env=base if env is None else env, cwd="/", **options)

    def test_the_default_is_a_file_of_the_users_own(self):
        done = self.as_user("run", "-v", "job", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        file = self.path("home/.local/state/holdfast/locks.db")
        self.assertIn(file, done.stderr)
        self.assertTrue(os.path.exists(file))

    def test_ids_are_in_the_same_file(self):
        for arguments in (("init", "orders"), ("next", "orders"), ("workers", "orders"),
                          ("init", "invoices", "--segments"), ("next", "invoices")):
            done = self.as_user("id", *arguments, "-v")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(self.path("home/.local/state/holdfast/locks.db"), done.stderr)
        self.assertEqual(done.stdout, "1\n")

    def test_xdg_state_home_comes_first(self):
        state = self.path("home/st ate%")
        done = self.as_user("run", "job", "--", "true",
                            env={**self.env, "HOME": self.path("home"), "XDG_STATE_HOME": state})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.exists(state + "/holdfast/locks.db"))

    def test_without_a_home_it_says_what_to_do(self):
        env = {key: value for key, value in self.env.items() if key != "HOME"}
        done = self.as_user("run", "job", "--", "true", env=env)
        self.assertEqual(done.returncode, 125)
        self.assertIn("--store", done.stderr)
        self.assertIn("HOME", done.stderr)

    def test_a_directory_that_cannot_be_written_is_explained(self):
        os.makedirs(self.path("home"), exist_ok=True)
        done = self.as_user("run", "--store", "sqlite:///proc/holdfast/locks.db", "job", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("/proc/holdfast", done.stderr)
        done = self.as_user("run", "--store", f"sqlite://{self.dir}/locked/locks.db", "job", "--",
                            "true")
        self.assertEqual(done.returncode, 125, "the test's directory is not the user's")
        self.assertIn("locked", done.stderr)

    def test_the_file_that_may_not_be_written_is_the_one_named(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be somebody else")
        os.makedirs(self.path("common"))
        os.chmod(self.path("common"), 0o777)
        store = "sqlite://" + self.path("common/l.db")
        self.holder("job", "--store", store)
        for opened, refused in ((("l.db",), "l.db.use"), (("l.db", "l.db.use"), "l.db-wal")):
            for name in opened:
                os.chmod(self.path("common/" + name), 0o666)
            os.chmod(self.path("common/" + refused), 0o640)
            done = self.as_user("run", "--no-wait", "--store", store, "job", "--", "true")
            self.assertEqual(done.returncode, 125)
            self.assertIn(f"{refused} belongs to root (uid 0) with mode 0640", done.stderr)

    def test_a_path_through_a_file_is_told_to_be_wrong(self):
        with open(self.path("file"), "w", encoding="ascii"):
            pass
        done = self.as_user("ls", "--store", "sqlite://" + self.path("file/l.db"))
        self.assertEqual(done.returncode, 125)
        self.assertIn("through folders only", done.stderr)
        self.assertNotIn("retrying", done.stderr)

    def test_option_environment_and_files_in_this_order(self):
        os.makedirs(self.path(".config/holdfast"))
        with open(self.path(".config/holdfast/config.toml"), "w", encoding="utf-8") as file:
            file.write(f'store = "sqlite://{self.dir}/by-file.db"\n')
        def store(*options, **variables):
            done = self.holdfast("ls", "-v", *options, env={**self.env, **variables})
            return re.search(r"by-\w+", done.stderr).group()
        by_env = {"HOLDFAST_STORE": f"sqlite://{self.dir}/by-env.db"}
        self.assertEqual(store(), "by-file")
        self.assertEqual(store(**by_env), "by-env")
        self.assertEqual(store("--store", f"sqlite://{self.dir}/by-option.db", **by_env),
                         "by-option")

    def config(self, text, *arguments):
        with open(self.path("c.toml"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.holdfast("run", "--config", self.path("c.toml"), *arguments, "job", "--",
                             "true", env={**self.env, "HOLDFAST_STORE": self.store})

    def test_a_number_with_a_fraction_is_a_duration(self):
        done = self.config("ttl = 1.5\n", "--kill-after", "501ms")
        self.assertEqual(done.returncode, 125)
        self.assertIn("1.5s", done.stderr)
        self.assertEqual(self.config("ttl = 1.5\n").returncode, 0)
        for text, shown in (("nan", "nan"), ("-1.5", "-1.5"), ("1e30", "1e+30"), ("true", "must be"),
                            ("[1]", "must be"), ("0", "must be positive")):
            with self.subTest(ttl=text):
                done = self.config(f"ttl = {text}\n")
                self.assertEqual(done.returncode, 125)
                self.assertIn(shown, done.stderr)

    def test_the_configuration_may_come_through_a_pipe(self):
        for text, status in (("ttl = '9s'\n", 0), ("ttl = 'x'\n", 125)):
            done = self.holdfast("run", "--config", "/dev/stdin", "job", "--", "true", stdin=text,
                                 env={**self.env, "HOLDFAST_STORE": self.store})
            self.assertEqual(done.returncode, status, done.stderr)
        done = self.holdfast("ls", "--config", "/dev/zero")
        self.assertEqual(done.returncode, 125)
        self.assertIn("too large", done.stderr)

    def test_mistakes_in_the_configuration_name_file_and_line(self):
        for text, line, what in [("store = 5\n", 1, "store"), ("\nstroe = 'x'\n", 2, "store"),
                                 ("[run]\n\nwait = 'x'\n", 3, "duration"),
                                 ("[run]\non_lost = 'no'\n", 2, "ignore"),
                                 ("[run]\nexit_lost = 300\n", 2, "255"),
                                 ("a = \n", 1, ""), ("run = 3\n", 1, "run"),
                                 ("names = 3\n", 1, "[names]"), ("[names]\njob = 3\n", 2, "PREFIX"),
                                 ("[names.job]\nttk = '3s'\n", 2, "did you mean ttl?")]:
            with self.subTest(text=text):
                done = self.config(text)
                self.assertEqual(done.returncode, 125)
                self.assertIn(f"c.toml:{line}: ", done.stderr)
                self.assertIn(what, done.stderr)

    def test_the_configuration_sets_defaults_and_options_come_first(self):
        text = "ttl = '3s'\n[run]\nkill_after = '2s'\n"
        self.assertEqual(self.config(text).returncode, 125, "more than a third")
        done = self.config(text, "--kill-after", "1s")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_rule_for_names_counts_before_the_rest_of_the_file(self):
        text = ("ttl = '9s'\n[names.jo]\nttl = '3s'\n[names.'payment/']\nttl = '6s'\n"
                "[run]\nkill_after = '2s'\n")
        done = self.config(text)
        self.assertEqual(done.returncode, 125, "more than a third of the rule's ttl")
        self.assertIn("3s", done.stderr)
        self.assertEqual(self.config(text, "--ttl", "9s").returncode, 0)
        longer = text.replace("[run]", "[names.job]\nttl = '9s'\n[run]")
        self.assertEqual(self.config(longer).returncode, 0, "the longest beginning counts")
        self.holder("job", "--store", self.store)
        done = self.config("[names.job]\nwait = '1ms'\n[run]\nwait = '1h'\n")
        self.assertEqual(done.returncode, 124, done.stderr)

    def test_a_missing_file_is_an_error_only_when_it_was_named(self):
        done = self.holdfast("ls", "--config", self.path("missing.toml"))
        self.assertEqual(done.returncode, 125)
        self.assertIn("missing.toml", done.stderr)
        self.assertNotIn("retrying", done.stderr)

    def test_a_lock_in_memory_is_said_to_keep_nobody_out(self):
        for arguments in (["run", "job", "--", "true"], ["hold", "job"], ["acquire", "job"]):
            with self.subTest(arguments=arguments):
                done = self.holdfast(arguments[0], "--store", "memory:", *arguments[1:])
                self.assertEqual(done.returncode, 0)
                self.assertIn("keeps nobody else out", done.stderr)
        self.assertEqual(self.holdfast("run", "-q", "--store", "memory:", "job", "--",
                                       "true").stderr, "")

    def test_what_is_said_can_be_read_by_machines(self):
        there_is_none = ["ls", "--store", "redis://127.0.0.1:1/?connect_timeout=1s"]
        done = self.holdfast(*there_is_none, "--log-format", "json")
        self.assertEqual(done.returncode, 125)
        lines = [json.loads(line) for line in done.stderr.splitlines()]
        self.assertGreaterEqual(len(lines), 1)
        for line in lines:
            self.assertLessEqual({"time", "severity", "event", "text"}, set(line))
        self.assertIn("127.0.0.1:1", lines[-1]["text"])
        done = self.holdfast(*there_is_none, "--log-format=logfmt")
        self.assertRegex(done.stderr, r"(?m)^time=\S+Z severity=\w+ event=\w+ .*text=\".*\"$")
        self.assertEqual(self.holdfast("ls", "--log-format", "xml").returncode, 125)

    def test_a_very_long_url_is_shortened_in_messages(self):
        for url in ("sqlite://" + self.dir + "/x" * 3000, "sqlite:///" + "x" * 5000):
            done = self.holdfast("ls", "--store", url)
            self.assertEqual(done.returncode, 125)
            self.assertLess(len(done.stderr), 700)

    def test_a_secret_in_the_url_is_never_shown(self):
        done = self.holdfast("run", "-v", "--store", "redis://me:s3cret@localhost/?password=s3cret",
                             "job", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertNotIn("s3cret", done.stderr)


class LookTest(CliCase):
    def test_a_free_lock_is_free(self):
        info = self.inspect("nobody")
        self.assertEqual((info["held"], info["holders"], info["owner"]), (False, [], None))
        self.assertIn("free", self.holdfast("inspect", "nobody").stdout)

    def test_inspect_and_ls_tell_who_holds_and_who_waits(self):
        holder = self.holder("job", "--reason", "nightly")
        waiter = self.run_locked("job", "--", "true")
        waiter.event("waiting")
        info = self.inspect()
        self.assertEqual(info["name"], "job")
        self.assertEqual((info["pid"], info["reason"]), (holder.pid, "nightly"))
        self.assertIsInstance(info["token"], str)
        self.assertGreater(info["time_left_ms"], 0)
        self.assertRegex(info["since"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual([w["pid"] for w in info["waiters"]], [waiter.pid])
        listed = json.loads(self.holdfast("ls", "--json", "jo").stdout)
        self.assertEqual([lock["name"] for lock in listed], ["job"])
        self.assertEqual(json.loads(self.holdfast("ls", "--json", "x").stdout), [])
        self.assertIn("nightly", self.holdfast("ls").stdout)
        self.assertIn("waiter 1", self.holdfast("inspect", "job").stdout)

    def test_a_long_name_moves_its_own_line_only(self):
        for name in ("job", "n" * 200):
            self.assertEqual(self.holdfast("acquire", "--ttl", "60s", name).returncode, 0)
        head, job, long = self.holdfast("ls").stdout.splitlines()
        self.assertLess(max(len(head), len(job)), 150)
        self.assertEqual(job.index("exclusive"), head.index("MODE"))
        self.assertTrue(long.startswith("n" * 200 + "  exclusive"), long)

    def test_a_lock_of_the_librarys_own_is_inspected_and_broken_by_the_name_that_ls_shows(self):
        # As a barrier's participant leaves it that died over the record.
        lease = self.holdfast("acquire", "--ttl", "60s", "step/xx/barrier")
        self.assertEqual(lease.returncode, 0, lease.stderr)
        with contextlib.closing(sqlite3.connect(self.path("locks.db"))) as file:
            renamed = file.execute("UPDATE locks SET name = CAST('step/../barrier' AS BLOB)")
            self.assertEqual(renamed.rowcount, 1)
            file.commit()
        # It notes the lock by its name before: the file would be taken for an older copy.
        os.remove(self.path("locks.db.use"))
        listed = json.loads(self.holdfast("ls", "--json").stdout)
        self.assertEqual([lock["name"] for lock in listed], ["step/../barrier"])
        self.assertIn("step/../barrier", self.holdfast("ls").stdout)
        info = self.inspect("step/../barrier")
        self.assertTrue(info["held"])
        done = self.holdfast("break", "step/../barrier", "--token", info["token"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(self.holdfast("ls", "--json").stdout), [])
        for refused in (["run", "step/../barrier", "--", "true"], ["acquire", "step/../barrier"],
                        ["inspect", "step/.."], ["inspect", "../barrier"]):
            done = self.holdfast(*refused)
            self.assertEqual(done.returncode, 125, refused)
            self.assertIn("'..' is not allowed", done.stderr)

    def test_a_trace_id_is_shown_and_inherited(self):
        first, second = "00-4bf92f35-01", "other"
        holder = self.run_locked("--trace-id", first, "job", "--",
                                 "sh", "-c", "echo $HOLDFAST_TRACE_ID; exec sleep 60")
        self.assertEqual(holder.line(), first)
        waiter = self.run_locked("job", "--", "true",
                                 env={**self.env, "HOLDFAST_TRACE_ID": second})
        self.assertEqual(waiter.event("waiting")["trace_id"], second)
        info = self.inspect()
        self.assertEqual((info["trace_id"], info["waiters"][0]["trace_id"]), (first, second))
        self.assertIn("trace " + first, self.holdfast("inspect", "job").stdout)

    def test_a_trace_id_that_is_none_is_refused(self):
        for trace in ("a b", "x" * 129):
            done = self.holdfast("acquire", "--trace-id", trace, "job")
            self.assertEqual(done.returncode, 125)
            self.assertIn("128 characters", done.stderr)
        self.assertEqual(self.holdfast("acquire", "--trace-id=", "job").returncode, 0)

    def test_an_inherited_trace_id_that_is_none_stops_nothing(self):
        for trace in ("a b", "x" * 129):
            env = {**self.env, "HOLDFAST_TRACE_ID": trace}
            for arguments in (["run", "a", "--", "true"], ["hold", "b"], ["acquire", "c"],
                              ["elect", "d", "--", "true"]):
                with self.subTest(arguments=arguments):
                    done = self.holdfast(*arguments, env=env)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stderr.count("HOLDFAST_TRACE_ID is ignored"), 1)
            self.assertEqual(self.inspect("c")["trace_id"], "")
            self.assertEqual(self.holdfast("run", "-q", "a", "--", "true", env=env).stderr, "")
            self.assertEqual(self.holdfast("run", "--trace-id", "t", "a", "--", "true", env=env).stderr,
                             "", "the option comes first")
            self.holdfast("break", "c", "--token", self.inspect("c")["token"])

    def test_a_break_names_the_user_to_the_holder_and_to_those_who_look(self):
        who = f"{getpass.getuser()}: holdfast"
        running = self.holder("job", ttl="3s")
        self.assertEqual(self.inspect()["program"], f"{who} run sleep")
        self.assertRegex(self.inspect()["owner"], rf"^[^/]+/{running.pid}/[0-9a-f]{{12}}$")
        self.assertEqual(self.holdfast("break", "job", "--token", self.inspect()["token"])
                         .returncode, 0)
        self.assertEqual(running.status(), 123)
        self.assertIn(f"it was broken by {who}", running.errors())
        self.assertIn(f"by {who}", self.holdfast("inspect", "job").stdout)

    def test_every_part_of_an_inspection_has_all_fields(self):
        fields = {"name", "token", "mode", "owner", "host", "pid", "program", "since", "reason",
                  "trace_id", "time_left_ms"}
        self.assertLessEqual(fields, set(self.inspect("nobody")))
        self.holder("job", ttl="30s")
        self.run_locked("job", "--", "sleep", "60").event("waiting")
        self.assertEqual(self.holdfast("break", "job", "--token", self.inspect()["token"])
                         .returncode, 0)
        self.until(lambda: self.inspect()["held"], "the waiter holds it")
        self.run_locked("job", "--", "true").event("waiting")
        info = self.inspect()
        for part in (info, info["holders"][0], info["waiters"][0], info["last_break"]):
            self.assertLessEqual(fields, set(part))
            self.assertEqual(part["name"], "job")

    def test_break_needs_the_right_token_and_leaves_a_trace(self):
        self.holder(ttl="30s")
        self.assertEqual(self.holdfast("break", "job").returncode, 125)
        self.assertEqual(self.holdfast("break", "job", "--token", "x").returncode, 125)
        self.assertEqual(self.holdfast("break", "job", "--token", "1").returncode, 123)
        self.assertTrue(self.inspect()["held"])
        done = self.holdfast("break", "job", "--token", self.inspect()["token"], "--reason", "fire")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(self.inspect()["held"])
        self.assertEqual(self.inspect()["last_break"]["reason"], "fire")

    def test_watch_tells_what_happens(self):
        watch = subprocess.Popen([PROGRAM, "watch", "--json", "--count", "2", "jo"], env=self.env,
                                 stdout=subprocess.PIPE, text=True)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        self.addCleanup(watch.stdout.close)
        # A watch sees what happens after it began; until it has, there is nothing to await.
        for _ in range(100):
            self.assertEqual(self.holdfast("run", "job", "--", "sleep", "0.1").returncode, 0)
            if select.select([watch.stdout], [], [], 0)[0]:
                break
        event = json.loads(watch.stdout.readline())
        self.assertEqual(event["name"], "job")
        self.assertIn(event["event"], ("granted", "released"))
        self.assertLessEqual({"token", "owner", "host", "pid", "since", "time_left_ms"}, set(event))

    def test_doctor_tells_health_by_its_status(self):
        done = self.holdfast("doctor", "--json")
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if report["healthy"] else 1)
        self.assertEqual(
            self.holdfast("doctor", "--require", "fenced,survives-restart").returncode, 0)
        self.assertEqual(self.holdfast("doctor", "--require", "magic").returncode, 125)
        self.assertEqual(self.holdfast("doctor", "--require", "").returncode, 125)
        for store in (self.store, "memory:"):
            done = self.holdfast("doctor", "--store", store, "--json", "--require",
                                 "fenced,survives-failover")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(json.loads(done.stdout)["missing"], ["survives-failover"])
            self.assertIn("refuse old tokens", done.stderr)
        done = self.holdfast("doctor", "--store", "memory:", "--require", "survives-restart")
        self.assertEqual(done.returncode, 1)
        self.assertIn("survives-restart", done.stderr)

    def test_a_doctor_takes_the_store_as_a_word_once(self):
        done = self.holdfast("doctor", "--json", "memory:")
        self.assertEqual(json.loads(done.stdout)["guarantees"]["store"], "memory")
        done = self.holdfast("doctor", "--store", "memory:", "memory:")
        self.assertEqual(done.returncode, 125)
        self.assertIn("name the store once", done.stderr)

    def test_a_quiet_doctor_says_nothing_of_a_healthy_store(self):
        for store in (self.store, "memory:"):
            done = self.holdfast("doctor", "-q", "--store", store)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        done = self.holdfast("doctor", "-q", "--store", "memory:", "--require", "survives-restart")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("survives-restart", done.stderr)
        self.assertTrue(json.loads(self.holdfast("doctor", "-q", "--json").stdout)["healthy"])

    def test_bench_gives_its_figures(self):
        done = self.holdfast("bench", "--duration", "1s", "--in-flight", "2", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads(done.stdout)
        self.assertGreater(figures["pairs_per_s"], 0)
        self.assertGreater(figures["handoff_us"]["p50"], 0)
        self.assertGreaterEqual(figures["acquire_us"]["p99"], figures["acquire_us"]["p50"])
        self.assertEqual(figures["errors"], 0)

    def test_bench_has_as_many_in_flight_as_asked_for_on_one_thread_or_on_as_many(self):
        for option, threads in (("--in-flight", 1), ("--threads", 40)):
            done = self.holdfast("bench", "--store", "memory:", "--duration", "200ms", option, "40",
                                 "--json")
            figures = json.loads(done.stdout)
            self.assertEqual((figures["in_flight"], figures["threads"], figures["errors"]),
                             (40, threads, 0))
            self.assertGreaterEqual(figures["acquire_us"]["count"], 40)
        done = self.holdfast("bench", "--in-flight", "2", "--threads", "2")
        self.assertEqual(done.returncode, 125)
        self.assertIn("contradict", done.stderr)


class LeaseTest(CliCase):
    def test_acquire_renew_release(self):
        lease = self.holdfast("acquire", "--ttl", "20s", "job").stdout.strip()
        self.assertEqual(self.holdfast("run", "--no-wait", "job", "--", "true").returncode, 124)
        self.assertEqual(self.holdfast("renew", lease).returncode, 0)
        self.assertEqual(self.holdfast("release", lease).returncode, 0)
        self.assertEqual(self.holdfast("run", "--no-wait", "job", "--", "true").returncode, 0)

    def test_a_lease_longer_than_the_default_is_renewed_and_released(self):
        lease = json.loads(self.holdfast("acquire", "--json", "--ttl", "5m", "job").stdout)["lease"]
        for _ in range(2):
            renewed = self.holdfast("renew", "--json", lease)
            self.assertGreater(json.loads(renewed.stdout)["time_left_ms"], 240_000)
        self.assertEqual(self.holdfast("renew", "--ttl", "10s", lease).returncode, 0)
        self.assertEqual(self.holdfast("release", lease).returncode, 0)
        self.assertFalse(self.inspect()["held"])

    def test_a_lease_that_ended_says_so(self):
        lease = self.holdfast("acquire", "--ttl", "300ms", "job").stdout.strip()
        self.assertEqual(self.holdfast("run", "--wait", "5s", "job", "--", "true").returncode, 0)
        for command in ("renew", "release"):
            self.assertEqual(self.holdfast(command, lease).returncode, 123)

    def test_garbage_is_no_lease(self):
        self.assertEqual(self.holdfast("renew", "garbage").returncode, 125)

    def test_acquire_of_a_held_lock_gives_124(self):
        self.holder()
        for arguments, words in ((("--no-wait",), "'job' is held by somebody else"),
                                 (("--wait", "100ms"), "did not get 'job' within 100ms")):
            for command in ("acquire", "hold"):
                done = self.holdfast(command, *arguments, "job")
                self.assertEqual(done.returncode, 124)
                self.assertIn(words, done.stderr)

    def test_a_lease_id_that_nobody_can_read_is_given_back(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([PROGRAM, "acquire", "job"], env=self.env, stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 125)
        self.assertFalse(self.inspect()["held"])

    def hold(self, *options):
        process = subprocess.Popen([PROGRAM, "hold", *options, "job"], env=self.env,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        for stream in (process.stderr, process.stdout, process.stdin):
            self.addCleanup(stream.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertTrue(select.select([process.stdout], [], [], PATIENCE)[0])
        return process, process.stdout.readline()

    def test_hold_holds_until_its_input_ends(self):
        process, line = self.hold()
        self.assertRegex(line, r"^held job token \d{10}\.\d{20}$")
        self.assertTrue(self.inspect()["held"])
        process.stdin.write("ignored\n")
        process.stdin.close()
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertFalse(self.inspect()["held"])

    def test_hold_holds_until_a_signal_comes(self):
        process, _ = self.hold()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertFalse(self.inspect()["held"])

    def test_hold_tells_a_loss(self):
        process, line = self.hold("--ttl", "600ms")
        self.assertEqual(self.holdfast("break", "job", "--token", line.split()[-1]).returncode, 0)
        self.assertEqual(process.wait(PATIENCE), 123)
        self.assertIn("lost", process.stderr.read())

    def test_a_loss_is_an_event_of_the_log_that_names_the_lock(self):
        process, line = self.hold("--ttl", "600ms", "--trace-id", "00-4bf92f35-01",
                                  "--log-format", "json")
        token = line.split()[-1]
        self.assertEqual(self.holdfast("break", "job", "--token", token).returncode, 0)
        self.assertEqual(process.wait(PATIENCE), 123)
        self.assert_loss(json.loads(process.stderr.read().splitlines()[-1]), token)
        running = self.run_locked("--ttl", "1s", "--trace-id", "00-4bf92f35-01", "--log-format",
                                  "json", "job", "--", "sleep", "60")
        token = running.event("started")["token"]
        self.assertEqual(self.holdfast("break", "job", "--token", token).returncode, 0)
        self.assertEqual(running.status(), 123)
        said = [json.loads(line) for line in running.errors().splitlines()]
        self.assert_loss([one for one in said if one["event"] == "lock_lost"][0], token)

    def assert_loss(self, said, token):
        self.assertEqual([said[key] for key in ("event", "severity", "lock", "token", "trace_id", "error")],
                         ["lock_lost", "error", "job", token, "00-4bf92f35-01", "kBroken"])


class DescriptorTest(CliCase):
    def shell(self, script):
        return subprocess.run(["sh", "-c", script, "sh", PROGRAM], env=self.env, text=True,
                              capture_output=True, timeout=20, check=False)

    def test_closed_descriptors_do_no_harm(self):
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                self.assertEqual(self.shell(f'"$1" run job -- true {closed}').returncode, 0)
        check = subprocess.run(["sqlite3", self.path("locks.db"), "pragma integrity_check"],
                               capture_output=True, text=True, check=False)
        self.assertIn("ok", check.stdout or "ok")

    def test_hold_whose_events_cannot_be_written_is_an_error(self):
        done = self.shell('sleep 5 | "$1" hold --json job > /dev/full')
        self.assertEqual(done.returncode, 125)
        self.assertIn("cannot write", done.stderr)
        self.assertFalse(self.inspect()["held"])

    def test_output_that_cannot_be_written_is_an_error(self):
        for command in ("ls --json", "inspect job", "help", "version", "doctor"):
            with self.subTest(command=command):
                self.assertEqual(self.shell(f'"$1" {command} > /dev/full').returncode, 125)
                self.assertEqual(self.shell(f'"$1" {command} >&-').returncode, 125)

    def test_a_pipe_that_closes_ends_run_with_the_commands_status(self):
        done = self.shell('{ "$1" run job -- sh -c "echo x; exit 5"; echo $? >&2; } | true')
        self.assertRegex(done.stderr, r"5|141")


class ShapeTest(CliCase):
    """What --json prints, as types: kept in golden files."""

    def check(self, name, value):
        path = os.path.join(GOLDEN, name + ".json")
        text = json.dumps(shape(value), indent=2) + "\n"
        if os.environ.get("HOLDFAST_UPDATE_GOLDEN") == "1":
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(text, file.read(),
                             f"{path} (HOLDFAST_UPDATE_GOLDEN=1 accepts the new shape)")

    def json_of(self, *arguments):
        return json.loads(self.holdfast(*arguments).stdout)

    def test_shapes(self):
        self.check("inspect_free", self.json_of("inspect", "--json", "job"))
        holder = self.holder("job", ttl="30s")
        waiter = self.run_locked("job", "--", "true")
        self.check("event_waiting", waiter.event("waiting"))
        self.check("inspect_held", self.json_of("inspect", "--json", "job"))
        self.check("ls", self.json_of("ls", "--json"))
        token = self.inspect()["token"]
        self.check("break", self.json_of("break", "--json", "job", "--token", token))
        for word in ("acquired", "started", "exited", "released"):
            self.check("event_" + word, waiter.event(word))
        self.check("inspect_broken", self.json_of("inspect", "--json", "job"))
        self.check("event_lost", holder.event("lost"))

    def test_shapes_of_leases(self):
        lease = self.json_of("acquire", "--json", "job")
        self.check("acquire", lease)
        self.check("renew", self.json_of("renew", "--json", lease["lease"]))
        self.check("release", self.json_of("release", "--json", lease["lease"]))

    def test_shapes_of_doctor_bench_version(self):
        report = self.json_of("doctor", "--json")
        self.check("doctor", report)
        self.check("bench", self.json_of("bench", "--json", "--duration", "100ms"))
        self.check("version", self.json_of("version", "--json"))


if __name__ == "__main__":
    harness.main()
