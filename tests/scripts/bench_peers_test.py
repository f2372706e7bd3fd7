"""Tests of bench/peers: the page of the id generators says who is better, and a driver that fails counts."""

import re
import runpy
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

PEERS = Path(__file__).resolve().parents[2] / "bench" / "peers"
sys.path.insert(0, str(PEERS))

import ids  # noqa: E402
import page  # noqa: E402
from drivers import Peer  # noqa: E402

FIGURES = {"ids_per_s": 4_000_000, "cap": 4_096_000, "ahead_ms": 0, "p50_ns": 90, "p99_ns": 120, "p9999_ns": 1_000,
           "max_ns": 2_000_000, "clock_ns": 30, "refused": 0, "fell": 0, "layout": "time:41"}


def peer(name, ours=False, missing="", **figures):
    values = {} if missing else {figure: [value] for figure, value in (FIGURES | figures).items()}
    return {"name": name, "store": "ids", "ours": ours, "version": "1", "missing": missing, "figures": values}


def page_of(*peers):
    machine = {"date": "2026-11-28", "processors": 2, "model": "x", "kernel": "6", "java": "17", "go": "1"}
    facts = {"machine": machine, "rounds": 5, "seconds": 3, "loads": [0.5, 1.5], "peers": list(peers)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.md"
        page.write_ids(facts, path)
        return path.read_text(encoding="utf-8")


def parts(text):
    """What the page lists as better in a peer, and in Holdfast."""
    peers, ours = text.split("A peer is better in:")[1].split("## All")[0].split("Holdfast is better in:")
    return peers, ours


class PageTest(unittest.TestCase):
    def test_a_peer_that_is_better_is_said_so(self):
        peers, ours = parts(page_of(peer("Holdfast, Twitter's bits", True),
                                    peer("b, Twitter's bits", ids_per_s=4_090_000, max_ns=3_000_000)))
        self.assertIn("ids per second: Holdfast, Twitter's bits 4,000,000, b, Twitter's bits 4,090,000.", peers)
        self.assertNotIn("ids per second", ours)
        self.assertIn("longest call", ours)
        self.assertNotIn("longest call", peers)

    def test_a_lead_over_the_clock_is_worse(self):
        peers, ours = parts(page_of(peer("Holdfast, Twitter's bits", True), peer("b, Twitter's bits", ahead_ms=5)))
        self.assertIn("ahead of the clock", ours)
        self.assertNotIn("ahead of the clock", peers)

    def test_the_price_of_the_clock_is_not_the_generator_s(self):
        peers, _ = parts(page_of(peer("Holdfast, Twitter's bits", True),
                                 peer("b, Twitter's bits", p50_ns=100, clock_ns=80)))
        self.assertIn("p50 of a call without the clock's part, ns: Holdfast, Twitter's bits 60, b, Twitter's bits 20",
                      peers)

    def test_other_bits_are_in_the_table_alone(self):
        text = page_of(peer("Holdfast, Twitter's bits", True), peer("b, Twitter's bits"),
                       peer("c, its own bits", ids_per_s=9_000_000))
        self.assertNotIn("c, its own bits", "".join(parts(text)))
        self.assertIn("| c, its own bits | `time:41` | 4,096,000 | 9,000,000 ±0% | 219.7% | 0 |", text)

    def test_a_missing_generator_is_named_with_the_reason(self):
        text = page_of(peer("Holdfast, Twitter's bits", True), peer("d", missing="no package"))
        self.assertIn("- d: no package.", text)
        self.assertNotIn("| d |", text)

    def test_refused_calls_and_ids_that_fell_are_told(self):
        text = page_of(peer("Holdfast, Twitter's bits", True), peer("e", refused=7), peer("f", fell=1))
        self.assertIn("e, threw at 7 calls of a round.", text)
        self.assertIn("f, gave ids that were not above the one before.", text)


def locks_page_of(*peers, **more):
    """The page, and its charts."""
    machine = {"date": "2026-11-28", "processors": 2, "model": "x", "kernel": "6"}
    machine |= dict.fromkeys(("redis", "zookeeper", "etcd", "consul", "java", "go", "node", "rust"), "1")
    facts = {"machine": machine, "rounds": 3, "seconds": 2, "peers": list(peers),
             "bare_redis": {"pairs": 100_000, "safe_pairs": 60_000, "pair_us": 50}, **more}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.md"
        page.write(facts, path)
        charts = {chart.name: chart.read_text(encoding="utf-8") for chart in (path.parent / "performance").iterdir()}
        return path.read_text(encoding="utf-8"), charts


def lock_peer(name, ours=False, missing="", **figures):
    values = {"own 16": [100], "own 16 p50_us": [90], "own 16 p99_us": [200]} if not missing else {}
    values |= {figure.replace("_16", " 16").replace("own_", "own ").replace(" 1_", " 1 ").replace(" 256_", " 256 "): value for figure, value in figures.items()}
    return {"name": name, "store": "redis", "ours": ours, "version": "1", "missing": missing, "figures": values}


class LocksPageTest(unittest.TestCase):
    def test_batches_are_compared_with_scripts_that_are_safe(self):
        text, _ = locks_page_of(lock_peer("Holdfast, async", True, own_256=[57_000]))
        self.assertIn("of the shortest safe pair of scripts | 0.9 | 0.95 |", text)
        self.assertIn("0.95 of the first and 0.57 of the second", text)

    def test_a_faster_peer_comes_first_and_an_aim_is_missed(self):
        text, _ = locks_page_of(lock_peer("Holdfast, async", True), lock_peer("rslock", own_16=[190, 200, 210]))
        ahead = text.split("## Where another client is faster")[1].split("## Where Holdfast is faster")[0]
        self.assertIn("Redis, 16 callers on names of their own: rslock 200 ±5%, Holdfast, async 100 ±0%: ratio 0.50.", ahead)
        self.assertIn("| Redis, asynchronous, 16 in flight, to rslock | 1 | 0.50 | missed |", text)

    def test_what_costs_less_with_a_peer_is_said_so(self):
        text, _ = locks_page_of(lock_peer("Holdfast, async", True, **{"bytes a lock": [700]}),
                                lock_peer("rslock", **{"bytes a lock": [-300]}),
                                lock_peer("other", **{"bytes a lock": [500]}))
        self.assertIn("Redis, bytes of a held lock: other 500, Holdfast, async 700.", text)
        self.assertNotIn("-300", text)

    def test_a_slower_percentile_is_said_for_each_number_of_callers(self):
        text, _ = locks_page_of(lock_peer("Holdfast, async", True, own_256_p99_us=[300]),
                                lock_peer("rslock", own_256_p99_us=[200]))
        self.assertIn("Redis, p99 of a pair in us, 256 callers: rslock 200, Holdfast, async 300.", text)

    def test_what_is_quoted_of_another_page_is_there(self):
        quoted = [(bare, bare) for _, _, bare in page.CLAIMS] + [(row[0], row[2]) for row in page.ELSEWHERE]
        for link, words in quoted:
            for name in re.findall(r"\w+/[\w-]+\.md", link):
                text = (PEERS.parents[1] / "docs" / name).read_text(encoding="utf-8")
                for figure in re.findall(r"\d+,\d+|\d+\.\d+|\d{3}", words):
                    self.assertIn(figure, text, words)

    def test_a_missing_peer_is_said_so(self):
        text, _ = locks_page_of(lock_peer("Holdfast, async", True), lock_peer("rslock", missing="no program 'cargo'"))
        self.assertIn("- rslock: no program 'cargo'.", text)

    def test_what_was_not_measured_is_said_with_the_reason(self):
        text, _ = locks_page_of(lock_peer("Holdfast, async", True), lock_peer("rslock", failures=["no answer"] * 2),
                                skipped={"consul": "no program 'consul'"})
        left_out = text.split("Not measured:")[1]
        self.assertIn("- Consul: no program 'consul'.", left_out)
        self.assertIn("- rslock, 2 of its figures in a round: no answer.", left_out)

    def test_aims_about_cost_are_missed_when_it_is_more(self):
        text, _ = locks_page_of(lock_peer("Holdfast, async", True, own_1_p50_us=[50], **{"bytes a lock": [1_100]}),
                                lock_peer("Holdfast, threads", True, own_1_p50_us=[60], **{"bytes a lock": [900]}))
        self.assertIn("p50 of a pair to two bare round trips, at most | 1.1 | 1.00 |  |", text)
        self.assertIn("Redis, resident bytes for each of 2,000 held locks, the dearer form, at most | 1024 | "
                      "1,100.00 | missed |", text)

    def test_charts_have_a_line_for_each_peer_as_far_as_it_goes(self):
        _, charts = locks_page_of(lock_peer("Holdfast, async", True, **{"own 1024": [500]}), lock_peer("rslock"))
        self.assertEqual(sorted(charts), ["redis-latency.svg", "redis.svg"])
        self.assertEqual(charts["redis.svg"].count("<polyline"), 2)
        self.assertEqual(charts["redis-latency.svg"].count("<polyline"), 4)
        self.assertIn(">1,024<", charts["redis.svg"])

    def test_the_longest_name_has_room_in_a_chart(self):
        name = "x" * 40
        _, charts = locks_page_of(lock_peer(name))
        width = int(re.search(r'viewBox="0 0 (\d+)', charts["redis.svg"])[1])
        begin = int(re.search(rf'x="(\d+)"[^>]*>{name}<', charts["redis.svg"])[1])
        self.assertGreaterEqual(width - begin, 40 * 7.8)  # A wide font of 13 px.


class AskTest(unittest.TestCase):
    def ask(self, script):
        asked = Peer("x", "ids", "c++", "twitter", ["sh", "-c", script])
        ids.ask(asked, 1.0)
        return asked.figures

    def test_the_figures_of_a_line_are_kept(self):
        figures = self.ask("""echo '{"layout": "", "ids_per_s": 5.5, "fell": 2}'""")
        self.assertEqual(figures, {"ids_per_s": [5.5], "fell": [2], "layout": [""]})

    def test_a_driver_that_fails_gives_its_last_word(self):
        with self.assertRaisesRegex(RuntimeError, "an id is not above"):
            self.ask("""echo '{"layout": ""}'; echo first >&2; echo 'an id is not above the one before' >&2; exit 1""")

    def test_a_driver_that_says_nothing_fails(self):
        with self.assertRaisesRegex(RuntimeError, "no output"):
            self.ask("true")

    def test_a_driver_that_hangs_is_ended(self):
        driver = runpy.run_path(str(PEERS / "run"))["Driver"]
        driver.line.__globals__["LONGEST"] = 0.1
        peer = Peer("x", "redis", "c++", "twitter", ["sh", "-c", "exec sleep 600"])
        hung = driver(peer, SimpleNamespace(place="127.0.0.1:1"))
        with self.assertRaisesRegex(RuntimeError, "not within 0.1 s"):
            hung.line()
        self.assertNotEqual(hung.process.wait(60), 0)
        hung.end()
        hung.process.stdout.close()
        hung.process.stderr.close()


if __name__ == "__main__":
    unittest.main()
