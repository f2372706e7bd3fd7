"""What newcomers try: is it held, a lease id from a pipe, help on one screen, completion."""

import json
import os
import socket
import shutil
import subprocess
import time
import unittest

import harness
from harness import PROGRAM, CliCase


COMPLETIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../completions")


class StatusTest(CliCase):
    def test_the_exit_status_tells_held_from_free(self):
        done = self.holdfast("status", "job")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertTrue(done.stdout.startswith("job: free\n"), done.stdout)
        lease = self.holdfast("acquire", "--ttl", "60s", "--json", "job").stdout
        done = self.holdfast("status", "job")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^job: held by .+\(pid \d+\), token "
                         + json.loads(lease)["token"] + r", \d+\.?\d*m?s left\n")
        self.assertIn("over already", done.stdout)
        self.holdfast("release", json.loads(lease)["lease"])
        self.assertEqual(self.holdfast("status", "job").returncode, 1)

    def test_quiet_prints_nothing_and_json_is_that_of_inspect(self):
        self.holdfast("acquire", "--ttl", "60s", "job")
        for name, status in (("job", 0), ("other", 1)):
            done = self.holdfast("status", "-q", name)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (status, "", ""))
            done = self.holdfast("status", "--json", name)
            told = json.loads(done.stdout)
            self.assertEqual((done.returncode, told["held"]), (status, status == 0))
            self.assertEqual(set(told), set(self.inspect(name)))

    def test_what_nobody_can_say_is_neither(self):
        with open(self.path("file"), "w", encoding="ascii") as file:
            file.write("no folder")
        nowhere = f"sqlite://{self.path('file')}/locks.db"
        for arguments in (["status"], ["status", "a", "b"], ["status", ""],
                          ["status", "--store", nowhere, "job"]):
            done = self.holdfast(*arguments)
            self.assertEqual((done.returncode, done.stdout), (125, ""), arguments)
            self.assertNotEqual(done.stderr, "")

    def test_every_command_says_what_is_wrong_with_a_name_and_where(self):
        names = (("n" * 300, "it has 300 bytes; a name has at most 256"), ("ab\x07", "control character U+0007 at byte 2"),
                 ("\u00e9\udcff", "not UTF-8 at byte 2 (0xFF)"))
        commands = (("run", "-n"), ("acquire",), ("hold",), ("status",), ("inspect",), ("ls",), ("watch",), ("top",),
                    ("break", "--token", "1"))
        for name, why in names:
            for command in commands:
                more = ("--", "true") if command[0] == "run" else ()
                done = self.holdfast(*command, name, *more)
                self.assertEqual(done.returncode, 125, (command, done.stdout, done.stderr))
                self.assertIn(why, done.stderr, command)

    def test_waiters_and_all_holders_are_told(self):
        for _ in range(2):
            self.holdfast("acquire", "--shared", "--ttl", "60s", "job")
        waiting = self.run_locked("job", "--", "true")
        waiting.event("waiting")
        self.until(lambda: len(self.inspect()["waiters"]) == 1, "the waiter is in the queue")
        done = self.holdfast("status", "job")
        self.assertEqual(done.stdout.count("job: held by "), 2)
        self.assertIn("job: 1 waiting\n", done.stdout)


class LeaseFromInputTest(CliCase):
    def test_a_dash_reads_the_id_from_the_input(self):
        lease = self.holdfast("acquire", "--ttl", "60s", "job").stdout
        done = self.holdfast("renew", "--ttl", "90s", "-", stdin=lease)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("renewed job", done.stdout)
        done = self.holdfast("release", "-", stdin=lease.strip() + "\r\nand more\n")
        self.assertEqual((done.returncode, done.stdout), (0, "released job\n"), done.stderr)
        self.assertEqual(self.holdfast("status", "-q", "job").returncode, 1)

    def test_an_input_without_an_id_is_a_mistake(self):
        for text in ("", "\n", "-\n", "nonsense\n", "x" * 10_000):
            for command in ("renew", "release"):
                done = self.holdfast(command, "-", stdin=text)
                self.assertEqual((done.returncode, done.stdout), (125, ""), text[:20])
        self.assertIn("holdfast acquire", self.holdfast("release", "-", stdin="").stderr)


