"""`holdfast id`: ids of one host over its processes, and bad input."""

import json
import os
import sqlite3
import subprocess
import unittest

from harness import PROGRAM, CliCase, main


class IdCase(CliCase):
    def setUp(self):
        super().setUp()
        self.file = ("--file", self.path("orders.ids"))

    def tell(self, *arguments, **options):
        return self.holdfast("id", *arguments, **options)

    def made(self, *options):
        done = self.tell("init", *self.file, *options)
        self.assertEqual(done.returncode, 0, done.stderr)

    def next(self, *options):
        done = self.tell("next", *self.file, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [int(line) for line in done.stdout.split()]

    def complains(self, done, *words):
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        for word in words:
            self.assertIn(word, done.stderr)


class StoreTest(IdCase):
    """Ids whose worker numbers or counters are in a store."""

    def setUp(self):
        super().setUp()
        self.store = ("--store", self.env["HOLDFAST_STORE"])

    def ok(self, *arguments):
        done = self.tell(*arguments, *self.store)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_leased_workers(self):
        self.assertIn("0 to 7", self.ok("init", "orders", "--workers", "0-7"))
        first = [int(line) for line in self.ok("next", "orders", "--count", "3").split()]
        second = [int(line) for line in self.ok("next", "orders").split()]
        self.assertEqual(len(set(first + second)), 4)
        self.assertEqual(first, sorted(first))
        rows = [json.loads(line) for line in self.ok("workers", "orders", "--json").splitlines()]
        self.assertTrue(1 <= len(rows) <= 2)
        self.assertEqual({row["held"] for row in rows}, {False})
        parts = json.loads(self.tell("decode", str(first[0]), "--layout",
                                     "time:41 worker:10 sequence:12", "--json").stdout)
        self.assertIn(parts["worker"], [row["worker"] for row in rows])

    def test_a_number_whose_record_is_gone_is_named_beside_the_others(self):
        self.ok("init", "orders", "--workers", "0-1")
        self.ok("next", "orders")
        used = json.loads(self.ok("workers", "orders", "--json"))["worker"]
        database = sqlite3.connect(self.env["HOLDFAST_STORE"].removeprefix("sqlite://"))
        with database:
            gone = database.execute("DELETE FROM records WHERE CAST(key AS TEXT) GLOB ?",
                                    (f"ids/orders/*/{1 - used}",)).rowcount
        database.close()
        self.assertEqual(gone, 1)
        done = self.tell("workers", "orders", *self.store)
        self.assertEqual(done.returncode, 125)
        self.assertIn(f"worker {1 - used} of the ids 'orders': its record is missing", done.stderr)
        self.assertIn(f"{used}  ", done.stdout)

    def test_processes_at_once(self):
        self.ok("init", "orders", "--workers", "0-9")
        command = [PROGRAM, "id", "next", "orders", *self.store, "--count", "500"]
        crowd = [subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, text=True)
                 for _ in range(6)]
        given = [line for each in crowd for line in each.communicate()[0].split()]
        self.assertEqual([each.returncode for each in crowd], [0] * 6)
        self.assertEqual((len(given), len(set(given))), (3000, 3000))

    def test_segments(self):
        self.ok("init", "invoices", "--segments")
        self.assertEqual(self.ok("next", "invoices", "--count", "3").split(), ["1", "2", "3"])
        self.assertEqual(self.ok("next", "invoices"), "4\n", "nothing is left out")
        status = json.loads(self.ok("status", "invoices", "--json"))
        self.assertEqual(status["next"], "5")
        self.assertIsNone(status["stopped"])
        self.ok("floor", "invoices", "--floor", "1000", "--reason", "a restored backup")
        self.assertEqual(self.ok("next", "invoices"), "1001\n")

    def test_what_does_not_fit_is_refused(self):
        self.ok("init", "orders")
        self.ok("init", "invoices", "--segments")
        for arguments, words in (
                (("init", "orders"), ("there already",)),
                (("init", "invoices"), ("segments", "another name")),
                (("init", "x", "--segments", "--layout", "leaf"), ("--layout",)),
                (("init", "x", "--workers", "3-5"), ("begin at 0",)),
                (("init", "a/b"), ("name",)),
                (("next", "nothing"), ("no namespace 'nothing'", "holdfast id init")),
                (("next", "orders", "--file", "x"), ("--file",)),
                (("next", "orders", "--layout", "leaf"), ("for good",)),
                (("next", "invoices", "--layout", "leaf"), ("segments",)),
                (("status", "orders"), ("workers",)),
                (("workers", "invoices"), ("segments",)),
                (("floor", "invoices"), ("--floor N", "--reason")),
                (("floor", "invoices", "--floor", "x", "--reason", "r"), ("no number",)),
                (("next", "orders", "--require", "speed"), ("durable",))):
            self.complains(self.tell(*arguments, *self.store), *words)
        self.complains(self.tell("init", "--segments", "--file", self.path("x")), "in a store")
        self.complains(self.tell("next", "orders", "--file", self.path("x")), "one of them")

    def test_counters_are_for_stores_that_have_them(self):
        self.complains(self.tell("next", "--counter", "--file", self.path("x")), "in a store")
        for arguments, words in (
                (("next", "orders", "--counter"), ("sqlite store", "segments")),
                (("init", "orders", "--counter"), ("sqlite store", "segments")),
                (("workers", "orders", "--counter"), ("'id init' and 'id next'",)),
                (("init", "x", "--counter", "--workers", "1"), ("plain numbers",)),
                (("init", "x", "--counter", "--segments"), ("without --segments",))):
            self.complains(self.tell(*arguments, *self.store), *words)
        self.complains(self.tell("next", "x", "--store", "memcached://127.0.0.1:1"), "no records")


