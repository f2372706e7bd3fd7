"""The console of `holdfast serve --http` in a real browser: live, by keyboard, in two languages, and among enemies.

HOLDFAST_SCREENSHOTS=FOLDER keeps pictures of the page for people to look at."""

import http.client
import json
import os
import unittest
from urllib.parse import quote

import browser
import harness
from harness import PATIENCE
from serve_test import ServeCase

HOSTILE = '<img src=x onerror="window.evil=1;alert(1)">'
SCRIPT = "<script>window.evil=1;alert(2)</script>"
TURNED = "pay\u202egnp"  # A right-to-left override would show it turned around.

# The texts of the row of a lock, by its columns.
ROW = """(name => {
  const row = [...document.querySelectorAll("#rows tr")].find(each => each.lock.name === name);
  return row && [...row.children].map(each => each.textContent);
})(%s)"""
FOCUSED = "document.activeElement.id || document.activeElement.className + ' ' + document.activeElement.textContent"


@unittest.skipUnless(browser.PROGRAM, browser.MISSING)
class ConsoleCase(ServeCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)
        try:
            cls.browser.call("Browser.getVersion")
        except (AssertionError, BrokenPipeError) as error:
            raise unittest.SkipTest(f"chromium does not start here: {error}") from error

    def setUp(self):
        super().setUp()
        self.pages = []
        self.start()

    def start(self, http_address="127.0.0.1:0", place=None):
        place = place or ("--data", self.data)
        self.server, said = self.serve("--listen", f"127.0.0.1:{self.port}", *place, "--http", http_address)
        self.http = said["http"]
        self.origin = f"http://{self.http}"

    def page(self, **options):
        page = browser.Page(self.browser, **options)
        self.pages.append(page)
        page.open(self.origin + "/")
        page.until("document.getElementById('updated')?.textContent")
        return page

    def tearDown(self):
        """No page has run a text of others, asked another origin or met its own policy."""
        for page in self.pages:
            seen = page.judge()
            self.assertTrue(seen["requests"])
            self.assertEqual([each for each in seen["requests"] if not each.startswith(self.origin + "/")], [])
            self.assertEqual((seen["troubles"], seen["dialogs"]), ([], []))
            self.assertIsNone(page.run("window.evil ?? null"))
        super().tearDown()

    def post(self, name, verb, **body):
        connection = http.client.HTTPConnection(self.http, timeout=PATIENCE)
        connection.request("POST", f"/v1/locks/{quote(name, safe='')}/{verb}", json.dumps(body),
                           {"Content-Type": "application/json", "Holdfast-Request": "1"})
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
        self.assertEqual(answer.status, 200, said)
        return said

    def acquire(self, name, owner="", reason="", **body):
        return self.post(name, "acquire", **{"ttl_ms": 600000, "owner": owner, "reason": reason, **body})

    def see(self, name):
        connection = http.client.HTTPConnection(self.http, timeout=PATIENCE)
        connection.request("GET", "/v1/locks/" + quote(name, safe=""))
        seen = json.loads(connection.getresponse().read())
        connection.close()
        return seen

    def waiter(self, name, reason):
        """Somebody who waits for it, by the command line."""
        waiting = self.run_locked("--ttl", "60s", "--reason", reason, name, "--", "sleep", "60")
        waiting.event("waiting")
        return waiting

    def tab_to(self, page, wanted):
        """Presses Tab until `wanted` is part of what has the focus."""
        for _ in range(60):
            page.press("Tab")
            if wanted in page.run(FOCUSED):
                return
        self.fail(f"Tab does not reach {wanted}")

    def picture(self, page, name):
        folder = os.environ.get("HOLDFAST_SCREENSHOTS")
        if folder:
            page.screenshot(os.path.join(folder, name + ".png"))

    def fill(self):
        """A held lock with a queue, and a few others."""
        self.acquire("orders/17", "nightly export", "rebuilds the index of orders")
        for reason in ("settles the day", "sends invoices"):
            self.waiter("orders/17", reason)
        self.holder("deploy/production", "--reason", "release 4.2", ttl="60s")
        for number in range(3):
            self.acquire("cache/rebuild", f"reader {number}", "reads", mode="shared")
        self.acquire("a-very-long-name/" + "part/" * 12 + "end", "someone", "a reason that goes on and on " * 6)


