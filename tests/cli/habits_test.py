"""What newcomers try: is it held, a lease id from a pipe, help on one screen."""

import json

import harness
from harness import CliCase


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


if __name__ == "__main__":
    harness.main()
