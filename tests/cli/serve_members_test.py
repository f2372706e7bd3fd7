"""`holdfast server members` and `drain`: who serves on a journal, and one that stops in order."""

import json
import os
import re
import signal
import subprocess
import sys
import unittest

import harness
from harness import PATIENCE, boottime
from redis_server import die_with_parent
from serve_access_test import AccessCase
from serve_test import ServeCase


class Etcd:
    """An etcd that only a user may use."""

    def __init__(self):
        self.process = subprocess.Popen(
            [os.environ.get("HOLDFAST_STORE_SERVER", "build/dev/tests/cli_store_server"), "etcd"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        line = self.process.stdout.readline()
        if self.process.poll() == 77 or not line.startswith("{"):
            self.stop()
            print(f"SKIPPED: no etcd: {line.strip()}: no list of servers was tested")
            sys.exit(77 if self.process.returncode == 77 else 1)
        self.facts = json.loads(line)

    def signal(self, signal_number):
        os.kill(self.facts["pid"], signal_number)

    def journal(self, leadership="2s"):
        return f"etcd://{self.facts['user']}{self.facts['place']}?leadership={leadership}"

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class AloneTest(ServeCase):
    def members(self):
        return json.loads(self.ok("server", "members", "--json", self.url).stdout)["members"]

    def test_the_only_member_of_a_folder_is_the_server_itself(self):
        self.start()
        (only,) = self.members()
        self.assertEqual((only["address"], only["leads"]), (f"127.0.0.1:{self.port}", True))
        self.assertRegex(only["since"], r"^\d{4}-\d\d-\d\dT")
        self.assertIn(only["version"], self.ok("version").stdout)
        self.assertRegex(self.ok("server", "members").stdout, rf"127\.0\.0\.1:{self.port} +leads +\d{{4}}-")

    def test_a_drained_server_ends_with_0_and_leases_stay(self):
        self.start()
        self.ok("acquire", "--ttl", "60s", "job")
        token = json.loads(self.ok("inspect", "--json", "job").stdout)["token"]
        self.assertIn(f"127.0.0.1:{self.port} is gone", self.ok("server", "drain", self.url).stdout)
        self.assertEqual(self.server.wait(timeout=PATIENCE), 0)
        self.assertEqual(json.loads(self.server.stdout.readline()), {"event": "stopped", "drained": True})
        self.assertIn("is asked to stop by 127.0.0.1", self.server.stderr.read())
        self.start()
        self.assertEqual(json.loads(self.ok("inspect", "--json", "job").stdout)["token"], token)

    def test_what_cannot_be_is_refused_with_a_reason(self):
        for words, reason in ((("drain", self.url + ",127.0.0.1:1"), "several servers"),
                              (("drain", self.url), "is the server running there?"),
                              (("members", self.url), "is the server running there?"),
                              (("members", "memory:"), "is not the lock service"),
                              (("members", self.url, self.url), "in one URL"),
                              (("members", self.url, "--address", "a:1"), "--address is for"),
                              (("drain", self.url, "--store", self.url), "once")):
            with self.subTest(words=words):
                done = self.holdfast("server", *words)
                self.assertEqual((done.returncode, done.stdout), (125, ""))
                self.assertIn(reason, done.stderr)


class ClusterTest(ServeCase):
    def setUp(self):
        super().setUp()
        self.env["HOLDFAST_ETCD_PASSWORD"] = ETCD.facts["secret"]
        self.servers = {}
        self.said = []
        for _ in range(3):
            server, said = self.serve("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--journal",
                                      ETCD.journal(), "--shards", "1")
            self.servers[said["address"]] = server
            self.said.append(said)
        self.url = "holdfast://" + ",".join(self.servers)
        self.env["HOLDFAST_STORE"] = self.url

    def tearDown(self):
        # The next case has the same journal, and none of these servers.
        for server in self.servers.values():
            server.terminate()
        for server in self.servers.values():
            server.wait(timeout=PATIENCE)

    def roles(self, address=None):
        """Each member and whether it leads, as that server tells. None: a busy machine was too slow for it."""
        url = f"holdfast://{address}" if address else self.url
        done = self.holdfast("server", "members", "--json", url, timeout=PATIENCE)
        if done.returncode != 0:
            self.assertRegex(done.stderr, "deadline|etcd|running there", "nothing else may be in the way")
            return None
        return {each["address"]: each["leads"] for each in json.loads(done.stdout)["members"]}

    def await_roles(self, addresses):
        found = []

        def settled():
            roles = self.roles()
            if roles is None or set(roles) != set(addresses):
                return False
            found[:] = [address for address, leads in roles.items() if leads]
            return len(found) == 1

        self.until(settled, f"{addresses}, of which one leads")
        return found[0]

    def test_any_server_tells_all_of_them(self):
        self.await_roles(self.servers)
        for address in self.servers:
            self.until(lambda address=address: set(self.roles(address) or ()) == set(self.servers),
                       f"{address} tells all of them")

    def test_a_killed_server_disappears(self):
        leader = self.await_roles(self.servers)
        follower = next(address for address in self.servers if address != leader)
        self.servers[follower].kill()
        left = set(self.servers) - {follower}
        leader = self.await_roles(left)
        self.servers[leader].kill()
        (last,) = left - {leader}
        self.assertEqual(self.await_roles({last}), last)

    def test_a_drained_leader_hands_over_and_is_off_the_list(self):
        leader = self.await_roles(self.servers)
        lease = self.ok("acquire", "--ttl", "60s", "job").stdout.strip()
        done = self.ok("server", "drain", "--json", "--address", leader)
        self.assertEqual(json.loads(done.stdout), {"drained": leader})
        self.assertEqual(self.servers[leader].wait(timeout=PATIENCE), 0)
        self.await_roles(set(self.servers) - {leader})
        self.ok("release", lease)

    def test_a_follower_is_drained_by_an_address_that_the_url_does_not_name(self):
        leader = self.await_roles(self.servers)
        follower = next(address for address in self.servers if address != leader)
        self.ok("server", "drain", f"holdfast://{leader}", "--address", follower)
        self.assertEqual(self.servers[follower].wait(timeout=PATIENCE), 0)
        self.await_roles(set(self.servers) - {follower})

    def test_a_leader_that_steps_down_is_told_to_programs(self):
        leader = self.await_roles(self.servers)
        done = self.ok("server", "step-down", "--json")
        said = json.loads(done.stdout)
        self.assertEqual(set(said), {"stepped_down", "leader"})
        self.assertEqual(said["stepped_down"], leader)
        self.assertIn(said["leader"], set(self.servers) - {leader})

    def test_step_down_ends_well_when_the_url_names_only_the_leader(self):
        leader = self.await_roles(self.servers)
        began = boottime()
        said = json.loads(self.ok("server", "step-down", "--json", f"holdfast://{leader}").stdout)
        self.assertLess(boottime() - began, 15, "a minute was its patience with others")
        self.assertEqual(said["stepped_down"], leader)
        self.assertIn(said["leader"], set(self.servers) - {leader})

    def stop_others(self, leader):
        others = [server for address, server in self.servers.items() if address != leader]
        for server in others:
            server.send_signal(signal.SIGSTOP)
            self.addCleanup(server.send_signal, signal.SIGCONT)
        return others

    def test_a_step_down_ends_well_when_the_only_server_of_the_url_dies_after_it_was_asked(self):
        leader = self.await_roles(self.servers)
        others = self.stop_others(leader)
        try:
            command = subprocess.Popen([harness.PROGRAM, "server", "step-down", "--json", f"holdfast://{leader}"],
                                       env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       preexec_fn=die_with_parent)
            self.until(lambda: not json.loads(self.holdfast("server", "status", "--json", f"holdfast://{leader}",
                                                            timeout=PATIENCE).stdout)["servers"][0].get("leads"),
                       "it has stepped down")
            self.servers[leader].kill()
        finally:
            for server in others:
                server.send_signal(signal.SIGCONT)
        out, err = command.communicate(timeout=PATIENCE)
        self.assertEqual((command.returncode, err), (0, ""))
        said = json.loads(out)
        self.assertEqual(said["stepped_down"], leader)
        self.assertIn(said["leader"], set(self.servers) - {leader})

    def test_a_step_down_that_nobody_follows_is_an_error(self):
        leader = self.await_roles(self.servers)
        others = self.stop_others(leader)
        try:
            done = self.holdfast("server", "step-down", f"holdfast://{leader}", timeout=2 * PATIENCE)
        finally:
            for server in others:
                server.send_signal(signal.SIGCONT)
        self.assertEqual(done.returncode, 125, done.stdout)
        self.assertIn(f"no other server took over, so {leader} leads again", done.stderr)

    def test_doctor_tells_what_its_etcd_tells_and_what_cannot_be_seen(self):
        self.await_roles(self.servers)
        found = {each["topic"]: each for each in json.loads(self.ok("doctor", "--json").stdout)["findings"]}
        self.assertIn("the database has", found["etcd quota"]["what"])
        self.assertIn("--snapshot-count", found["etcd settings"]["what"])
        self.assertIn("compacted", found["etcd history"]["what"])
        self.assertIn("etcd members", found)
        self.assertNotIn("etcd", found, "nothing was refused")

    def test_metrics_count_commits_to_etcd(self):
        self.await_roles(self.servers)
        self.ok("run", "job", "--", "true")
        leads = 0
        for said in self.said:
            text = self.get(said, "/metrics")
            self.assertIn('journal="etcd"', text)
            if "\nholdfast_server_leads 1\n" not in text:
                self.assertNotIn("holdfast_server_holders", text, "a server that stands by has no locks")
                continue
            leads += 1
            # A release is answered before its commit.
            self.until(lambda said=said: "\nholdfast_server_holders 0\n" in self.get(said, "/metrics"), "nobody holds")
            self.assertGreater(int(re.search(r"holdfast_server_commit_seconds_count (\d+)", text)[1]), 0)
            self.assertGreater(int(re.search(r"holdfast_server_grants_total (\d+)", text)[1]), 0)
        self.assertEqual(leads, 1)

    def test_a_server_that_stood_still_comes_back(self):
        leader = self.await_roles(self.servers)
        follower = next(address for address in self.servers if address != leader)
        self.servers[follower].send_signal(signal.SIGSTOP)
        # A paused server would not answer: the leader alone is asked.
        self.until(lambda: follower not in (self.roles(leader) or {follower: False}), "the paused server is off the list")
        self.servers[follower].send_signal(signal.SIGCONT)
        self.until(lambda: follower in (self.roles(leader) or {}), "it is on the list again")


class ShardsTest(ServeCase):
    def setUp(self):
        super().setUp()
        etcd = Etcd()  # Its user may use one journal only.
        self.addCleanup(etcd.stop)
        self.env["HOLDFAST_ETCD_PASSWORD"] = etcd.facts["secret"]
        journal = etcd.journal("60s")  # A paused server keeps its lead for the whole case.
        self.servers = {}
        self.said = []
        for _ in range(2):
            server, said = self.serve("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--journal", journal,
                                      "--shards", "4")
            self.servers[said["address"]] = server
            self.said.append(said)
        self.url = "holdfast://" + ",".join(self.servers)
        self.env["HOLDFAST_STORE"] = self.url
        self.until(lambda: self.led() == [2, 2], "each server leads two shards")

    def led(self):
        done = self.holdfast("server", "members", "--json", timeout=PATIENCE)
        return [each["shards"] for each in json.loads(done.stdout)["members"]] if done.returncode == 0 else None

    def test_http_shows_the_locks_of_all_shards_and_counts_those_of_its_own(self):
        names = {f"job-{i}" for i in range(12)}
        for name in names:
            self.ok("acquire", "--ttl", "120s", name)
        listed = json.loads(self.ok("server", "members", "--json").stdout)["members"]
        self.assertEqual({each["address"]: each["http"] for each in listed},
                         {said["address"]: said["http"] for said in self.said})
        # A server hears of a new leader by its next look.
        states = []

        def agree():
            states[:] = [json.loads(self.get(said, "/v1/server")) for said in self.said]
            return states[0]["shard_leaders"] == states[1]["shard_leaders"]

        self.until(agree, "both servers name the same leaders")
        for state, said in zip(states, self.said):
            self.assertEqual((state["address"], state["shards"], state["leading"]), (said["address"], 4, 2))
            self.assertEqual(state["shard_leaders"].count(said["address"]), 2)
            self.until(lambda said=said: "elsewhere" not in self.get(said, "/v1/locks"), "it can ask the other server")
            self.assertEqual({each["name"] for each in json.loads(self.get(said, "/v1/locks"))["locks"]}, names)
            metrics = self.get(said, "/metrics")
            self.assertIn("\nholdfast_server_shards 4\n", metrics)
            self.assertIn('journal="etcd"', metrics)
        self.assertEqual(sum(state["holders"] for state in states), len(names))

    def test_members_tell_how_many_shards_each_leads(self):
        text = self.ok("server", "members").stdout
        self.assertEqual(len(re.findall(r"(?m)^127\S+ +leads 2 shards ", text)), 2, text)

    def test_status_of_one_server_asks_those_that_lead_the_other_shards(self):
        def seen_from(address):
            done = self.holdfast("server", "status", "--json", f"holdfast://{address}", timeout=PATIENCE)
            servers = json.loads(done.stdout)["servers"]
            self.assertEqual(servers[0]["address"], address)
            return done.returncode, {each["address"] for each in servers}

        for address in self.servers:
            # A server hears of a new leader by its next look.
            self.until(lambda address=address: seen_from(address) == (0, set(self.servers)),
                       f"{address} tells who leads the other shards")

    def test_a_leader_that_has_just_died_is_told_before_its_lease_ends(self):
        dead, left = self.servers
        self.servers[dead].kill()
        self.servers[dead].wait(timeout=PATIENCE)
        for url in (self.url, f"holdfast://{left}"):
            done = self.holdfast("server", "status", "--json", url, timeout=PATIENCE)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertEqual(len(json.loads(done.stdout)["vacant_shards"]), 2, done.stdout)
            text = self.holdfast("server", "status", url, timeout=PATIENCE).stdout
            said = re.findall(r"(?m)^shards? \d.*", text)
            self.assertEqual(len(said), 1, text)
            self.assertRegex(said[0], r"^shards \d[-,] ?\d are not served: "
                             rf"{dead} was last seen leading, and does not answer\. If it has died, another ")
        members = json.loads(self.ok("server", "members", "--json", f"holdfast://{left}").stdout)["members"]
        troubles = {each["address"]: each["trouble"] for each in members}
        self.assertEqual(troubles[left], "")
        self.assertIn("is the server running there?", troubles[dead])
        self.assertRegex(self.ok("server", "members", f"holdfast://{left}").stdout, rf"{dead} +no answer ")

    def test_ls_and_watch_go_on_without_the_shards_of_a_server_that_hangs(self):
        leases = {f"job-{i}": self.ok("acquire", "--ttl", "120s", f"job-{i}").stdout.strip() for i in range(12)}
        hanging = next(iter(self.servers.values()))
        hanging.send_signal(signal.SIGSTOP)
        self.addCleanup(hanging.send_signal, signal.SIGCONT)
        done = self.holdfast("ls", "--json", timeout=PATIENCE)
        self.assertEqual(done.returncode, 1, done.stderr)
        seen = {each["name"] for each in json.loads(done.stdout)}
        self.assertTrue(seen and seen < set(leases), seen)
        address = next(iter(self.servers))
        silent = set(re.findall(rf"shard (\d): .*\({address}\): .*this list has none of its locks", done.stderr))
        self.assertEqual(len(silent), 2, done.stderr)
        self.assertIn("the list is incomplete", done.stderr)

        watch = subprocess.Popen([harness.PROGRAM, "watch", "--json"], env=self.env, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 preexec_fn=die_with_parent)
        self.addCleanup(self.end, watch)
        said = watch.stderr.readline() + watch.stderr.readline()
        told = re.findall(r"shard (\d): .*changes of its locks are missing until it answers", said)
        self.assertEqual(set(told), silent, said)
        self.ok("release", leases[min(seen)])
        event = json.loads(watch.stdout.readline())
        self.assertEqual((event["event"], event["name"]), ("released", min(seen)))
        hanging.send_signal(signal.SIGCONT)
        for _ in silent:
            self.assertEqual(json.loads(watch.stdout.readline())["event"], "missed")
        hidden = min(set(leases) - seen)
        self.ok("release", leases[hidden])
        event = json.loads(watch.stdout.readline())
        self.assertEqual((event["event"], event["name"]), ("released", hidden))
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(timeout=PATIENCE), 0)
        self.assertEqual({each["name"] for each in json.loads(self.ok("ls", "--json").stdout)},
                         set(leases) - {min(seen), hidden})


class DeadLeaderTest(ServeCase):
    def test_everybody_is_told_that_nobody_leads_yet(self):
        etcd = Etcd()
        self.addCleanup(etcd.stop)
        self.env["HOLDFAST_ETCD_PASSWORD"] = etcd.facts["secret"]
        words = ("--listen", "127.0.0.1:0", "--journal", etcd.journal("60s"), "--shards", "1")
        (leader, first), (_, second) = self.serve(*words), self.serve(*words)
        dead, left = first["address"], second["address"]
        self.env["HOLDFAST_STORE"] = f"holdfast://{left}"
        # The leader need not be named.
        self.until(lambda: dead in self.holdfast("server", "status").stdout, "the leader is known")
        self.assertRegex(self.ok("server", "status").stdout, rf"(?m)^{dead} +leads ")
        leader.kill()
        leader.wait()
        why = (f"{dead} was last seen leading, and does not answer. If it has died, another server leads once its "
               "lease of leadership is over")
        for url in (f"holdfast://{left}", f"holdfast://{dead},{left}"):
            done = self.holdfast("server", "status", url)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(f"no lock is served: {why}\n", done.stdout)
            told = json.loads(self.holdfast("server", "status", "--json", url).stdout)
            self.assertEqual(told["vacant_shards"], [0])
            done = self.holdfast("server", "step-down", url)
            self.assertEqual(done.returncode, 125, done.stdout)
            self.assertIn(why, done.stderr)


class StepDownOfShardsTest(ServeCase):
    """Several shards, which the servers share."""

    def setUp(self):
        super().setUp()
        etcd = Etcd()
        self.addCleanup(etcd.stop)
        self.env["HOLDFAST_ETCD_PASSWORD"] = etcd.facts["secret"]
        self.servers = {}
        for _ in range(2):
            server, said = self.serve("--listen", "127.0.0.1:0", "--journal", etcd.journal("2s"), "--shards", "4")
            self.servers[said["address"]] = server
        self.one, self.two = self.servers
        self.env["HOLDFAST_STORE"] = self.url = f"holdfast://{self.one},{self.two}"
        self.until(lambda: self.leading() in ([2, 2], [4, 0]) and all(self.leading()), "they share the shards")

    def leading(self):
        told = json.loads(self.holdfast("server", "status", "--json", timeout=PATIENCE).stdout)["servers"]
        return [each["leading"] for each in told if "leading" in each]

    def test_a_server_steps_down_from_all_its_shards_and_stays(self):
        lease = self.ok("acquire", "--ttl", "60s", "job").stdout.strip()
        done = self.holdfast("server", "step-down")
        self.assertEqual(done.returncode, 125)
        self.assertIn("names several servers: say which one", done.stderr)
        said = json.loads(self.ok("server", "step-down", "--json", "--address", self.one).stdout)
        self.assertEqual(said, {"stepped_down": self.one, "shard_leaders": [self.two] * 4})
        self.assertEqual(self.leading(), [0, 4])
        done = self.holdfast("server", "step-down", f"holdfast://{self.one}")
        self.assertEqual(done.returncode, 125)
        self.assertRegex(done.stderr, "this server leads no shard.*'holdfast server status' tells who leads")
        done = self.holdfast("server", "step-down", f"holdfast://{self.two}")
        self.assertEqual(done.returncode, 125, "the other one takes no shard for now")
        self.assertIn("no other server could lead", done.stderr)
        self.ok("renew", lease)
        self.until(lambda: self.leading() == [2, 2], "they share the shards again")
        # The URL need not name the one that takes over.
        text = self.ok("server", "step-down", f"holdfast://{self.two}").stdout
        self.assertRegex(text, rf"^{self.two} has stepped down: {self.one} leads shards \d")
        self.ok("release", lease)

    def test_two_that_step_down_together_end_with_a_reason_before_a_minute_is_over(self):
        commands = [subprocess.Popen([harness.PROGRAM, "server", "step-down", "--address", address, self.url],
                                     env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     preexec_fn=die_with_parent) for address in self.servers]
        for command in commands:
            out, err = command.communicate(timeout=2 * PATIENCE)
            if command.returncode == 0:
                self.assertIn("has stepped down", out)
            else:
                self.assertRegex(err, "no other server (took over|could lead)|leads no shard")

    def test_a_step_down_that_nobody_follows_is_an_error(self):
        self.servers[self.two].send_signal(signal.SIGSTOP)
        self.addCleanup(self.servers[self.two].send_signal, signal.SIGCONT)
        done = self.holdfast("server", "step-down", f"holdfast://{self.one}", timeout=2 * PATIENCE)
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertRegex(done.stderr, "no other server (took over shard|could lead)")
        self.until(lambda: self.leading() == [4], "it leads all by itself")


class TwoServersCase(ServeCase):
    def two_servers(self, shards):
        etcd = Etcd()
        self.addCleanup(etcd.stop)
        self.env["HOLDFAST_ETCD_PASSWORD"] = etcd.facts["secret"]
        said = [self.serve("--listen", "127.0.0.1:0", "--journal", etcd.journal("2s"), "--shards", shards)[1]
                for _ in range(2)]
        return etcd, "holdfast://" + ",".join(each["address"] for each in said)


class OneShardEachTest(TwoServersCase):
    def test_members_tell_how_many_shards_each_leads(self):
        _, url = self.two_servers("2")

        def told():
            text = self.holdfast("server", "members", url, timeout=PATIENCE).stdout
            return len(re.findall(r"(?m)^127\S+ +leads 1 shard ", text)) == 2

        self.until(told, "each server leads one of two shards")


class SilentJournalTest(TwoServersCase):
    def test_a_step_down_after_which_nobody_leads_has_failed(self):
        etcd, url = self.two_servers("1")
        self.until(lambda: self.holdfast("server", "status", url).returncode == 0, "one leads")
        etcd.signal(signal.SIGSTOP)
        self.addCleanup(etcd.signal, signal.SIGCONT)
        done = self.holdfast("server", "step-down", url, timeout=2 * PATIENCE)
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        # On a busy machine its lease of leadership may be over before it is asked.
        self.assertRegex(done.stderr, "no other server took over in 10s|no server leads that could step down")

    def test_shards_that_share_a_reason_are_told_together_and_no_server_both_leads_and_does_not(self):
        etcd, url = self.two_servers("4")

        def status():
            return json.loads(self.holdfast("server", "status", "--json", url, timeout=PATIENCE).stdout)

        self.until(lambda: not status()["vacant_shards"], "each shard is led")
        etcd.signal(signal.SIGSTOP)
        self.addCleanup(etcd.signal, signal.SIGCONT)
        text = ""

        def both_told():
            nonlocal text
            text = self.holdfast("server", "status", url, timeout=PATIENCE).stdout
            return text.count("leads 0 of 4") == 2

        # A busy server may leave one look without an answer.
        self.until(both_told, "their leases are over")
        self.assertEqual(re.findall(r"(?m)^shard.*", text),
                         ["shards 0-3 are not served: no server leads, and the journal does not answer"])
        self.until(lambda: status()["vacant_shards"] == [0, 1, 2, 3], "JSON tells the same")


class RightsTest(AccessCase):
    def test_a_wrong_password_is_named_with_its_setting_and_no_retry_is_advised(self):
        self.start()
        with open(self.path("password"), "w", encoding="utf-8") as file:
            file.write("wrong\n")
        for verb in ("members", "drain", "step-down"):
            with self.subTest(verb=verb):
                done = self.on("server", verb)
                self.assertEqual((done.returncode, done.stdout), (125, ""))
                self.assertIn("does not accept the user or password", done.stderr)
                self.assertIn("correct HOLDFAST_SERVICE_PASSWORD", done.stderr)
                self.assertNotIn("retry", done.stderr)
                self.assertEqual(done.stderr.count(self.address), 1, done.stderr)

    def test_status_says_that_a_server_refuses_the_log_in(self):
        self.start()
        with open(self.path("password"), "w", encoding="utf-8") as file:
            file.write("wrong\n")
        anonymous = f"holdfasts://{self.address}?tls_ca={self.ca[0]}"
        for url, advice in ((self.client_url(), "correct HOLDFAST_SERVICE_PASSWORD"),
                            (anonymous, "name the user in the URL")):
            with self.subTest(url=url):
                done = self.on("server", "status", url=url)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stdout, rf"{self.address} +refuses the log-in ")
                self.assertNotIn("no answer", done.stdout)
                self.assertIn(advice, done.stdout)
                (only,) = json.loads(self.on("server", "status", "--json", url=url).stdout)["servers"]
                self.assertTrue(only["refused"])

    def test_both_are_for_admins(self):
        self.start()
        for verb in ("members", "drain"):
            self.assertIn("user 'app' is no admin", self.on("server", verb).stderr)
        # A server that is away must not hide why the first one refused.
        both = self.client_url().replace(self.address, self.address + ",127.0.0.1:1")
        self.assertIn("user 'app' is no admin", self.on("server", "members", url=both).stderr)
        self.write_users("app", "admin")
        self.server.send_signal(signal.SIGHUP)
        self.server.stdout.readline()
        self.assertIn(self.address, self.on("server", "members").stdout)
        done = self.on("server", "drain")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.server.wait(timeout=PATIENCE), 0)
        said = self.server.stderr.read()
        self.assertIn("is asked to stop by user 'app' at 127.0.0.1", said)


def setUpModule():
    global ETCD
    ETCD = Etcd()
    unittest.addModuleCleanup(ETCD.stop)


if __name__ == "__main__":
    harness.main()