class LooksTest(ConsoleCase):
    def test_it_shows_holders_waiters_and_the_server(self):
        self.fill()
        page = self.page()
        row = page.until(ROW % '"orders/17"')
        self.assertEqual(row[:2], ["orders/17", "nightly export"])
        self.assertIn("127.0.0.1 · http", row[2])
        self.assertRegex(row[5], r"^\d+ min \d+ s$")
        self.assertEqual(row[6:8], ["rebuilds the index of orders", self.see("orders/17")["holders"][0]["token"]])
        self.assertRegex(row[8], r"^2 · ")
        self.assertEqual(page.run(ROW % '"cache/rebuild"')[1], "3 holders: reader 0, …")
        self.assertEqual(page.run("document.getElementById('state').textContent"), "Leads")
        facts = page.run("document.getElementById('server').innerText")
        self.assertIn(f"127.0.0.1:{self.port} (this server)", facts)
        self.assertIn(self.data, facts)
        self.picture(page, "light-english")
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.picture(page, "dark-english")

    def test_the_locks_of_all_shards_are_on_one_page(self):
        self.server.terminate()
        self.server.wait(timeout=PATIENCE)
        self.start(place=("--journal", "memory:", "--shards", "4"))
        names = [f"job-{number}" for number in range(12)]
        for name in names:
            self.acquire(name, "someone", "a reason")
        page = self.page()
        page.until(ROW % json.dumps(names[-1]))
        self.assertEqual(page.run("[...document.querySelectorAll('#rows tr')].map(each => each.lock.name)"),
                         sorted(names))
        self.assertIn("4 of 4: 0, 1, 2, 3", page.run("document.getElementById('server').innerText"))
        self.assertEqual(page.run("document.getElementById('state').textContent"), "Leads")

    def test_it_counts_down_and_follows_what_changes(self):
        self.acquire("a", ttl_ms=30000)
        page = self.page()
        page.until(ROW % '"a"')
        page.until("document.querySelector('#rows tr').children[5].textContent <= '28 s'")
        self.acquire("b", "other")
        page.until(ROW % '"b"')

    def test_a_lock_that_a_lock_delay_keeps_closed_says_so(self):
        # A busy machine must not lose the lock before its holder is killed.
        holder = self.holder("batch", "--lock-delay", "50s", ttl="6s")
        page = self.page()
        page.until(ROW % '"batch"')
        self.assertRegex(page.run(ROW % '"batch"')[5], r"^\d+ s$")
        page.run("document.querySelector('.lock').click()")
        page.until("document.getElementById('holders').innerText.includes('unless it is renewed')")
        holder.process.kill()
        page.until("document.querySelector('#rows tr').children[5].textContent.startsWith('lock-delay ')")
        self.assertRegex(page.run(ROW % '"batch"')[5], r"^lock-delay \d+ s$")
        detail = page.run("document.getElementById('holders').innerText")
        self.assertIn("no longer counts on it", detail)
        self.assertNotIn("unless it is renewed", detail)
        self.picture(page, "lock-delay")

    def test_the_queue_of_a_lock_stands_in_its_order(self):
        self.fill()
        page = self.page(size=(1400, 860))
        page.until(ROW % '"orders/17"')
        self.tab_to(page, "lock data a-very")
        while "orders/17" not in page.run(FOCUSED):
            page.press("ArrowDown")
        page.press("Enter")
        page.until("document.querySelectorAll('#queue li').length === 2")
        self.assertEqual(page.run("document.activeElement.id"), "detail-name")
        queue = page.run("[...document.querySelectorAll('#queue li')].map(each => each.innerText)")
        self.assertIn("settles the day", queue[0])
        self.assertIn("sends invoices", queue[1])
        self.picture(page, "detail")
        page.resize(700, 900)
        self.picture(page, "detail-narrow")
        page.press("Escape")
        page.until("document.getElementById('detail').hidden")
        self.assertIn("orders/17", page.run(FOCUSED))

    def test_a_prefix_filters_and_pages_follow_each_other(self):
        for number in range(103):
            self.acquire(f"many/{number:03}")
        self.acquire("other + 50% & more")
        page = self.page()
        page.until("document.querySelectorAll('#rows tr').length === 100")
        self.tab_to(page, "next")
        page.press("Enter")
        page.until("document.querySelectorAll('#rows tr').length === 4")
        page.run("document.getElementById('previous').click()")
        page.until("document.querySelectorAll('#rows tr').length === 100")
        # Nothing follows a page that is just full: that is not said of all locks of the prefix.
        page.run("document.getElementById('prefix').focus()")
        page.type("many/0")
        page.until("document.getElementById('rows').lastChild?.lock.name === 'many/099'")
        page.run("document.getElementById('next').click()")
        said = page.until("document.querySelectorAll('#rows tr').length === 0 && "
                          "document.getElementById('empty').textContent")
        self.assertEqual(said, "No more locks follow the previous page.")
        page.run("document.getElementById('prefix').value = ''; "
                 "document.getElementById('prefix').dispatchEvent(new Event('input'))")
        page.until("document.querySelectorAll('#rows tr').length === 100")
        # A lock far down opens beside its row: the page stays where it was.
        page.run("document.querySelectorAll('.lock')[99].focus(); document.querySelectorAll('.lock')[99].click()")
        page.until("document.querySelector('#holders button') !== null")
        self.assertGreater(page.run("scrollY"), 1000)
        self.picture(page, "far-down")
        page.run("document.getElementById('prefix').focus()")
        page.type("other + 50% &")
        page.until("document.querySelectorAll('#rows tr').length === 1")
        self.assertEqual(page.run(FOCUSED), "prefix")
        page.type(" none")
        page.until("!document.getElementById('empty').hidden")
        self.assertIn("“other + 50% & none”", page.run("document.getElementById('empty').textContent"))

    def test_a_refresh_keeps_focus_and_selection_and_a_pause_stops_it(self):
        for name in ("b", "c", "d"):
            self.acquire(name, "owner of " + name)
        page = self.page()
        page.until("document.querySelectorAll('#rows tr').length === 3")
        page.run("""document.querySelectorAll(".lock")[1].focus();
            getSelection().selectAllChildren(document.querySelectorAll("#rows tr")[1].children[1])""")
        self.acquire("a")
        self.post("b", "break", token=self.see("b")["holders"][0]["token"], reason="makes room")
        page.until("[...document.querySelectorAll('.lock')].map(each => each.textContent).join() === 'a,c,d'")
        self.assertEqual(page.run("document.activeElement.textContent"), "c")
        self.assertEqual(page.run("getSelection().toString()"), "owner of c")
        page.run("document.getElementById('pause').click()")
        requests = len(page.judge()["requests"])
        self.assertIn("Paused", page.run("document.getElementById('notices').textContent"))
        page.run("new Promise(done => setTimeout(done, 3000))")
        self.assertEqual(len(page.judge()["requests"]), requests)
        page.run("document.getElementById('pause').click()")
        page.until("!document.getElementById('notices').textContent")

    def test_nothing_held_and_nobody_there(self):
        page = self.page()
        page.until("!document.getElementById('empty').hidden")
        self.assertEqual(page.run("document.getElementById('empty').textContent"), "No lock is held or waited for.")
        self.picture(page, "empty")
        self.acquire("a", "someone")
        page.until(ROW % '"a"')
        self.kill()
        page.until("document.getElementById('state').textContent === 'Not reachable'")
        self.assertRegex(page.run("document.getElementById('notices').textContent"),
                         r"not reachable\. Last seen at \d\d:\d\d:\d\d")
        self.assertTrue(page.run(ROW % '"a"'), "what was known stays")
        self.picture(page, "not-reachable")
        self.start(self.http)
        page.until("document.getElementById('state').textContent === 'Leads'")
        page.until("!document.getElementById('notices').textContent")


    def test_every_control_has_a_name_for_screen_readers(self):
        self.fill()
        page = self.page()
        page.until(ROW % '"orders/17"')
        page.run("[...document.querySelectorAll('.lock')].find(each => each.textContent === 'orders/17').click()")
        page.until("document.querySelector('#holders button') !== null")
        page.run("document.querySelector('#holders button').click()")
        for shown in ("dialog", "page"):
            nodes = page.call("Accessibility.getFullAXTree")["nodes"]
            controls = [(node["role"]["value"], node.get("name", {}).get("value")) for node in nodes
                        if not node.get("ignored") and node["role"]["value"] in
                        ("button", "combobox", "textbox", "searchbox", "dialog", "complementary", "region", "table")]
            self.assertGreater(len(controls), 4 if shown == "dialog" else 10, controls)
            self.assertEqual([each for each in controls if not each[1]], [])
            page.press("Escape")


