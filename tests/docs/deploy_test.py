"""Tests of examples/deploy: the commands of its units and manifests run, on an SQLite file.

What no machine of ours has (a cluster, an image builder) is not tested: the manifests are read as
YAML, and the packages of the Containerfile are compared with those that the project builds.
Usage: deploy_test.py ROOT BIN
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

try:
    import yaml
except ImportError:
    yaml = None

import markdown

ROOT, PROGRAMS = (Path(word).resolve() for word in sys.argv[1:3])
DEPLOY = ROOT / "examples/deploy"
SECONDS = 30
HOST = "host-1"  # What a unit's %H stands for here.


def await_that(condition, what):
    until = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"did not happen within {SECONDS} s: {what}")
        time.sleep(0.02)


class Deployment(unittest.TestCase):
    """A folder with a store, and with stand-ins for the programs that the examples run."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "bin").mkdir()
        (self.folder / "bin/holdfast").symlink_to(PROGRAMS / "holdfast")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
        self.environment |= {"PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                             "HOLDFAST_STORE": f"sqlite://{self.folder}/locks.db"}

    def stand_in(self, name, script):
        path = self.folder / "bin" / name
        path.write_text("#!/bin/sh\n" + script, encoding="utf-8")
        path.chmod(0o755)

    def start(self, words, **more):
        child = subprocess.Popen(words, env=self.environment | more, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        self.addCleanup(child.wait)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.kill)
        return child

    def run_it(self, words, **more):
        child = self.start(words, **more)
        said, _ = child.communicate(timeout=SECONDS)
        return child.returncode, said

    def file_of(self, name):
        return self.folder / name

    def hold_until_told(self, lock):
        """Another host has the lock."""
        child = self.start(["holdfast", "run", lock, "--", "sh", "-c",
                            f"touch {self.folder}/held; exec sleep 1000"])
        await_that(self.file_of("held").exists, "another host holds")
        return child

    def break_lock(self, lock):
        _, said = self.run_it(["holdfast", "inspect", "--json", lock])
        token = json.loads(said)["token"]
        self.assertEqual(self.run_it(["holdfast", "break", lock, "--token", token])[0], 0)


def unit(name):
    """The settings of a unit, as (key, value) in order."""
    text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
    return dict(re.findall(r"(?m)^([A-Za-z]+)=(.*)$", text))


class SystemdTest(Deployment):
    def words(self, name):
        """ExecStart, with the installed programs replaced by those at hand."""
        command = unit(name)["ExecStart"].replace("%H", HOST)
        self.assertNotIn("%", command)
        words = shlex.split(command)
        self.assertEqual(words[0], "/usr/bin/holdfast")
        return [os.path.basename(w) if w.startswith("/usr/") else w for w in words]

    def note(self, code, status):
        script = unit("nightly-report.service")["ExecStopPost"]
        path = DEPLOY / "systemd" / os.path.basename(script)
        self.assertTrue(os.access(path, os.X_OK))
        return self.run_it([str(path)], EXIT_CODE=code, EXIT_STATUS=str(status))[1]

    def test_the_report_runs_under_the_lock(self):
        self.stand_in("nightly-report", f'echo "$HOLDFAST_TOKEN" >{self.folder}/ran')
        words = self.words("nightly-report.service")
        words[words.index("--min-hold") + 1] = "0s"
        self.assertEqual(self.run_it(words)[0], 0)
        self.assertTrue(self.file_of("ran").read_text(encoding="utf-8").strip())

    def test_the_report_of_another_host_is_no_failure(self):
        self.stand_in("nightly-report", f"touch {self.folder}/ran")
        other = self.hold_until_told("nightly-report")
        code, _ = self.run_it(self.words("nightly-report.service"))
        self.assertEqual(str(code), unit("nightly-report.service")["SuccessExitStatus"])
        self.assertFalse(self.file_of("ran").exists())
        self.assertIn("another host", self.note("exited", code))
        other.send_signal(signal.SIGTERM)

    def test_a_lost_lock_is_noted_as_an_error(self):
        self.stand_in("nightly-report", f"touch {self.folder}/ran; exec sleep 1000")
        words = self.words("nightly-report.service")
        words[words.index("--min-hold") + 1] = "0s"
        words[2:2] = ["--ttl", "2s"]
        child = self.start(words)
        await_that(self.file_of("ran").exists, "the report runs")
        self.break_lock("nightly-report")
        child.communicate(timeout=SECONDS)
        self.assertEqual(child.returncode, 123)
        self.assertTrue(self.note("exited", 123).startswith("<3>the lock was lost"))

    def test_other_ends_are_not_commented_on(self):
        self.assertEqual(self.note("exited", 0), "")
        self.assertEqual(self.note("killed", "TERM"), "")
        self.assertTrue(self.note("exited", 125).startswith("<3>"))

    def test_one_scheduler_leads_and_stopping_it_ends_it(self):
        self.stand_in("scheduler", f'echo "$HOLDFAST_VALUE" >{self.folder}/leads; exec sleep 1000')
        child = self.start(self.words("scheduler.service"))
        await_that(self.file_of("leads").exists, "it leads")
        _, said = self.run_it(["holdfast", "elect", "scheduler", "--observe", "--count", "1"])
        self.assertIn(f"{HOST}:8080", said)
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=SECONDS)
        self.assertEqual(self.run_it(["holdfast", "inspect", "--json", "scheduler"])[1]
                         .count('"held":true'), 0)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_the_lock_service_keeps_a_grant_and_stays_stopped_after_a_drain(self):
        words = self.words("holdfast-server.service")
        words[words.index("--listen") + 1] = "127.0.0.1:0"
        words[words.index("--data") + 1] = str(self.file_of("journal"))

        def serve():
            server = self.start(words)
            store = server.stdout.readline().removeprefix("serving ").strip()
            self.assertTrue(store.startswith("holdfast://"), store)
            return server, store

        server, store = serve()
        code, lease = self.run_it(["holdfast", "acquire", "--store", store, "--ttl", "60s", "job"])
        self.assertEqual(code, 0, lease)
        server.kill()
        self.assertNotEqual(server.wait(SECONDS), 0)  # systemd starts it again.
        server, store = serve()
        code, said = self.run_it(["holdfast", "renew", "--store", store, lease.strip()])
        self.assertEqual(code, 0, said)
        code, said = self.run_it(["holdfast", "server", "drain", store])
        self.assertEqual(code, 0, said)
        self.assertEqual(server.wait(SECONDS), 0)
        self.assertEqual(unit("holdfast-server.service")["Restart"], "on-failure")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_the_lock_service_is_started_until_its_etcd_answers(self):
        words = self.words("holdfast-server.service")
        at = words.index("--data")
        words[at:at + 2] = ["--journal", "etcd://127.0.0.1:1/locks"]
        self.assertEqual(self.run_it(words)[0], 125)  # systemd starts it again.
        self.assertEqual(unit("holdfast-server.service")["StartLimitIntervalSec"], "0")

    def test_systemd_finds_no_fault(self):
        for program in ("nightly-report", "scheduler"):
            self.stand_in(program, "")
        units = self.folder / "units"
        units.mkdir()
        for source in (DEPLOY / "systemd").glob("*.[st]*"):
            text = source.read_text(encoding="utf-8")
            text = re.sub(r"/usr/(local/)?bin/", f"{self.folder}/bin/", text)
            text = text.replace("/usr/local/lib/holdfast/", f"{DEPLOY}/systemd/")
            (units / source.name).write_text(text, encoding="utf-8")
        names = sorted(str(path) for path in units.iterdir())
        self.assertEqual(len(names), 4)
        code, said = self.run_it(["systemd-analyze", "verify", "--man=no", *names])
        self.assertEqual([code, [line for line in said.splitlines() if str(units) in line]], [0, []],
                         said)


