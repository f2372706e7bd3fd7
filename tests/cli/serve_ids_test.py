"""Ids that the lock service keeps: by the command, by Redis' commands and by HTTP."""

import http.client
import json
import socket
import threading

import harness
from harness import PATIENCE
from serve_test import ServeCase


class RedisClient:
    """A plain client of Redis' protocol."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word) for word in map(str.encode, words)))
        return self.file.readline().decode().strip()

    def close(self):
        self.file.close()
        self.socket.close()


class IdsTest(ServeCase):
    def begin(self):
        self.server, said = self.serve("--listen", f"127.0.0.1:{self.port}", "--data", self.data,
                                       "--http", "127.0.0.1:0")
        self.http = said["http"]

    def redis(self):
        client = RedisClient(self.port)
        self.addCleanup(client.close)
        return client

    def post(self, name, body):
        connection = http.client.HTTPConnection(self.http, timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request("POST", f"/v1/ids/{name}/next", None if body is None else json.dumps(body),
                           {"Content-Type": "application/json", "Holdfast-Request": "1"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def segment_ids(self, count):
        out = self.ok("id", "next", "invoices", "--store", self.url, "--count",
                      str(count)).stdout
        return [int(line) for line in out.split()]

    def test_all_three_ways_share_one_counter(self):
        self.begin()
        self.ok("id", "init", "invoices", "--segments", "--store", self.url)
        client = self.redis()
        self.assertEqual(client.ask("INCR", "ids/invoices"), ":1")
        self.assertEqual(client.ask("INCRBY", "ids/invoices", "99"), ":100")
        status, body = self.post("invoices", {"count": 10})
        self.assertEqual((status, body), (200, {"name": "invoices", "first": "101", "last": "110",
                                                "count": 10}))
        self.assertEqual(self.segment_ids(3), [111, 112, 113])
        self.assertGreater(int(client.ask("INCR", "ids/invoices")[1:]), 113)

    def test_nothing_begins_by_itself_and_bad_input_says_what_to_do(self):
        self.begin()
        client = self.redis()
        self.assertIn("holdfast id init invoices", client.ask("INCR", "ids/invoices"))
        self.assertIn("ids/NAME", client.ask("INCR", "invoices"))
        status, body = self.post("invoices", {})
        self.assertEqual((status, body["error"]["code"]), (404, "no_such_ids"))
        self.assertIn("holdfast id init invoices", body["error"]["message"])
        status, body = self.post("two%20words", {})
        self.assertEqual(status, 404)
        self.assertIn("without spaces", body["error"]["message"])
        self.ok("id", "init", "invoices", "--segments", "--store", self.url)
        for count in (0, -1, 1_000_001, "1", 2**70):
            self.assertEqual(self.post("invoices", {"count": count})[0], 400, count)
        for count in ("0", "-1", "1000001", "x", ""):
            self.assertTrue(client.ask("INCRBY", "ids/invoices", count).startswith("-"), count)
        self.assertEqual(client.ask("INCR", "ids/invoices"), ":1", "nothing was taken meanwhile")
        self.assertEqual(self.post("invoices", None)[1]["first"], "2")

    def test_ids_with_a_time_need_no_client_of_holdfast(self):
        self.begin()
        self.ok("id", "init", "parcels", "--store", self.url, "--workers", "0-3")
        client = self.redis()
        given = [int(client.ask("INCR", "ids/parcels")[1:])]
        status, body = self.post("parcels", {"count": 10})
        self.assertEqual((status, body["name"], body["count"]), (200, "parcels", 10))
        given += [int(each) for each in body["ids"]]
        self.assertEqual(self.post("parcels", {"count": 1_000_000})[1]["count"], 1_000)
        given.append(int(client.ask("INCRBY", "ids/parcels", "1")[1:]))
        self.assertEqual(given, sorted(set(given)))
        for each in given:
            done = self.ok("id", "decode", str(each), "--layout", "time:41 worker:10 sequence:12",
                           "--json")
            self.assertEqual(json.loads(done.stdout)["worker"], 4, "the service's own number")
        self.assertIn("no range", client.ask("INCRBY", "ids/parcels", "2"))
        leased = self.ok("id", "next", "parcels", "--store", self.url, "--count", "100").stdout
        self.assertFalse(set(given) & {int(line) for line in leased.split()})

    def test_without_a_number_for_the_service_it_gives_no_ids_with_a_time(self):
        self.begin()
        self.ok("id", "init", "full", "--store", self.url, "--layout", "javascript")
        self.assertIn("fewer workers", self.redis().ask("INCR", "ids/full"))
        status, body = self.post("full", {})
        self.assertEqual(status, 409)
        self.assertIn("fewer workers", body["error"]["message"])
        self.ok("id", "next", "full", "--store", self.url)

    def test_a_killed_server_repeats_no_number(self):
        self.repeats_nothing_over_kills("--segments")

    def test_a_killed_server_repeats_no_id_with_a_time(self):
        self.repeats_nothing_over_kills()

    def repeats_nothing_over_kills(self, *kind):
        self.begin()
        self.ok("id", "init", "invoices", *kind, "--store", self.url)
        given = []
        for _ in range(5):
            enough = threading.Event()
            takers = [threading.Thread(target=self.take_until_lost,
                                       args=(given, len(given) + 200, enough)) for _ in range(8)]
            for each in takers:
                each.start()
            self.assertTrue(enough.wait(PATIENCE))
            self.kill()
            for each in takers:
                each.join()
            self.begin()
        self.assertEqual(len(given), len(set(given)))
        self.assertGreater(int(self.redis().ask("INCR", "ids/invoices")[1:]), max(given))

    def take_until_lost(self, given, many, enough):
        client = RedisClient(self.port)
        try:
            while line := client.ask("INCR", "ids/invoices"):
                given.append(int(line[1:]))
                if len(given) >= many:
                    enough.set()
        except OSError:
            pass
        finally:
            client.close()

    def test_worker_numbers_are_taken_by_leases(self):
        self.begin()
        self.ok("id", "init", "parcels", "--store", self.url)
        first = self.ok("id", "next", "parcels", "--store", self.url, "--count", "2").stdout.split()
        self.kill()
        self.begin()
        more = self.ok("id", "next", "parcels", "--store", self.url, "--count", "2",
                       "--require", "durable").stdout.split()
        self.assertEqual(sorted(set(first + more), key=int), first + more)

    def test_a_journal_in_memory_is_not_durable(self):
        _, said = self.serve("--listen", "127.0.0.1:0", "--journal", "memory:")
        self.ok("id", "init", "invoices", "--segments", "--store", said["url"])
        done = self.holdfast("id", "next", "invoices", "--store", said["url"], "--require",
                             "durable", timeout=PATIENCE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("in memory", done.stderr)


if __name__ == "__main__":
    harness.main()