# Answers of a server that no test can have at will: {path: [status, body]}.
PLAYED = """(answers => {
  const real = window.fetch;
  window.fetch = (path, options) => {
    const found = answers[path.split("?")[0]];
    if (!found) return real(path, options);
    return Promise.resolve(new Response(JSON.stringify(found[1]), { status: found[0] }));
  };
})(%s)"""


class ServersTest(ConsoleCase):
    def played(self, server, locks):
        page = browser.Page(self.browser)
        self.pages.append(page)
        page.call("Page.addScriptToEvaluateOnNewDocument",
                  source=PLAYED % json.dumps({"v1/server": server, "v1/locks": locks}))
        page.open(self.origin + "/")
        page.until("document.getElementById('updated')?.textContent")
        return page

    def test_a_server_that_stands_by_says_who_leads(self):
        state = {"leads": False, "leader": "192.0.2.7:7420", "address": "192.0.2.8:7420", "version": "1", "journal": "etcd",
                 "journal_place": "etcd://a:2379", "shards": 1, "uptime_ms": 5000}
        refused = [503, {"error": {"code": "standing_by", "message": "the server at 192.0.2.7:7420 leads", "next": "ask it"}}]
        page = self.played([200, state], refused)
        self.assertEqual(page.run("document.getElementById('state').textContent"), "Stands by")
        self.assertIn("192.0.2.7:7420 leads", page.run("document.getElementById('notices').textContent"))
        self.assertIn("192.0.2.8:7420", page.run("document.getElementById('server').textContent"))
        self.picture(page, "stands-by")
        page = self.played([200, {**state, "leader": ""}], refused)
        self.assertIn("no server leads yet", page.run("document.getElementById('notices').textContent"))

    def test_a_server_that_stands_by_shows_the_locks_and_says_whose_are_missing(self):
        state = {"leads": False, "leading": 0, "leader": "", "address": "192.0.2.8:7420", "version": "1", "journal": "etcd",
                 "journal_place": "etcd://a:2379", "shards": 3, "uptime_ms": 5000,
                 "shard_leaders": ["192.0.2.7:7420", "", "192.0.2.9:7420"]}
        lock = {"name": "a", "holding": 0, "waiting": 0, "holders": [], "queue": []}
        page = self.played([200, state], [200, {"locks": [lock]}])
        page.until(ROW % '"a"')
        self.assertEqual(page.run("document.getElementById('notices').textContent"), "")
        self.assertIn("192.0.2.9:7420: 2", page.run("document.getElementById('server').textContent"))
        missing = [{"shard": 0, "leader": "192.0.2.7:7420"}, {"shard": 1, "leader": ""}]
        page = self.played([200, state], [200, {"locks": [lock], "elsewhere": missing}])
        said = page.run("document.getElementById('notices').textContent")
        self.assertIn("The locks of 2 shards are missing here", said)
        self.assertIn("192.0.2.7:7420: 0; not known: 1", said)
        page = self.played([200, state], [503, {"error": {"code": "standing_by", "message": "no", "next": "ask it"}}])
        said = page.run("document.getElementById('notices').textContent")
        self.assertIn("leads no shard, and cannot ask those that do", said)

    def test_a_restored_copy_says_how_long_it_grants_nothing(self):
        state = {"leads": True, "leader": "192.0.2.7:7420", "address": "192.0.2.7:7420", "version": "1", "journal": "sqlite",
                 "journal_place": "/var/lib/x", "quiet_s": 7200, "shards": 1, "uptime_ms": 5000, "holders": 1}
        page = self.played([200, state], [200, {"locks": []}])
        said = page.run("document.getElementById('notices').textContent")
        self.assertRegex(said, r"restored copy: no lock is granted for 2\s?h")

    def test_a_full_journal_and_an_unknown_refusal_are_told(self):
        state = {"leads": True, "leader": "192.0.2.7:7420", "address": "192.0.2.7:7420", "version": "1", "journal": "sqlite",
                 "journal_place": "/var/lib/x", "journal_full": True, "shards": 1, "uptime_ms": 5000, "holders": 1}
        page = self.played([200, state], [429, {"error": {"code": "new_code", "message": HOSTILE, "next": "wait"}}])
        said = page.run("document.getElementById('notices').textContent")
        self.assertIn("The journal is full", said)
        self.assertNotIn("restored copy", said)
        self.assertIn(f"The server says: {HOSTILE}. Next: wait.", said)

    def test_a_user_sees_what_it_may_observe(self):
        with open(self.path("users"), "w", encoding="utf-8") as file:
            hashed = self.ok("server", "password", stdin="secret\n").stdout.strip()
            file.write(f"app password:{hashed} acquire:mine/* observe:mine/*\n")
        os.chmod(self.path("users"), 0o600)
        _, said = self.serve("--listen", "127.0.0.1:0", "--journal", "memory:", "--http", "127.0.0.1:0", "--users",
                             self.path("users"))
        self.origin = "http://" + said["http"]
        page = browser.Page(self.browser)
        self.pages.append(page)
        page.call("Network.setExtraHTTPHeaders", headers={"Authorization": "Basic YXBwOnNlY3JldA=="})
        page.open(self.origin + "/")
        page.until("document.getElementById('notices')?.textContent.includes('The locks are not shown')")
        self.picture(page, "no-right")
        page.run("document.getElementById('prefix').focus()")
        page.type("mine/")
        page.until("!document.getElementById('empty').hidden")
        said = page.run("document.getElementById('notices').textContent")
        self.assertIn("The state of the server is not shown", said)
        self.assertNotIn("The locks are not shown", said)