@unittest.skipUnless(yaml, "no module yaml (package python3-yaml)")
class KubernetesTest(Deployment):
    def manifest(self, name):
        return yaml.safe_load((DEPLOY / "kubernetes" / name).read_text(encoding="utf-8"))

    def pod(self, name):
        spec = self.manifest(name)["spec"]
        return spec.get("jobTemplate", {}).get("spec", spec)["template"]["spec"]

    def container(self, manifest, name):
        found, = [c for c in self.pod(manifest)["containers"] if c["name"] == name]
        return found

    def words(self, container, command, pod_ip):
        """A command as Kubernetes would start it; folders of volumes are in ours."""
        variables = {v["name"]: v.get("value", pod_ip) for v in container["env"]}
        self.assertIn("HOLDFAST_STORE", variables)
        if any("$(POD_IP)" in word for word in command):
            self.assertIn("POD_IP", variables)
        return [word.replace("$(POD_IP)", pod_ip).replace("/leader/", f"{self.folder}/leader/")
                for word in command]

    def test_every_part_of_a_manifest_is_known(self):
        for name in ("cronjob.yaml", "leader.yaml"):
            manifest = self.manifest(name)
            self.assertIn((manifest["apiVersion"], manifest["kind"]),
                          [("batch/v1", "CronJob"), ("apps/v1", "Deployment")])
            for container in self.pod(name)["containers"]:
                known = {"name", "image", "command", "env", "startupProbe", "readinessProbe",
                         "volumeMounts"}
                self.assertEqual(set(container) - known, set(), container["name"])

    def test_the_job_runs_and_is_complete_where_another_runs(self):
        self.stand_in("nightly-report", f"echo ran >>{self.folder}/ran")
        container = self.container("cronjob.yaml", "report")
        words = self.words(container, container["command"], "10.0.0.1")
        words[words.index("--min-hold") + 1] = "0s"
        self.assertEqual(self.run_it(words), (0, ""))
        self.hold_until_told("nightly-report")
        code, said = self.run_it(words)
        self.assertEqual((code, self.file_of("ran").read_text(encoding="utf-8")), (0, "ran\n"), said)

    def test_the_pod_that_leads_is_ready_and_the_other_is_not(self):
        self.stand_in("scheduler", f'echo "$HOLDFAST_VALUE" >{self.folder}/leads; exec sleep 1000')
        container = self.container("leader.yaml", "scheduler")
        startup = container["startupProbe"]["exec"]["command"]
        ready = container["readinessProbe"]["exec"]["command"]
        self.assertEqual(self.run_it(startup), (0, ""))
        self.assertEqual(self.run_it(ready, POD_IP="10.0.0.1")[0], 1)
        self.start(self.words(container, container["command"], "10.0.0.1"))
        await_that(self.file_of("leads").exists, "it leads")
        self.assertEqual(self.run_it(ready, POD_IP="10.0.0.1")[0], 0)
        self.assertEqual(self.run_it(ready, POD_IP="10.0.0.2")[0], 1)

    def test_the_sidecar_tells_who_leads(self):
        self.stand_in("scheduler", "exec sleep 1000")
        (self.folder / "leader").mkdir()
        sidecar = self.container("leader.yaml", "who-leads")
        ready = self.words(sidecar, sidecar["readinessProbe"]["exec"]["command"], "10.0.0.1")
        self.assertEqual(self.run_it(ready)[0], 1)
        self.start(self.words(sidecar, sidecar["command"], "10.0.0.1"))
        leader = self.container("leader.yaml", "scheduler")
        self.start(self.words(leader, leader["command"], "10.0.0.1"))

        def told():
            now = self.folder / "leader/now"
            return now.exists() and json.loads(now.read_text(encoding="utf-8"))["value"] == \
                "10.0.0.1:8080"
        await_that(told, "the file says who leads")
        self.assertEqual(self.run_it(ready)[0], 0)


