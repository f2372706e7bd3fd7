"""`holdfast id`: ids of one host over its processes, and bad input."""

import json
import os
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
        self.complains(self.tell("init", "../other"), "letters")
        self.complains(self.tell("next", *self.file, "--layout", "leaf"), "for good")
        self.complains(self.tell("next", *self.file, "--count", "0"), "--count")
        self.complains(self.tell("next", "--uuid", "--ulid"), "one of them")
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