class HostileTest(ConsoleCase):
    def test_texts_of_others_stay_texts(self):
        for name in (HOSTILE, SCRIPT, TURNED, "."):
            self.acquire(name, owner=HOSTILE, reason=SCRIPT)
            self.acquire(name + "x", owner=TURNED)
        page = self.page()
        page.until("document.querySelectorAll('#rows tr').length === 8")
        names = page.run("[...document.querySelectorAll('.lock')].map(each => each.textContent)")
        self.assertIn(HOSTILE, names)
        self.assertIn(SCRIPT, names)
        self.assertIn("pay\\u{202e}gnp", names)
        self.assertEqual(page.run(ROW % json.dumps(HOSTILE))[1], HOSTILE)
        for name in (HOSTILE, "."):
            page.run(f"[...document.querySelectorAll('.lock')].find(e => e.textContent === {json.dumps(name)}).click()")
            page.until(f"document.getElementById('detail-name').textContent === {json.dumps(name)}")
            page.until("document.getElementById('detail').innerText.includes('window.evil')")
        self.assertIn("cannot be broken here", page.run("document.getElementById('holders').innerText"))
        self.assertEqual(page.run("document.querySelectorAll('img, iframe, body script').length"), 0)
        self.picture(page, "hostile")

    def test_the_policy_refuses_what_would_run_and_this_test_sees_it(self):
        page = self.page()
        self.pages.remove(page)
        for script in ("document.body.innerHTML = '<p>x'", "document.write('x')", "new Function('1')",
                       "document.body.setAttribute('onclick', 'window.evil=1')",
                       "document.createElement('script').text = 'window.evil=1'"):
            self.assertEqual(page.run(f"(() => {{ try {{ {script}; return 'done' }} catch {{ return 'refused' }} }})()"),
                             "refused", script)
        self.assertEqual(page.run("fetch('http://127.0.0.1:1/').then(() => 'done', () => 'refused')"), "refused")
        seen = page.judge()
        self.assertGreaterEqual(len(seen["troubles"]), 5, seen)
        self.assertIsNone(page.run("window.evil ?? null"))