class PageTest(unittest.TestCase):
    """docs/guide/deploy.md quotes the files as they are, but for the indentation."""

    def test_what_the_page_shows_is_in_the_files(self):
        page = (ROOT / "docs/guide/deploy.md").read_text(encoding="utf-8")
        blocks = markdown.blocks(page, "(?:ini|yaml)")
        self.assertEqual(len(blocks), 5)
        for line, before, body in blocks:
            source = re.fullmatch(r"<!-- from: (\S+) -->", before)
            self.assertTrue(source, f"line {line}: no <!-- from: FILE --> before the block")
            self.assertIn(unindented(body),
                          unindented((ROOT / source[1]).read_text(encoding="utf-8")))


def unindented(text):
    return "\n".join(line.strip() for line in text.splitlines())


class ContainerTest(Deployment):
    def test_holdfast_may_be_process_1(self):
        inside = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        if self.run_it([*inside, "true"])[0] != 0:
            self.skipTest("no rights to make a pid namespace")
        self.assertEqual(self.run_it([*inside, "holdfast", "run", "job", "--", "sh", "-c",
                                      "exit 7"]), (7, ""))
        child = self.start([*inside, "holdfast", "run", "job", "--", "sh", "-c",
                            f"touch {self.folder}/runs; exec sleep 1000"])
        await_that(self.file_of("runs").exists, "the command runs")
        init, = self.children_of(child.pid)
        self.assertEqual(Path(f"/proc/{init}/comm").read_text(encoding="utf-8"), "holdfast\n")
        os.kill(init, signal.SIGTERM)
        child.communicate(timeout=SECONDS)
        self.assertEqual(self.run_it(["holdfast", "run", "--no-wait", "job", "--", "true"])[0], 0)

    @staticmethod
    def children_of(pid):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
        return [int(word) for word in text.split()]


    def setUp(self):
        super().setUp()
        text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
        self.build, self.image = text.split("FROM docker.io/library/debian")[1:]

    def test_the_build_installs_what_the_project_says(self):
        # The compiler and the libraries are those of scripts/setup: no list of them stands here.
        self.assertNotIn("apt-get install", self.build)
        groups = re.search(r"scripts/setup ([a-z ]+)\n", self.build)[1].split()
        self.assertEqual(groups, ["build", "deb"])
        setup = (ROOT / "scripts/setup").read_text(encoding="utf-8")
        for group in groups:
            self.assertIn(f"\ngroup_{group}=(", setup)
        self.assertLess(self.build.index("scripts/setup build"), self.build.index("make deb"))

    def test_the_image_installs_packages_that_are_built(self):
        recipe = (ROOT / "cmake/HoldfastPackage.cmake").read_text(encoding="utf-8")
        project = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        version = re.search(r"(?m)^  VERSION (\d+)\.", project)[1]
        built = dict(re.findall(r"set\(HOLDFAST_PACKAGE_OF_(\S+) (\S+)\)", recipe))
        library = built["library"].replace("${PROJECT_VERSION_MAJOR}", version)
        self.assertEqual(re.findall(r"(?<!echo )/packages/(\S+?)_\*\.deb", self.image),
                         [library, built["program"]])
        stores = re.search(r"\$\((for store .*?done)\)", self.image)[1]
        _, said = self.run_it(["sh", "-c", stores], STORES="redis etcd")
        self.assertEqual(said.split(), ["/packages/" + built["store_${store}"].replace(
            "${store}", store) + "_*.deb" for store in ("redis", "etcd")])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