class HelpScreenTest(CliCase):
    def test_the_first_page_fits_one_screen(self):
        lines = self.holdfast("help").stdout.splitlines()
        self.assertLessEqual(len(lines), 40)
        self.assertLessEqual(max(map(len, lines)), 100)

    def test_an_example_of_each_kind_of_store(self):
        for arguments in (["help"], ["help", "stores"]):
            page = self.holdfast(*arguments).stdout
            for url in ("sqlite:///", "redis://", "redis+unix:///", "zookeeper://", "etcd://",
                        "consul://", "memory:"):
                self.assertIn(url, page, arguments)


SCRIPT = r"""
. "$1"
shift
COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
# As readline splits a line: at spaces, and at ':', '=' and '@', which are words of their own.
mapfile -t COMP_WORDS < <(sed -E 's/([:=@]+)/ \\1 /g' <<< "$COMP_LINE" | tr -s ' ' '\n')
[ "${COMP_LINE: -1}" = ' ' ] && [ -n "${COMP_WORDS[-1]}" ] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_holdfast
printf '%s\n' "${COMPREPLY[@]}"
"""


class OddPasswordTest(CliCase):
    def test_a_password_that_must_be_encoded_gives_a_hint_and_is_not_shown(self):
        for url in ("redis://alice:s3cret/Pw@127.0.0.1:1", "etcd://alice:1/s3cret@127.0.0.1:1",
                    "zookeeper://alice:s3cret?Pw@127.0.0.1:1"):
            done = self.holdfast("ls", "--store", url)
            self.assertEqual(done.returncode, 125, url)
            self.assertIn("%2F", done.stderr)
            self.assertNotIn("s3cret", done.stderr)