class BreakTest(ConsoleCase):
    def test_a_break_by_keyboard_wants_a_reason_and_frees_the_lock(self):
        token = self.acquire("orders/17", "nightly export")["token"]
        page = self.page(scheme="dark")
        page.until(ROW % '"orders/17"')
        self.tab_to(page, "orders/17")
        page.press("Enter")
        page.until("document.querySelector('#holders button') !== null")
        self.tab_to(page, "Break")
        page.press("Enter")
        page.until("document.getElementById('break').open")
        self.assertEqual(page.run(FOCUSED), "break-reason")
        self.assertIn(token, page.run("document.getElementById('break').innerText"))
        self.assertEqual(self.see("orders/17")["holders"][0]["token"], token)
        page.type("   ")
        page.press("Enter")
        page.until("document.getElementById('break-error').textContent")
        self.assertEqual(page.run("document.getElementById('break-reason').getAttribute('aria-invalid')"), "true")
        page.type("its host has gone")
        for _ in range(12):  # The dialog keeps the focus; the browser's own bar counts as the body.
            page.press("Tab")
            self.assertTrue(page.run("document.activeElement === document.body || "
                                     "document.getElementById('break').contains(document.activeElement)"))
        self.picture(page, "break-dark")
        page.press("Escape")
        page.until("!document.getElementById('break').open")
        self.assertIn("Break", page.run("document.activeElement.textContent"))
        self.assertFalse(page.run("document.getElementById('detail').hidden"), "Escape closes one thing at a time")
        page.press("Enter")
        page.until("document.getElementById('break').open")
        page.type("its host has gone")
        page.press("Tab")
        page.type("ops")
        page.press("Enter")
        page.until("!document.getElementById('break').open")
        page.until("document.getElementById('notices').textContent.includes('is broken')")
        seen = self.see("orders/17")
        self.assertEqual(seen["holders"], [])
        self.assertEqual(seen["last_break"], {"token": token, "by": "ops", "reason": "its host has gone"})
        page.until("document.getElementById('last-break').innerText.includes('its host has gone')")
        self.ok("run", "--no-wait", "orders/17", "--", "true")

    def test_a_break_that_comes_late_says_so_and_hits_nobody_else(self):
        token = self.acquire("job", "first")["token"]
        page = self.page()
        page.until(ROW % '"job"')
        page.run("document.querySelector('.lock').click()")
        page.until("document.querySelector('#holders button') !== null")
        page.run("document.querySelector('#holders button').click()")
        self.post("job", "break", token=token, reason="faster")
        second = self.acquire("job", "second")["token"]
        page.until("document.getElementById('holders').innerText.includes('second')")
        page.type("slower")
        page.press("Enter")
        said = page.until("document.getElementById('break-error').textContent")
        self.assertIn("Nobody holds the lock with this token any more", said)
        self.assertEqual(self.see("job")["holders"][0]["token"], second)
        self.picture(page, "break-refused")


