"""Tests of scripts/setup against a make-believe apt: nothing is installed."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

# Packages are lines of files: `installed`, and what apt `knows`, or knows `later`: after an update.
FAKES = {
    "dpkg-query": '''shift 2
for name in "$@"; do
  grep -qx -- "$name" "$STATE/installed" && echo "$name installed"
done
exit 1''',
    "apt-cache": '''shift
for name in "$@"; do
  echo "$name:"
  echo "  Installed: (none)"
  if grep -qx -- "$name" "$STATE/knows"; then echo "  Candidate: 1.0"
  else echo "  Candidate: (none)"; fi
done
# More than a pipe holds: whoever reads must read to the end.
head -c 200000 /dev/zero | tr '\\0' ' ' || exit 1
echo''',
    "apt-get": '''echo "$*" >>"$STATE/calls"
if [[ $1 == update ]]; then cat "$STATE/later" >>"$STATE/knows"; exit 0; fi
shift
names=()
for word in "$@"; do
  case "$word" in -o | -* | *=*) ;; *) names+=("$word") ;; esac
done
for name in "${names[@]}"; do
  if ! grep -qx -- "$name" "$STATE/knows" || grep -qx -- "$name" "$STATE/broken"; then
    echo "E: cannot install $name"
    exit 100
  fi
done
[[ ! -e $HOLDFAST_POLICY_RC_D ]] || cp "$HOLDFAST_POLICY_RC_D" "$STATE/policy_while_installing"
if [[ -e $STATE/kill_setup ]]; then kill -KILL "$PPID"; fi
printf '%s\\n' "${names[@]}" >>"$STATE/installed"''',
    "id": 'cat "$STATE/id"',
    "sudo": "exit 1",
    "systemctl": 'echo "$*" >>"$STATE/disabled"',
}


class SetupTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = Path(folder.name)
        for name in ("installed", "knows", "later", "broken", "calls", "disabled"):
            self.write(name)
        self.write("id", "0")
        programs = self.state / "bin"
        programs.mkdir()
        for name, body in FAKES.items():
            (programs / name).write_text("#!/bin/bash\n" + body + "\n")
            (programs / name).chmod(0o755)
        self.environment = os.environ | {
            "STATE": folder.name, "HOLDFAST_POLICY_RC_D": str(self.state / "policy-rc.d"),
            "HOLDFAST_SYSTEMD": folder.name, "HOLDFAST_CONSUL": "there", "HOLDFAST_REDIS_PEERS": "there",
            "PATH": f"{programs}:{os.environ['PATH']}"}

    def write(self, name, *packages):
        (self.state / name).write_text("".join(p + "\n" for p in packages))

    def read(self, name):
        return (self.state / name).read_text().split()

    def all_names(self, group):
        """What the script asks for: a system on which nothing is installed or known says so."""
        result = self.run_setup(group)
        self.write("calls")
        lines = [l for l in result.stderr.splitlines() if "needed for:" in l]
        return [l.split()[1].split("|")[0] for l in lines]

    def run_setup(self, *groups):
        return subprocess.run([ROOT / "scripts/setup", *groups], env=self.environment, check=False,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)

    def test_what_is_missing_is_installed_and_a_second_run_does_nothing(self):
        names = self.all_names("build")
        self.assertIn("cmake", names)
        self.write("knows", *names)
        self.assertEqual(self.run_setup("build").returncode, 0)
        self.assertEqual(sorted(self.read("installed")), sorted(names))
        self.write("calls")
        self.assertEqual(self.run_setup("build").returncode, 0)
        self.assertEqual(self.read("calls"), [])

    def test_the_package_lists_are_updated_only_when_that_is_needed(self):
        names = self.all_names("build")
        self.write("knows", *names)
        self.run_setup("build")
        self.assertNotIn("update", self.read("calls"))

    def test_empty_package_lists_are_updated_first(self):
        names = self.all_names("build")
        self.write("later", *names)
        self.assertEqual(self.run_setup("build").returncode, 0)
        self.assertIn("update", self.read("calls"))

    def test_what_cannot_be_had_is_named_with_its_purpose_and_the_rest_is_installed(self):
        names = self.all_names("build")
        self.write("knows", *names)
        self.write("broken", "libsqlite3-dev")
        result = self.run_setup("build")
        self.assertEqual(result.returncode, 1)
        self.assertIn("libsqlite3-dev (needed for: the SQLite store)", result.stderr)
        self.assertIn("cmake", self.read("installed"))

    def test_an_alternative_name_is_as_good(self):
        names = [n for n in self.all_names("build") if n != "pkgconf"]
        self.write("installed", *names, "pkg-config")
        self.assertEqual(self.run_setup("build").returncode, 0)
        self.assertEqual(self.read("calls"), [])

    def test_a_server_is_not_started_and_the_system_is_as_before(self):
        self.write("knows", *self.all_names("test"))
        self.assertEqual(self.run_setup("test").returncode, 0)
        self.assertIn("redis-server", self.read("installed"))
        policy = self.state / "policy_while_installing"
        self.assertEqual(subprocess.run([policy], check=False).returncode, 101)
        self.assertFalse((self.state / "policy-rc.d").exists())

    def test_no_server_is_left_to_start_with_the_system(self):
        self.write("knows", *self.all_names("test"))
        self.assertEqual(self.run_setup("test").returncode, 0)
        self.assertEqual(sorted((self.state / "disabled").read_text().splitlines()),
                         ["disable --quiet " + service
                          for service in ("etcd", "mariadb", "memcached", "pgbouncer", "postgresql",
                                          "redis-server")])
        self.write("disabled")
        self.assertEqual(self.run_setup("test").returncode, 0)
        self.assertEqual(self.read("disabled"), [], "a server that was there before stays as it is")

    def test_the_policy_is_left_alone_where_no_server_is_installed(self):
        self.write("knows", *self.all_names("build"))
        self.assertEqual(self.run_setup("build").returncode, 0)
        self.assertFalse((self.state / "policy_while_installing").exists())

    def test_a_policy_of_the_system_stays(self):
        self.write("knows", *self.all_names("test"))
        self.write("policy-rc.d", "#!/bin/sh", "exit 104")
        self.assertEqual(self.run_setup("test").returncode, 0)
        self.assertIn("104", self.read("policy-rc.d"))

    def test_the_policy_of_an_interrupted_run_is_removed_by_the_next_one(self):
        self.write("knows", *self.all_names("test"))
        self.write("kill_setup")
        self.assertNotEqual(self.run_setup("test").returncode, 0)
        self.assertTrue((self.state / "policy-rc.d").exists())
        (self.state / "kill_setup").unlink()
        self.assertEqual(self.run_setup("test").returncode, 0)
        self.assertFalse((self.state / "policy-rc.d").exists())

    def test_without_root_it_says_so_and_asks_for_nothing(self):
        self.write("id", "1000")
        result = self.run_setup("build")
        self.assertEqual(result.returncode, 1)
        self.assertIn("needs root", result.stderr)
        self.assertEqual(self.read("calls"), [])

    def test_a_consul_is_fetched_with_lists_of_its_own_and_its_absence_is_no_failure(self):
        self.environment["PATH"] = f"{self.state}/bin:/usr/bin:/bin"
        self.write("knows", *self.all_names("test"))
        self.assertEqual(self.run_setup("test").returncode, 0)
        self.write("calls")
        self.environment |= {"HOLDFAST_CONSUL": "", "XDG_CACHE_HOME": str(self.state / "cache"),
                             "HOLDFAST_MYSQLD": "/bin/true"}
        result = self.run_setup("test")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("the tests of the Consul store will be skipped", result.stderr)
        for call in (self.state / "calls").read_text().splitlines():
            self.assertTrue(call.startswith("indextargets") or str(self.state) in call, call)

    def test_a_tool_from_elsewhere_is_as_good_as_its_package(self):
        for tool in ("mvn", "npm", "go"):
            (self.state / "bin" / tool).symlink_to("/bin/true")
        self.assertFalse({"maven", "npm", "golang-go"} & set(self.all_names("test")))
        (self.state / "bin" / "go").unlink()
        self.environment["PATH"] = f"{self.state}/bin:/usr/bin:/bin"
        self.assertEqual("golang-go" in self.all_names("test"), not Path("/usr/bin/go").exists())

    def test_an_unknown_group_is_refused(self):
        self.assertEqual(self.run_setup("everything").returncode, 2)


if __name__ == "__main__":
    unittest.main()
