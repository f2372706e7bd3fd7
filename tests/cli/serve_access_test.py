"""`holdfast serve` with users and TLS, as an operator sets it up: passwords, rights, reload, addresses."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import unittest

import harness
from harness import PATIENCE, PROGRAM
from serve_test import ServeCase


def make_certificate(folder, name, *, ca=None):
    """A certificate for 127.0.0.1 and its key; without `ca` an authority."""
    cert, key = os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".key")
    words = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-config", "/dev/null", "-days", "2", "-subj", "/CN=" + name, "-keyout", key, "-out", cert]
    if ca:
        words += ["-CA", ca[0], "-CAkey", ca[1], "-addext", "basicConstraints=CA:FALSE",
                  "-addext", "subjectAltName=IP:127.0.0.1,IP:192.0.2.1"]
    else:
        words += ["-addext", "basicConstraints=critical,CA:TRUE"]
    subprocess.run(words, check=True, capture_output=True)
    return cert, key


class AccessCase(ServeCase):
    def setUp(self):
        super().setUp()
        del self.env["HOLDFAST_STORE"]
        self.ca = make_certificate(self.path(""), "authority")
        self.cert, self.key = make_certificate(self.path(""), "server", ca=self.ca)
        self.users = self.path("users")
        self.write_users("app", "acquire:orders/*")

    def hash(self, password):
        done = self.holdfast("server", "password", stdin=password + "\n", timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def write_users(self, user, rights, password="secret"):
        with open(self.users, "w", encoding="utf-8") as file:
            file.write(f"# the only one\n{user}  password:{self.hash(password)}  {rights}\n")
        os.chmod(self.users, 0o600)
        with open(self.path("password"), "w", encoding="utf-8") as file:
            file.write(password + "\n")

    def start(self, *more):
        self.server, said = self.serve(
            "--listen", "127.0.0.1:0", "--data", self.data, "--users", self.users, "--tls-cert", self.cert,
            "--tls-key", self.key, *more)
        self.address = said["address"]
        return said

    def client_url(self, user="app", more=""):
        return (f"holdfasts://{user}@{self.address}?tls_ca={self.ca[0]}"
                f"&password_file={self.path('password')}{more}")

    def on(self, *words, **options):
        """A command on that store, whose URL is given by the environment as a secret would be."""
        at = 2 if words[0] == "server" else 1
        return self.holdfast(*words[:at], "--store", options.pop("url", self.client_url()), *words[at:],
                             timeout=PATIENCE, **options)


class UsersTest(AccessCase):
    def test_a_password_is_read_from_stdin_and_its_hash_fits(self):
        self.assertTrue(self.ok("server", "password", "-q", stdin="secret\n").stdout.startswith("$"))
        done = self.holdfast("server", "password", "--json", stdin="secret\n", timeout=PATIENCE)
        self.assertTrue(json.loads(done.stdout)["hash"].startswith("$"), done.stdout)
        self.assertEqual(self.holdfast("server", "password", stdin="", timeout=PATIENCE).returncode, 125)
        self.assertEqual(self.holdfast("server", "password", "secret", timeout=PATIENCE).returncode, 125)

    def test_a_user_acquires_what_it_may_over_tls(self):
        said = self.start()
        self.assertTrue(said["url"].startswith("holdfasts://"), said)
        done = self.on("run", "orders/1", "--", "echo", "mine")
        self.assertEqual((done.returncode, done.stdout), (0, "mine\n"), done.stderr)
        done = self.on("run", "stock", "--", "echo", "mine")
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertIn("user 'app' has no right to acquire 'stock'", done.stderr)
        self.assertIn("orders/", self.on("ls", "orders/").stdout + "orders/")
        self.assertIn("no right to observe all locks that begin with ''", self.on("ls").stderr)
        self.assertIn("no right to break 'orders/1'", self.on("break", "orders/1", "--token", "1", "--reason", "x").stderr)
        doctor = self.on("doctor")
        self.assertEqual(doctor.returncode, 0, doctor.stdout)
        self.assertIn("with users, and encrypted", doctor.stdout)

    def test_what_keeps_a_client_out_is_said_without_the_password(self):
        self.start()
        for url, why in [(f"holdfast://app@{self.address}", "this port speaks TLS"),
                         (f"holdfasts://app@{self.address}", "certificate"),
                         (self.client_url(user="nobody"), "cannot log in"),
                         (f"holdfasts://{self.address}?tls_ca={self.ca[0]}", "wants a user and password")]:
            done = self.on("run", "orders/1", "--", "true", url=url)
            self.assertEqual(done.returncode, 125, url)
            self.assertIn(why, done.stderr)
            self.assertNotIn("secret", done.stderr)

    def test_a_hangup_reads_the_users_again(self):
        self.start()
        holder = subprocess.Popen(
            [PROGRAM, "run", "--store", self.client_url(), "--ttl", "10s", "orders/1", "--", "cat"], env=self.env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(holder.kill)
        holder.stdin.write("begun\n")
        holder.stdin.flush()
        self.assertEqual(holder.stdout.readline(), "begun\n")
        self.write_users("app", "acquire:orders/* acquire:stock")
        self.server.send_signal(signal.SIGHUP)
        self.assertEqual(json.loads(self.server.stdout.readline())["event"], "reloaded")
        self.assertEqual(self.on("run", "stock", "--", "true").returncode, 0)
        holder.stdin.close()
        self.assertEqual(holder.wait(timeout=PATIENCE), 0, "the lease outlived the new log-in")
        holder.stdout.close()
        holder.stderr.close()

    def test_a_hangup_is_heard_by_a_server_that_nohup_has_started(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        self.start()
        self.write_users("other", "acquire:*")
        self.server.send_signal(signal.SIGHUP)
        self.assertEqual(json.loads(self.server.stdout.readline())["event"], "reloaded")
        self.assertIn("log in", self.on("run", "orders/1", "--", "true").stderr)

    def test_a_watch_whose_right_is_taken_away_says_so(self):
        self.start()
        watch = subprocess.Popen(
            [PROGRAM, "watch", "--json", "--store", self.client_url(), "orders/"], env=self.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for end in (watch.stdout.close, watch.stderr.close, watch.wait, watch.terminate):
            self.addCleanup(end)
        # Its first event shows that it has begun.
        begun = threading.Event()
        first = threading.Thread(target=lambda: watch.stdout.readline() and begun.set())
        first.start()
        while not begun.is_set():
            self.ok("run", "--store", self.client_url(), "orders/1", "--", "true")
        first.join()
        self.write_users("app", "acquire:other/*")
        self.server.send_signal(signal.SIGHUP)
        line = ""
        while "tells nothing any more" not in line:
            line = watch.stderr.readline()
            self.assertNotEqual(line, "", "the watch ended")
        self.assertIn("'orders/'", line)

    def test_a_bad_file_is_told_and_changes_nothing(self):
        self.start()
        with open(self.users, "w", encoding="utf-8") as file:
            file.write("app acquire:*\n")
        self.server.send_signal(signal.SIGHUP)
        # A disk that is nearly full is told there, too.
        line = ""
        while "users file" not in line:
            line = self.server.stderr.readline()
            self.assertNotEqual(line, "", "the server ended")
        self.assertIn("line 1: user 'app' has no password", line)
        self.assertEqual(self.on("run", "orders/1", "--", "true").returncode, 0)
        self.server.terminate()
        self.assertEqual(self.server.wait(timeout=PATIENCE), 0)
        self.assertIn(f"users file '{self.users}', line 1", self.refused("--users", self.users, "--data", self.data))

    def test_a_hangup_ends_a_server_that_has_nothing_to_read(self):
        server, _ = self.serve("--listen", "127.0.0.1:0", "--journal", "memory:")
        server.send_signal(signal.SIGHUP)
        self.assertEqual(server.wait(timeout=PATIENCE), 0)


class OperatorTest(AccessCase):
    def test_each_server_tells_how_it_is(self):
        self.start()
        self.on("run", "orders/1", "--", "true")
        done = self.on("server", "status", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        (server,) = json.loads(done.stdout)["servers"]
        self.assertTrue(server["leads"])
        self.assertEqual((server["address"], server["pid"]), (self.address, self.server.pid))
        self.assertRegex(self.on("server", "status").stdout, r"127\.0\.0\.1:\d+ +leads +\S+ ")
        stranger = self.on("server", "status", url=f"holdfasts://{self.address}?tls_ca={self.ca[0]}")
        self.assertIn("HOLDFAST_SERVICE_PASSWORD", stranger.stdout)
        self.assertNotIn("REDIS", stranger.stdout)
        self.server.kill()
        self.server.wait()
        done = self.on("server", "status")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no answer", done.stdout)
        self.assertIn("is the server running there?", done.stdout)

    def test_to_step_down_is_for_admins_and_needs_another_server(self):
        self.start()
        self.assertIn("user 'app' is no admin", self.on("server", "step-down").stderr)
        self.write_users("app", "admin")
        self.server.send_signal(signal.SIGHUP)
        self.server.stdout.readline()
        self.assertIn("not shared", self.on("server", "step-down").stderr)
        self.assertIn("is not the lock service", self.on("server", "status", url="memory:").stderr)


class FileTest(AccessCase):
    def test_what_is_no_file_is_refused_and_never_waited_for(self):
        os.mkfifo(self.path("pipe"))
        plain = ("--listen", "127.0.0.1:0", "--journal", "memory:")
        for option in ("--users", "--tls-cert"):
            self.assertIn(f"{option} names no file", self.refused(*plain, option, ""))
        self.assertIn("is not a plain file", self.refused(*plain, "--users", self.path("pipe")))
        self.assertIn("is not a plain file", self.refused(*plain, "--tls-cert", self.path("pipe")))
        self.assertIn("is a folder", self.refused(*plain, "--users", self.dir))
        self.assertIn("name it with --tls-key", self.refused(*plain, "--tls-cert", self.cert))


class BadInputTest(AccessCase):
    def test_each_wrong_empty_huge_or_contradictory_option_ends_with_advice(self):
        plain = ("--listen", "127.0.0.1:0", "--journal", "memory:")
        free = f"127.0.0.1:{self.port}"
        cert, key = self.cert, self.key
        for arguments, word in (
                (("--listen", ""), "--listen names no host"),
                (("--listen", "127.0.0.1"), "--listen: the address '127.0.0.1' has no port: write HOST:PORT"),
                ((*plain, "--http", "bogus"), "--http: the address 'bogus' has no port: write HOST:PORT"),
                ((*plain, "--http", ""), "--http names no host"),
                ((*plain, "--http", "127.0.0.1:-1"), "no port from 0 to 65535"),
                ((*plain, "--http-host", "locks.example"), "--http HOST:PORT opens"),
                ((*plain, "--http", free, "--http-host", ""), "--http-host names no host"),
                ((*plain, "--advertise", "bogus"), "--advertise 'bogus'"),
                ((*plain, "--advertise", ""), "--advertise names no host"),
                ((*plain, "--advertise", ":7420"), "write HOST:PORT"),
                ((*plain, "--advertise", "locks.example:0"), "write HOST:PORT"),
                ((*plain, "--advertise", "locks.example:99999"), "write HOST:PORT"),
                ((*plain, "--advertise", "::1:7420"), "write HOST:PORT"),
                ((*plain, "--advertise", "a:1,b:2"), "write HOST:PORT"),
                ((*plain, "--advertise", "x" * 300 + ":1"), "write HOST:PORT"),
                ((*plain, "--shards", "0"), "from 1 to 64"),
                ((*plain, "--shards", "65"), "from 1 to 64"),
                ((*plain, "--shards", "99999999999999999999"), "from 1 to 64"),
                ((*plain, "--connection-rate", "0"), "from 1 to 1000000000"),
                (("--listen", free, "--data", os.path.abspath(__file__), "--shards", "3"), "is a file; name a folder"),
                (("--journal", "etcd://"), "names no host: write etcd://HOST,HOST,HOST/PREFIX"),
                (("--journal", "etcd:///prefix"), "names no host"),
                (("--journal", "sqlite:"), "sqlite:FOLDER"),
                (("--journal", "redis://127.0.0.1"), "sqlite:FOLDER"),
                (("--data", os.path.abspath(__file__)), "is a file; name a folder"),
                (("--data", "x" * 5000), "File name too long"),
                ((*plain, "--users", self.dir), "is a folder; name a text file"),
                ((*plain, "--users", self.path("none")), "write a line for each user"),
                ((*plain, "--tls-key", key), "--tls-cert FILE"),
                ((*plain, "--tls-cert", cert), "name it with --tls-key"),
                ((*plain, "--tls-cert", key, "--tls-key", cert), "no certificate"),
                ((*plain, "--tls-cert", self.dir, "--tls-key", key), "is a folder"),
                ((*plain, "--tls-ca", cert), "give it --tls-cert FILE and --tls-key FILE"),
                ((*plain, "--tls-cert", cert, "--tls-key", key, "--tls-ca", self.path("none")), "none"),
                ((*plain, "--tls-cert", cert, "--tls-key", key, "--plaintext"), "contradict each other"),
                ((*plain, "--config", self.dir), "Is a directory")):
            with self.subTest(arguments=arguments):
                self.assertIn(word, self.refused(*arguments))
        self.assertFalse(os.path.exists(self.data))

    def test_an_address_of_another_host_says_how_to_find_ones_own(self):
        line = self.refused("--listen", "192.0.2.1:7420", "--journal", "memory:", "--users", self.users, "--plaintext")
        self.assertIn("this host does not have that address; 'ip address' lists", line)

    def test_a_file_with_keys_that_do_nothing_is_refused_as_options_are(self):
        for text, word in (('http_host = "locks.example"', "--http HOST:PORT opens"),
                           ('advertise = "bogus"', "write HOST:PORT"),
                           ('advertise = ""', "--advertise names no host"),
                           ('shards = 0', "from 1 to 64"),
                           ('shards = "many"', "shards"),
                           ('listen = 7420', "listen"),
                           (f'tls_ca = "{self.cert}"', "--tls-cert FILE")):
            with self.subTest(text=text):
                with open(self.path("bad.toml"), "w", encoding="utf-8") as file:
                    file.write('[serve]\njournal = "memory:"\n' + text + "\n")
                self.assertIn(word, self.refused("--config", self.path("bad.toml")))


class ConfigTest(AccessCase):
    EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "deploy", "serve.toml")

    def write(self, **more):
        lines = {"listen": "127.0.0.1:0", "data": self.data, "users": self.users, "tls_cert": self.cert,
                 "tls_key": self.key, **more}
        with open(self.path("serve.toml"), "w", encoding="utf-8") as file:
            file.write("[serve]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items()))
        return self.path("serve.toml")

    def test_a_file_has_what_the_options_have(self):
        self.server, said = self.serve("--config", self.write())
        self.address = said["address"]
        self.assertTrue(said["url"].startswith("holdfasts://"))
        self.assertEqual(said["journal"], self.data)
        self.assertEqual(self.on("run", "orders/1", "--", "true").returncode, 0)

    def test_the_command_line_comes_first(self):
        _, said = self.serve("--config", self.write(), "--journal", "memory:")
        self.assertEqual(said["journal"], "memory:")

    def test_what_is_wrong_is_named_with_its_line(self):
        for more, why in [({"user": "x"}, "serve.toml:7: user: is not known; did you mean users?"),
                          ({"plaintext": "yes"}, "serve.toml:7: plaintext: must be true or false"),
                          ({"journal": "memory:"}, "contradict each other"),
                          ({"data": "locks"}, "serve.toml:3: data: 'locks' is not a whole path"),
                          ({"data": "~/locks"}, "serve.toml:3: data: '~/locks' is not a whole path"),
                          ({"journal": "sqlite:locks"}, "serve.toml:7: journal: 'locks' is not a whole path"),
                          ({"users": "~/users"}, "--users '~/users': the shell has not replaced '~'"),
                          ({"users": ""}, "--users names no file"),
                          ({"listen": "0.0.0.0:1", "users": self.path("none")}, "users file")]:
            self.assertIn(why, self.refused("--config", self.write(**more)))
        for words in (("--data", "~/locks"), ("--journal", "sqlite:~/locks")):
            self.assertIn("write the whole path", self.refused("--listen", "127.0.0.1:0", *words))
        self.assertFalse(os.path.exists("~"))

    def test_messages_have_the_format_of_the_file_or_of_the_command_line(self):
        configuration = self.write(listen="0.0.0.0:1", users=self.path("none"), log_format="json")
        said = json.loads(self.refused("--config", configuration))
        self.assertIn("users file", said["text"])
        self.assertTrue(self.refused("--config", configuration, "--log-format", "text").startswith("holdfast: "))
        self.assertIn("serve.toml:7: log_format: ", self.refused("--config", self.write(log_format="xml")))

    def test_the_example_explains_every_key_and_is_understood(self):
        with open(self.EXAMPLE, encoding="utf-8") as file:
            text = file.read()
        for key in ("listen", "data", "journal", "shards", "advertise", "users", "connection_rate", "tls_cert",
                    "tls_key", "tls_ca", "plaintext", "log_format"):
            self.assertRegex(text, f"(?m)^#?{key} = ")
        everything = re.sub(r"(?m)^#(\w+ = )", r"\1", text)
        with open(self.path("all.toml"), "w", encoding="utf-8") as file:
            file.write(everything)
        self.assertIn("contradict each other", self.refused("--config", self.path("all.toml")))
        with open(self.path("all.toml"), "w", encoding="utf-8") as file:
            file.write(re.sub(r"(?m)^(data|plaintext) = .*$", "", everything))
        self.assertIn("users file '/etc/holdfast/users'",
                      self.refused("--config", self.path("all.toml"), "--journal", "memory:"))


class AddressTest(AccessCase):
    def test_beyond_loopback_users_and_encryption_are_asked_for(self):
        anywhere = ("--listen", "192.0.2.1:7420", "--journal", "memory:")
        self.assertIn("--users FILE", self.refused(*anywhere))
        self.assertIn("--users FILE", self.refused(*anywhere, "--plaintext"))
        self.assertIn("--tls-cert FILE", self.refused(*anywhere, "--users", self.users))
        for more in (["--plaintext"], ["--tls-cert", self.cert, "--tls-key", self.key]):
            # This host does not have that address: the system says so, and not the program.
            self.assertIn("cannot listen", self.refused(*anywhere, "--users", self.users, *more))

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip") and shutil.which("unshare"),
                         "a network of its own needs root, ip and unshare")
    def test_a_client_of_another_address_is_served(self):
        script = f"""set -e
        ip link set lo up
        ip addr add 192.0.2.1/32 dev lo
        {PROGRAM} serve --listen 192.0.2.1:7420 --journal memory: --users {self.users} \
          --tls-cert {self.cert} --tls-key {self.key} >{self.path('said')} &
        server=$!
        trap 'kill $server' EXIT
        until grep -q serving {self.path('said')}; do kill -0 $server; done
        {PROGRAM} run --store '{"holdfasts://app@192.0.2.1"}?tls_ca={self.ca[0]}&password_file={
            self.path('password')}' orders/1 -- echo mine"""
        done = subprocess.run(["unshare", "--net", "bash", "-c", script], env=self.env, capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "mine\n"), done.stderr)
        with open(self.path("said"), encoding="utf-8") as said:
            self.assertIn("holdfast run --store holdfasts://USER@192.0.2.1:7420 NAME", said.read())


if __name__ == "__main__":
    harness.main()