class StoreOfTheLocksTest(IdCase):
    """Without --store and --file ids are in the store that every other command uses."""

    def workers_in(self, store):
        done = self.tell("workers", "orders", "--store", store, "--json")
        return [json.loads(line)["held"] for line in done.stdout.splitlines()]

    def test_two_hosts_with_one_holdfast_store_share_the_numbers(self):
        self.assertEqual(self.tell("init", "orders").returncode, 0)
        self.assertEqual(self.tell("next", "orders").returncode, 0)
        self.assertEqual(self.workers_in(self.env["HOLDFAST_STORE"]), [False])
        other = {**self.env, "HOME": self.path("other"), "XDG_STATE_HOME": self.path("other")}
        os.mkdir(self.path("other"))
        self.complains(self.tell("init", "orders", env=other), "there already")
        self.assertEqual(os.listdir(self.path("other")), [])

    def test_the_configuration_names_it_and_an_option_is_before_all(self):
        del self.env["HOLDFAST_STORE"]
        first, second = f"sqlite://{self.path('first.db')}", f"sqlite://{self.path('second.db')}"
        config = self.path("config.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'store = "{first}"\n')
        done = self.tell("init", "orders", "-v", "--config", config)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("from the configuration", done.stderr)
        self.assertEqual(self.tell("next", "orders", "--config", config).returncode, 0)
        self.assertEqual(self.workers_in(first), [False])
        self.complains(self.tell("next", "orders", "--config", config, "--store", second),
                       "no namespace")


class NumbersTest(IdCase):
    def test_ids_of_processes_one_after_the_other_grow(self):
        self.made()
        given = [self.next()[0] for _ in range(5)] + self.next("--count", "3")
        self.assertEqual(given, sorted(set(given)))

    def test_processes_at_once_have_numbers_of_their_own(self):
        self.made("--workers", "0-7")
        command = [PROGRAM, "id", "next", *self.file, "--count", "2000"]
        crowd = [subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, text=True)
                 for _ in range(8)]
        given = [line for each in crowd for line in each.communicate()[0].split()]
        self.assertEqual([each.returncode for each in crowd], [0] * 8)
        self.assertEqual(len(given), 16000)
        self.assertEqual(len(set(given)), 16000)

    def test_workers_shows_who_had_a_number(self):
        self.made("--workers", "5")
        self.next()
        done = self.tell("workers", *self.file, "--json")
        row = json.loads(done.stdout)
        self.assertEqual((row["worker"], row["held"]), (5, False))
        self.assertNotEqual(row["pid"], os.getpid())

    def test_the_parts_of_an_id_are_those_it_was_made_of(self):
        self.made("--workers", "9")
        done = self.tell("next", *self.file, "--json")
        text = json.loads(done.stdout)["id"]
        parts = json.loads(self.tell("decode", text, *self.file, "--json").stdout)
        self.assertEqual((parts["id"], parts["worker"], parts["sequence"]), (text, 9, 0))

    def test_decode_tells_how_far_the_time_may_be_ahead_where_that_is_known(self):
        def told(*arguments):
            done = self.tell("decode", "1541815603606036480", *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            parts = json.loads(self.tell("decode", "1541815603606036480", *arguments,
                                         "--json").stdout)
            return done.stdout.split("\n", 1)[0].split("(")[1], parts["ahead_at_most_ms"]

        layout = ("--layout", "twitter")
        self.assertEqual(told(*layout), ("logical: ahead of the clock by at most what the policy "
                                         "allows)", None))
        for policy, most in (("refuse", 0), ("wait:5ms borrow:10ms", 10), ("step:1024", 0)):
            self.assertEqual(told(*layout, "--policy", policy),
                             (f"logical: ahead of the clock by at most {most} ms)", most))
        self.assertEqual(told(*layout, "--policy", "logical borrow:10ms"),
                         ("logical: ahead of the clock by at most the time that it was set "
                          "back, and 10 ms)", None))
        self.made("--layout", "twitter", "--policy", "refuse borrow:7ms")
        self.assertEqual(told(*self.file)[1], 7)
        self.complains(self.tell("decode", "1", *self.file, "--policy", "refuse"), "--file")


class BadInputTest(IdCase):
    def test_what_is_wrong_is_named_with_the_next_step(self):
        self.complains(self.tell("next", *self.file), "id init")
        self.made()
        self.complains(self.tell("init", *self.file), "there already")
        other = ("--file", self.path("other"))
        self.complains(self.tell("init", *other, "--workers", "1020-1030"), "0 to 1023")
        self.complains(self.tell("init", *other, "--workers", "1-x"), "0-63")
        self.complains(self.tell("init", *other, "--layout", "tweeter"), "twitter")
        self.complains(self.tell("init", *other, "--policy", "guess"), "logical")
        self.complains(self.tell("init", "../other"), "name")
        self.complains(self.tell("next", *self.file, "--layout", "leaf"), "for good")
        own = ("--layout", "time:41 worker:10 sequence:12")
        self.assertEqual(self.tell("next", *self.file, *own).returncode, 0)
        self.complains(self.tell("workers", *self.file, *own), "--layout is for")
        self.complains(self.tell("next", *self.file, "--count", "0"), "--count")
        self.complains(self.tell("next", "--uuid", "--ulid"), "one of them")
        self.complains(self.tell("next", "--uuid", "--layout", "leaf"), "one of them")
        self.complains(self.tell("decode", "12"), "--layout")
        self.complains(self.tell("decode", "-1", "--layout", "leaf"))
        self.complains(self.tell("decode", "9007199254740992", "--layout", "javascript"), "53 bits")
        self.complains(self.tell("frob"), "decode")

    def test_a_copy_gives_nothing(self):
        self.made()
        with open(self.path("orders.ids"), "rb") as file, open(self.path("copy"), "wb") as copy:
            copy.write(file.read())
        self.complains(self.tell("next", "--file", self.path("copy")), "copied")


if __name__ == "__main__":
    main()
