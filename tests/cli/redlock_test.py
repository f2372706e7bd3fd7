"""The commands on a Redlock cluster of three servers: what one store with several servers shows."""

import json
import os
import re
import subprocess
import sys
import time

import harness
import redis_server
from harness import CliCase

NODES = 3
PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "stores", "redlock.md")


class RedlockBase(CliCase):
    def start(self, lines=()):
        self.nodes = [redis_server.RedisServer(self, lines, f"redis{at}") for at in range(NODES)]
        self.list = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        self.env["HOLDFAST_STORE"] = f"redlock://{self.list}"

    def ok(self, *arguments, **options):
        done = self.holdfast(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def init(self):
        return self.ok("store", "init")


class RedlockCase(RedlockBase):
    def setUp(self):
        super().setUp()
        self.start()

    def test_a_new_cluster_waits_until_an_operator_says_that_nobody_holds(self):
        begin = time.monotonic()
        done = self.holdfast("run", "--no-wait", "job", "--", "true")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("takes no part for", done.stderr)
        self.assertLess(time.monotonic() - begin, 15)
        self.assertRegex(self.init().stdout, r"^made the nodes of redlock://")
        self.assertEqual(self.ok("run", "job", "--", "echo", "done").stdout, "done\n")

    def test_init_changes_nothing_once_a_node_takes_part(self):
        self.assertRegex(self.init().stdout, r"^made the nodes of redlock://")
        self.holder(ttl="10s")
        self.assertRegex(self.init().stdout, r"^found the nodes of redlock://")
        self.nodes[0].ask("FLUSHALL")
        self.assertRegex(self.init().stdout, r"^found the nodes of redlock://")
        self.assertIn("2 of 3 nodes take part", self.holdfast("doctor").stdout)
        busy = self.holdfast("run", "--no-wait", "job", "--", "true")
        self.assertEqual(busy.returncode, 124, busy.stderr)

    def test_init_needs_every_node(self):
        self.nodes[0].kill()
        done = self.holdfast("store", "init")
        self.assertEqual(done.returncode, 125, done.stdout)
        self.assertIn("every node must answer: redis://127.0.0.1:%d" % self.nodes[0].port, done.stderr)

    def test_names_make_other_addresses_the_same_cluster(self):
        self.init()
        names = f"redlock://{self.list.replace('127.0.0.1', 'localhost')}/?names="
        by_tunnel = ("--store", names + self.list)
        self.ok("run", *by_tunnel, "job", "--", "true")
        for refused, why in (("a,b,c", "another Redlock cluster"), ("a,b", "fewer names"),
                             (",".join(reversed(self.list.split(","))), "leads to the node")):
            done = self.holdfast("run", "--store", names + refused, "job", "--", "true")
            self.assertEqual(done.returncode, 125, done.stdout)
            self.assertIn(why, done.stderr)

    def test_run_excludes_and_tells_the_child(self):
        self.init()
        self.holder(ttl="10s")
        busy = self.holdfast("run", "--no-wait", "job", "--", "true")
        self.assertEqual(busy.returncode, 124, busy.stderr)
        told = self.ok("run", "other", "--", "sh", "-c", "echo $HOLDFAST_NAME $HOLDFAST_TOKEN")
        self.assertRegex(told.stdout, r"^other \d{10}\.\d{20}\n$")

    def test_inspect_ls_and_break(self):
        self.init()
        self.holder(ttl="10s")
        info = json.loads(self.ok("inspect", "--json", "job").stdout)
        self.assertEqual((info["name"], info["held"], info["mode"]), ("job", True, "exclusive"))
        listed = self.ok("ls").stdout
        self.assertRegex(listed, r"(?m)^job +exclusive ")
        wrong = self.holdfast("break", "job", "--token", "0000000000.00000000000000000001")
        self.assertNotEqual(wrong.returncode, 0)
        self.ok("break", "job", "--token", info["token"])
        self.ok("run", "--no-wait", "job", "--", "true")

    def test_acquire_renew_release_by_lease_id(self):
        self.init()
        lease = self.ok("acquire", "--ttl", "20s", "job").stdout.strip()
        self.ok("renew", lease)
        self.assertEqual(self.holdfast("run", "--no-wait", "job", "--", "true").returncode, 124)
        self.ok("release", lease)
        self.ok("run", "--no-wait", "job", "--", "true")

    def test_one_node_down_changes_nothing_and_doctor_names_it(self):
        self.init()
        self.ok("doctor", "-q", "--require", "fenced")
        self.nodes[0].kill()
        self.ok("run", "job", "--", "true")
        done = self.holdfast("doctor")
        self.assertIn(f"127.0.0.1:{self.nodes[0].port}", done.stdout)
        self.assertRegex(done.stdout, r"2 of 3 nodes take part")
        self.nodes[1].kill()
        refused = self.holdfast("run", "--no-wait", "job", "--", "true")
        self.assertEqual(refused.returncode, 125, refused.stdout)
        self.assertIn(f"127.0.0.1:{self.nodes[1].port}", refused.stderr)

    def test_what_a_majority_cannot_give_is_refused_by_name(self):
        self.init()
        for words in (("--shared",), ("--permits", "1/3")):
            done = self.holdfast("run", *words, "job", "--", "true")
            self.assertEqual(done.returncode, 125, (words, done.stderr))
            self.assertIn("redlock", done.stderr)
        done = self.holdfast("doctor", "-q", "--require", "fair")
        self.assertEqual(done.returncode, 1, done.stderr)
        long = self.holdfast("run", "--ttl", "2m", "job", "--", "true")
        self.assertEqual(long.returncode, 125, long.stderr)

    def test_no_url_with_a_password_is_shown(self):
        done = self.holdfast("ls", "-v", "--store", f"redlock://u:s3cret@{self.list}")
        self.assertNotIn("s3cret", done.stdout + done.stderr)
        self.assertTrue(re.search(r"redlock", done.stderr), done.stderr)


class RedlockAccessCase(RedlockBase):
    def test_the_user_of_the_page_does_it_all(self):
        with open(PAGE, encoding="utf-8") as page:
            user = re.search(r"(?m)^user holdfast .*$", page.read()).group()
        self.start(["user default off", user])
        self.env["HOLDFAST_STORE"] = f"redlock://holdfast:secret@{self.list}"
        self.init()
        self.holder("job", "--reason", "because", ttl="10s")
        waiter = self.run_locked("--ttl", "10s", "job", "--", "true")
        info = json.loads(self.ok("inspect", "--json", "job").stdout)
        self.assertEqual(info["reason"], "because")
        self.assertIn("job", self.ok("ls").stdout)
        self.ok("break", "job", "--token", info["token"])
        self.assertEqual(waiter.status(), 0)
        lease = self.ok("acquire", "--ttl", "20s", "other").stdout.strip()
        self.ok("renew", lease)
        self.ok("release", lease)
        refused = self.holdfast("run", "--store", f"redlock://holdfast:guess@{self.list}", "job",
                                "--", "true")
        self.assertEqual(refused.returncode, 125, refused.stdout)
        self.assertNotIn("guess", refused.stderr)

    def certificate(self, name, issuer=None):
        key, made = self.path(f"{name}.key"), self.path(f"{name}.pem")
        signed = ["-CA", self.path(f"{issuer}.pem"), "-CAkey", self.path(f"{issuer}.key"),
                  "-addext", "subjectAltName=IP:127.0.0.1"] if issuer else []
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                        "-keyout", key, "-out", made, *signed], check=True, capture_output=True)
        return made

    def test_over_tls_a_server_of_another_authority_is_not_spoken_to(self):
        trusted, foreign = self.certificate("trusted"), self.certificate("foreign")
        own = self.certificate("node", issuer="trusted")
        self.start()
        tls = []
        for node in self.nodes:
            port = str(redis_server.free_port())
            answer = node.ask("CONFIG", "SET", "tls-cert-file", own, "tls-key-file",
                              self.path("node.key"), "tls-ca-cert-file", trusted,
                              "tls-auth-clients", "no", "tls-port", port)
            self.assertEqual(answer, "+OK\r\n")
            tls.append(f"127.0.0.1:{port}")
        url = f"redlocks://{','.join(tls)}"
        self.env["HOLDFAST_STORE"] = f"{url}?tls_ca={trusted}"
        self.init()
        self.assertEqual(self.ok("run", "job", "--", "echo", "done").stdout, "done\n")
        self.ok("doctor", "-q", "--require", "fenced")
        refused = self.holdfast("run", "--store", f"{url}?tls_ca={foreign}", "job", "--", "true")
        self.assertEqual(refused.returncode, 125, refused.stdout)
        self.assertIn("certificate", refused.stderr)


if __name__ == "__main__":
    if redis_server.server_program() is None:
        print("SKIPPED: no redis-server: nothing of the program was tested on Redlock")
        sys.exit(77)
    harness.main()
