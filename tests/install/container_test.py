"""Tests of packaging/server: what its Containerfile names is there, and what the image would run
serves, is healthy and stops in order. Usage: container_test.py ROOT BIN

No image is built here. `make container-test` plays the recipe's steps in folders instead.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

import containerfile

ROOT, PROGRAMS = (Path(word).resolve() for word in sys.argv[1:3])
PLACE = ROOT / "packaging/server"
SECONDS = 60


def run(words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False, **more)
    return done.returncode, done.stdout + done.stderr


class RecipeTest(unittest.TestCase):
    def setUp(self):
        self.build, self.image = containerfile.read(PLACE / "Containerfile")
        self.runs = " ".join(text for word, text in self.image.steps if word == "RUN")

    def test_both_stages_begin_with_the_same_debian(self):
        self.assertEqual(self.build.image, self.image.image)
        self.assertRegex(self.image.image, r"^docker\.io/library/debian:1[23]-slim$")

    def test_nothing_is_fetched_but_debians_packages(self):
        everything = "\n".join(text for stage in (self.build, self.image) for _, text in stage.steps)
        self.assertNotRegex(everything, r"https?://|git clone|wget|pip |npm |\bADD\b")

    def test_the_build_installs_what_the_project_says(self):
        installs, = [text for word, text in self.build.steps if word == "RUN" and "apt-get" in text]
        groups = re.search(r"scripts/setup ([a-z ]+)$", installs)[1].split()
        self.assertEqual(groups, ["server", "deb"])
        setup = (ROOT / "scripts/setup").read_text(encoding="utf-8")
        for group in groups:
            self.assertIn(f"\ngroup_{group}=(", setup)
            self.assertIn(f"      {group}) wanted+=", setup)

    def test_each_option_of_the_build_is_one_of_the_project(self):
        build, = [text for word, text in self.build.steps if word == "RUN" and "cmake" in text]
        project = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        stores = re.search(r"set\(HOLDFAST_REGISTERED_STORES ([^)]+)\)", project)[1].split()
        names = re.findall(r"-D(HOLDFAST_\w+)=", build)
        self.assertGreaterEqual(len(names), 5)
        for name in names:
            store = name.removeprefix("HOLDFAST_WITH_").lower()
            self.assertTrue(store in stores or re.search(rf"\b{name}\b", project), name)

    def test_the_image_installs_packages_that_are_built(self):
        recipe = (ROOT / "cmake/HoldfastPackage.cmake").read_text(encoding="utf-8")
        project = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        version = re.search(r"(?m)^  VERSION (\d+)\.", project)[1]
        built = dict(re.findall(r"set\(HOLDFAST_PACKAGE_OF_(\S+) (\S+)\)", recipe))
        library = built["library"].replace("${PROJECT_VERSION_MAJOR}", version)
        wanted = [library, built["program"]] + [
            built["store_${store}"].replace("${store}", store) for store in ("redis", "holdfast", "etcd")]
        self.assertEqual(re.findall(r"/packages/(\S+?)_\*\.deb", self.runs), wanted)
        for store in ("redis", "holdfast", "etcd"):  # Each of them is a module of its own.
            cmake = (ROOT / f"src/stores/{store}/CMakeLists.txt").read_text(encoding="utf-8")
            self.assertIn(f"LOADED_AS {store}", cmake)

    @unittest.skipUnless(shutil.which("apt-cache"), "no apt")
    def test_apt_knows_the_packages_that_are_not_ours(self):
        words = re.search(r"--no-install-recommends ([^&]+)&&", self.runs)[1].split()
        names = [word for word in words if not word.startswith("/packages/")]
        self.assertEqual(names, ["curl"])
        if not list(Path("/var/lib/apt/lists").glob("*_Packages*")):
            self.skipTest("apt has no lists here")
        self.assertIn("Candidate: ", run(["apt-cache", "policy", *names])[1])

    def test_each_file_that_is_copied_is_there(self):
        sources = []
        for stage in (self.build, self.image):
            for word, text in stage.steps:
                if word == "COPY":
                    origin, files, _ = containerfile.copied(text)
                    if not origin:
                        sources += files
        for source in sources:
            self.assertTrue((ROOT / source).exists(), source)
        ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8")
        for source in sources:
            self.assertNotIn(f"\n/{source.split('/')[0]}\n", ignored)
        self.assertTrue(os.access(PLACE / "healthy", os.X_OK))

    def test_the_server_is_a_user_of_its_own_and_owns_the_volume(self):
        user, volume = self.image.text("USER"), self.image.text("VOLUME")
        self.assertNotIn(user, ("root", "0"))
        self.assertRegex(self.runs, rf"useradd .*--uid \d+ .*{user}\b")
        self.assertIn(f"install -d -o {user} -g {user} -m 0700 {volume}", self.runs)
        config = tomllib.loads((PLACE / "serve.toml").read_text(encoding="utf-8"))["serve"]
        self.assertTrue(config["data"].startswith(volume + "/"))
        self.assertEqual({config[name].split(":")[1] for name in ("listen", "http")},
                         set(self.image.text("EXPOSE").split()))
        steps = [word for word, _ in self.image.steps]
        self.assertLess(steps.index("USER"), steps.index("VOLUME"))

    def test_the_language_of_the_file_is_known(self):
        for stage in (self.build, self.image):
            self.assertTrue({word for word, _ in stage.steps} <= containerfile.KNOWN)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("FROM a\nONBUILD RUN true\n")
            file.flush()
            self.assertRaises(ValueError, containerfile.read, file.name)


@unittest.skipUnless(shutil.which("curl"), "no curl (package curl)")
class CommandTest(unittest.TestCase):
    """What the image would run, with its folder and ports replaced by ones of this test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.image = containerfile.read(PLACE / "Containerfile")[-1]

    def start(self, more=""):
        text = (PLACE / "serve.toml").read_text(encoding="utf-8")
        text = text.replace("/var/lib/holdfast", str(self.folder)).replace(":7420", ":0")
        config = self.folder / "serve.toml"
        config.write_text(text.replace(":7421", ":0") + more, encoding="utf-8")
        words = [*self.image.words("ENTRYPOINT"), *self.image.words("CMD")]
        self.assertEqual(words[0], "/usr/bin/holdfast")
        words[0] = str(PROGRAMS / "holdfast")
        words[words.index("/etc/holdfast/serve.toml")] = str(config)
        server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(server.wait)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.kill)
        said = ""
        while "to use it" not in said:
            line = server.stdout.readline()
            self.assertTrue(line, said)
            said += line
        return server, said

    def healthy(self, said):
        port = re.search(r"https?://127\.0\.0\.1:(\d+)", said.split("serving", 1)[1].split("\n", 1)[1])[1]
        return run([str(PLACE / "healthy"), port])

    def test_it_serves_is_healthy_and_stops_in_order(self):
        self.assertEqual(self.image.words("HEALTHCHECK"), ["/usr/lib/holdfast/healthy"])
        server, said = self.start()
        self.assertEqual(self.healthy(said), (0, ""))
        server.send_signal(signal.SIGSTOP)
        self.assertEqual(self.healthy(said), (1, ""))
        server.send_signal(signal.SIGCONT)
        server.send_signal(signal.SIGTERM)
        server.stdout.read()
        self.assertEqual(server.wait(timeout=SECONDS), 0)
        self.assertEqual(self.healthy(said), (1, ""))

    @unittest.skipUnless(shutil.which("openssl"), "no openssl")
    def test_it_is_healthy_behind_tls_and_users(self):
        key, users = self.folder / "key.pem", self.folder / "users"
        self.assertEqual(run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                              "-subj", "/CN=locks.example", "-keyout", str(key), "-out", str(key)])[0], 0)
        hashed = run(["openssl", "passwd", "-6", "secret"])[1].strip()
        users.write_text(f"app password:{hashed} acquire:*\n", encoding="utf-8")
        users.chmod(0o600)
        server, said = self.start(f'users = "{users}"\ntls_cert = "{key}"\ntls_key = "{key}"\n')
        self.assertIn("serving holdfasts://", said)
        self.assertEqual(self.healthy(said), (0, ""))
        server.send_signal(signal.SIGTERM)
        server.stdout.read()
        self.assertEqual(server.wait(timeout=SECONDS), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