class CompletionTest(CliCase):
    def complete(self, line):
        """What bash offers for the rest of `line`, which begins behind `holdfast `."""
        done = subprocess.run(
            ["bash", "-c", SCRIPT, "bash", f"{COMPLETIONS}/holdfast.bash",
             PROGRAM + " " + line],
            env=self.env, capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(done.stderr, "")
        return [word for word in done.stdout.split("\n") if word]

    def test_it_knows_the_names_of_locks(self):
        for name in ("build/web", "build/api", "team:deploy", "two words"):
            self.holdfast("acquire", "--ttl", "60s", "--reason", '"name":"none"', name)
        for verb in ("run", "acquire", "hold", "ls", "status", "inspect", "watch", "break"):
            self.assertEqual(self.complete(verb + " bui"), ["build/api", "build/web"], verb)
        self.assertEqual(self.complete("status "), ["build/api", "build/web", "team:deploy"])
        self.assertEqual(self.complete("status team:"), ["deploy"])
        self.assertIn("--wait", self.complete("run --w"))
        self.assertEqual(self.complete("run --reason "), [])

    def test_it_asks_the_store_of_the_line(self):
        other = f"sqlite://{self.path('other.db')}"
        self.holdfast("acquire", "--store", other, "--ttl", "60s", "elsewhere")
        self.assertEqual(self.complete("status e"), [])
        self.assertEqual(self.complete(f"status --store {other} e"), ["elsewhere"])
        self.assertEqual(self.complete(f"status --store={other} e"), ["elsewhere"])

    def test_it_knows_the_tokens_of_the_holders(self):
        tokens = [json.loads(self.holdfast("acquire", "--json", "--shared", "--ttl", "60s",
                                           "job").stdout)["token"] for _ in range(2)]
        self.assertEqual(sorted(self.complete("break job --token ")), sorted(tokens))
        self.holdfast("break", "job", "--token", tokens[0])
        self.assertEqual(self.complete("break job --token "), tokens[1:])
        self.assertEqual(self.complete("break free --token "), [])

    def test_a_store_that_does_not_answer_holds_up_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            begun = time.monotonic()
            url = f"redis://127.0.0.1:{server.getsockname()[1]}?open_timeout=1h"
            self.assertEqual(self.complete(f"status --store {url} x"), [])
            self.assertLess(time.monotonic() - begun, 10)

    def test_it_knows_the_kinds_of_stores(self):
        self.assertIn("etcds://", self.complete("ls --store e"))
        self.assertEqual(self.complete("ls --store redis:"), ["//"])

    def test_it_offers_what_options_and_words_take(self):
        for line, offered in (("run --on-lost ", ["term", "kill", "ignore"]),
                              ("id next x --policy step:", ["1024"]),
                              ("failover s", ["status", "switch"]), ("help st", ["status", "store"]),
                              ("top --int", ["--interval"]),
                              ("run --reenter --ttl 1", ["1s", "10s", "1m", "1h"]),
                              ("acquire --max", [])):
            self.assertEqual(self.complete(line), offered, line)
        self.assertIn("printenv", self.complete("run job --on-lost kill -- printe"))


@unittest.skipUnless(shutil.which("fish"), "there is no fish: 'scripts/setup test' installs it")
class FishCompletionTest(CliCase):
    def test_it_offers_commands_options_and_values(self):
        for line, offered in (("run --on-lost ", ["ignore", "kill", "term"]),
                              ("failover s", ["status", "switch"]), ("help st", ["status", "store"]),
                              ("top --int", ["--interval"]), ("ls --store etcds", ["etcds://"]),
                              ("acquire --max", []), ("run job -- printenv --on-l", [])):
            done = subprocess.run(
                ["fish", "--no-config", "-c", f"source {COMPLETIONS}/holdfast.fish;"
                 f" complete -C 'holdfast {line}'"], capture_output=True, text=True, timeout=20,
                check=False, env={**self.env, "PATH": os.path.dirname(PROGRAM) + ":/usr/bin:/bin"})
            words = [each.split("\t")[0] for each in done.stdout.splitlines()]
            self.assertEqual((words, done.stderr), (offered, ""), line)


# Prints what the completion hands to zsh's _arguments, for the words after the first.
ZSH = r"""
function _arguments _describe { print -rl -- "$@" "${(P@)@[-1]}" }
function complete { local -a words=(holdfast "$@"); local CURRENT=$#words; . $FILE }
FILE=$1; shift
complete "$@"
"""


@unittest.skipUnless(shutil.which("zsh"), "there is no zsh: 'scripts/setup test' installs it")
class ZshCompletionTest(CliCase):
    def specs(self, *words):
        done = subprocess.run(
            ["zsh", "-f", "-c", ZSH, "zsh", f"{COMPLETIONS}/_holdfast", *words],
            capture_output=True, text=True, timeout=20, check=False,
            env={**self.env, "PATH": os.path.dirname(PROGRAM) + ":/usr/bin:/bin"})
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines()

    def test_it_gives_each_option_with_what_it_takes(self):
        specs = self.specs("run", "")
        for spec in ("(--on-lost)--on-lost[end COMMAND by SIGTERM, then SIGKILL]:value:(term kill ignore)",
                     "(-n --no-wait --wait)-n[do not wait at all]", "*::command: _normal", ":lock:"):
            self.assertIn(spec, specs)
        self.assertIn(":value:(status switch return)", self.specs("failover", ""))
        self.assertTrue(any(spec.endswith(r":value:(sqlite\: etcd\:// memory\:)")
                            for spec in self.specs("serve", "")))
        self.assertIn("store:make the tables of a store that has some", self.specs("st"))


if __name__ == "__main__":
    harness.main()