class LanguageTest(ConsoleCase):
    def test_chinese_is_spoken_and_the_choice_is_kept(self):
        self.fill()
        page = self.page(language="zh-CN", size=(1400, 860))
        page.until(ROW % '"orders/17"')
        self.assertEqual(page.run("document.documentElement.lang"), "zh-CN")
        self.assertEqual(page.run("document.getElementById('state').textContent"), "领导者")
        text = page.run("document.body.innerText")
        for word in ("持有者", "租约剩余", "令牌", "名称前缀", "暂停"):
            self.assertIn(word, text)
        page.run("[...document.querySelectorAll('.lock')].find(each => each.textContent === 'orders/17').click()")
        page.until("document.querySelectorAll('#queue li').length === 2")
        self.picture(page, "chinese")
        page.run("document.querySelector('#holders button').click()")
        self.picture(page, "chinese-break")
        page.press("Escape")
        page.run("""(() => { const list = document.getElementById("language");
            list.value = "en"; list.dispatchEvent(new Event("change")); })()""")
        self.assertEqual(page.run("document.documentElement.lang"), "en")
        self.assertIn("Lease left", page.run("document.body.innerText"))
        page.open(self.origin + "/")
        page.until("document.getElementById('state')?.textContent === 'Leads'")

    def test_both_languages_have_all_texts(self):
        page = self.page()
        texts = page.run("fetch('console/texts.js').then(answer => answer.text())")
        english, chinese = texts.split("  zh: {", 1)
        keys = [{line.split(":")[0].strip() for line in part.splitlines() if line.startswith("    ") and ": \"" in line}
                for part in (english, chinese.split("};", 1)[0])]
        self.assertGreater(len(keys[0]), 80)
        self.assertEqual(keys[0], keys[1])


if __name__ == "__main__":
    harness.main()
