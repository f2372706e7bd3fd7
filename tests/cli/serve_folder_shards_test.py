"""`holdfast serve --shards N` on a folder: kills, another number, lost shards, and the operator's tools."""

import json
import os
import shutil
import subprocess
import unittest

import serve_test
from harness import PATIENCE, PROGRAM
from redis_server import die_with_parent
from serve_ids_test import RedisClient
from serve_test import ServeCase

SHARDS = 4


def shard_of(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return (value ^ value >> 32) % SHARDS


def names():
    """One lock of each shard."""
    found = {}
    number = 0
    while len(found) < SHARDS:
        found.setdefault(shard_of(f"job-{number}"), f"job-{number}")
        number += 1
    return [found[shard] for shard in range(SHARDS)]


class FolderShardsTest(ServeCase):
    def start(self, *arguments):
        self.server, said = self.serve("--listen", f"127.0.0.1:{self.port}", "--data", self.data, *arguments)
        return said

    def stop(self):
        self.server.terminate()
        self.assertEqual(self.server.wait(PATIENCE), 0)

    def begin(self):
        said = self.start("--shards", str(SHARDS))
        self.assertEqual((said["new_journal"], said["shards"], said["leading"]), (True, SHARDS, SHARDS))

    def acquire_all(self):
        return {name: self.ok("acquire", "--ttl", "60s", name).stdout.strip() for name in names()}

    def database(self, shard):
        return os.path.join(self.data, f"shard-{shard}" if shard else "", "journal.db")

    def test_a_killed_server_keeps_the_grants_and_tokens_of_every_shard(self):
        self.begin()
        leases = self.acquire_all()
        before = {name: self.inspect(name)["token"] for name in leases}
        for _ in range(3):
            self.kill()
            said = self.start()
            self.assertEqual((said["new_journal"], said["shards"], said["locks"]), (False, SHARDS, SHARDS))
            self.assertEqual(said["restored"], "")
            for name in leases:
                self.assertEqual(self.inspect(name)["token"], before[name])
                self.assertEqual(self.holdfast("run", "--no-wait", name, "--", "true").returncode, 124)
        for name, lease in leases.items():
            self.ok("renew", lease)
            self.ok("release", lease)
            token = self.ok("run", "--no-wait", name, "--", "sh", "-c", "echo $HOLDFAST_TOKEN").stdout
            self.assertGreater(token.strip(), before[name])

    def test_a_person_is_told_how_many_shards_there_are(self):
        server = subprocess.Popen(
            [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--data", self.data, "--shards", str(SHARDS)],
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=die_with_parent)
        self.addCleanup(self.end, server)
        url = server.stdout.readline().split()[1]
        self.assertIn("(new)", server.stdout.readline())
        self.assertIn("shards: leads 4 of 4", server.stdout.readline())
        self.assertRegex(self.ok("server", "status", url).stdout, "leads 4 of 4 ")
        self.ok("doctor", "--store", url)

    def test_the_number_is_kept_and_another_one_refused(self):
        self.begin()
        self.kill()
        for wrong in ("1", "2"):
            self.assertIn(f"has {SHARDS} shard(s), not {wrong}",
                          self.refused("--listen", "127.0.0.1:0", "--data", self.data, "--shards", wrong))
        self.start("--shards", str(SHARDS))
        self.kill()
        self.data = self.path("before")
        self.assertEqual(self.start()["shards"], 1)
        self.kill()
        self.assertIn("has 1 shard(s), not 4", self.refused("--listen", "127.0.0.1:0", "--data", self.data,
                                                            "--shards", str(SHARDS)))

    def test_one_server_at_a_time_also_without_the_lock_file(self):
        self.begin()
        self.assertIn("uses the folder", self.refused("--listen", "127.0.0.1:0", "--data", self.data))
        for shard in range(SHARDS):
            os.remove(os.path.join(os.path.dirname(self.database(shard)), "lock"))
        self.assertIn("uses the folder", self.refused("--listen", "127.0.0.1:0", "--data", self.data))
        self.assertIn("name the folder that it is in",
                      self.refused("--listen", "127.0.0.1:0", "--data", os.path.dirname(self.database(1))))

    def test_a_lost_or_damaged_shard_is_named(self):
        self.begin()
        self.acquire_all()
        self.stop()
        with open(self.database(1), "r+b") as file:
            file.write(b"no database at all")
        for words in (("serve", "--listen", "127.0.0.1:0", "--data", self.data),
                      ("server", "verify", self.data)):
            done = self.holdfast(*words)
            self.assertEqual(done.returncode, 125)
            self.assertIn(self.database(1), done.stderr)
        for shard in (1, 3, 2, 0):
            os.remove(self.database(shard))
            line = self.refused("--listen", "127.0.0.1:0", "--data", self.data)
            self.assertIn("is missing", line)
            self.assertIn("restore a backup", line)

    def test_lock_libraries_reach_every_shard_and_nothing_is_forwarded(self):
        self.begin()
        client = RedisClient(self.port)
        self.addCleanup(client.close)
        for name in names():
            self.assertEqual(client.ask("SET", name, "me", "NX", "PX", "60000"), "+OK")
        self.kill()
        self.start()
        client = RedisClient(self.port)
        self.addCleanup(client.close)
        for name in names():
            self.assertEqual(client.ask("SET", name, "other", "NX", "PX", "60000"), "$-1")
            self.assertEqual(client.ask("DEL", name), ":1")
        self.assertIn("different shards", client.ask("DEL", *names()))

    def test_a_backup_of_a_live_server_has_every_shard_and_comes_back(self):
        self.begin()
        leases = self.acquire_all()
        copy = self.path("copy")
        said = json.loads(self.ok("server", "backup", self.data, copy, "--json").stdout)
        self.assertEqual((said["shards"], said["locks"], said["holders"]), (SHARDS, SHARDS, SHARDS))
        self.assertEqual(json.loads(self.ok("server", "verify", "--json", copy).stdout), said)
        self.assertEqual(os.stat(copy).st_mode & 0o777, 0o700)
        self.assertIn("4 shards", self.ok("server", "verify", self.data).stdout)
        self.ok("release", leases.pop(names()[0]))  # The server goes on.
        self.assertIn("has a journal", self.holdfast("server", "restore", copy, self.data).stderr)
        self.kill()
        shutil.rmtree(self.data)
        self.assertIn("24 h", self.ok("server", "restore", copy, self.data).stdout)
        said = self.start()
        self.assertEqual((said["locks"], said["quiet_s"]), (SHARDS, 24 * 3600))
        for name in names():
            self.assertEqual(self.holdfast("run", "--no-wait", name, "--", "true").returncode, 125)
        told = self.holdfast("server", "status").stdout
        self.assertIn("leads 4 of 4, shards 0-3, restored: grants nothing", told)
        self.assertIn(": shards 0-3 of its journal", told)
        told = self.holdfast("doctor").stdout
        for shard in range(SHARDS):
            self.assertIn(f"shard {shard} of the journal at", told)
        self.stop()
        said = self.start("--clients-stopped")
        self.assertEqual((said["shards"], said["quiet_s"]), (SHARDS, 0))
        for lease in leases.values():
            self.ok("release", lease)

    def test_a_shard_that_is_a_restored_copy_waits_alone_and_is_named(self):
        self.begin()
        self.stop()
        os.remove(os.path.join(self.data, "shard-2", "journal.id"))
        said = self.start("--http", "127.0.0.1:0")
        self.assertEqual(said["restored"], "shard 2: its folder has no journal.id")
        done = self.holdfast("server", "status")
        self.assertEqual(done.returncode, 1)
        self.assertIn("leads 4 of 4, shard 2, restored: grants nothing", done.stdout)
        self.assertIn("shard 2 of its journal", done.stdout)
        told = json.loads(self.holdfast("server", "status", "--json").stdout)["servers"][0]
        self.assertEqual(told["quiet_shards"], [2])
        ready = subprocess.run(["curl", "-s", "-i", f"http://{said['http']}/readyz"],
                               stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertTrue(ready.startswith("HTTP/1.1 200"), ready)
        self.assertIn("shard 2: the journal is a restored copy", ready)
        self.assertIn("shard 2 of the journal at", self.holdfast("doctor").stdout)
        for shard, name in enumerate(names()):
            self.assertEqual(self.holdfast("acquire", "--no-wait", name).returncode == 0, shard != 2, name)

    def test_a_server_on_a_backup_itself_waits_too(self):
        self.begin()
        self.ok("server", "backup", self.data, self.path("copy"))
        self.stop()
        self.data = self.path("copy")
        self.assertEqual(self.start()["quiet_s"], 24 * 3600)


class FullDiskOfShardsTest(serve_test.FullDiskTest):
    """The same on a folder with several shards: each goes on with what is on the disk."""

    ARGUMENTS = f"--shards {SHARDS}"

    def test_operators_are_told_that_the_disk_is_nearly_full(self):
        super().test_operators_are_told_that_the_disk_is_nearly_full()
        self.assertEqual(self.said.count("% full"), 1, "all shards have the same disk")


if __name__ == "__main__":
    unittest.main()
