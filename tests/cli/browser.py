"""Headless Chromium, driven by its DevTools protocol over two pipes. Nothing but Python's own library."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from harness import PATIENCE
from redis_server import die_with_parent

PROGRAM = next(filter(None, (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "there is no chromium: 'scripts/setup test' installs it"

# Code and key names for Input.dispatchKeyEvent, with the text that the key types.
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), "ArrowDown": (40, ""), "ArrowUp": (38, "")}


class Browser:
    """One browser with a profile of its own. close() ends it."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="holdfast-browser-")
        # Chromium reads commands from descriptor 3 and writes to 4.
        read_command, self.writer = os.pipe()
        self.reader, write_event = os.pipe()
        words = ["bash", "-c", f'exec "$@" 3<&{read_command} 4>&{write_event}', "bash", PROGRAM, "--headless",
                 "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "--no-first-run", "--disable-gpu",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 "--disable-dev-shm-usage", "--hide-scrollbars"]
        if os.geteuid() == 0:
            words.append("--no-sandbox")  # The sandbox cannot be made by root.
        self.log = open(os.path.join(self.profile.name, "log"), "w+", encoding="utf-8", errors="replace")
        env = {**os.environ, "HOME": self.profile.name, "TZ": "UTC"}
        self.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=env,
            pass_fds=(read_command, write_event), start_new_session=True, preexec_fn=die_with_parent)
        os.close(read_command)
        os.close(write_event)
        self.buffer = b""
        self.number = 0
        self.events = []

    def close(self):
        os.close(self.writer)  # It ends when nobody can command it.
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.reader)
        self.log.close()
        for _ in range(20):  # Its helpers may still write into the profile.
            try:
                return self.profile.cleanup()
            except OSError:
                time.sleep(0.2)

    def message(self, until):
        """The next answer or event."""
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.reader], [], [], left)[0]:
                raise AssertionError(f"the browser says nothing: {self.said()}")
            more = os.read(self.reader, 1 << 20)
            if not more:
                raise AssertionError(f"the browser has ended: {self.said()}")
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def said(self):
        self.log.seek(0)
        return self.log.read()[-1000:]

    def call(self, method, session=None, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if session:
            command["sessionId"] = session
        os.write(self.writer, json.dumps(command).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            said = self.message(until)
            if said.get("id") != self.number:
                self.events.append(said)
                continue
            if "error" in said:
                raise AssertionError(f"{method}: {said['error']}")
            return said["result"]


class Page:
    """A tab. Everything that a hostile page would do is in `requests`, `troubles` and `dialogs`."""

    def __init__(self, browser, language="en-US", scheme="light", size=(1280, 760)):
        self.browser = browser
        context = browser.call("Target.createBrowserContext")["browserContextId"]  # A storage of its own.
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.requests, self.troubles, self.dialogs = [], [], []
        for domain in ("Page", "Runtime", "Network", "Log", "Audits"):
            self.call(domain + ".enable")
        agent = self.run("navigator.userAgent")
        self.call("Emulation.setUserAgentOverride", userAgent=agent, acceptLanguage=language)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.resize(*size)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def run(self, script):
        """The value of an expression in the page, a promise's too."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True,
                         allowUnsafeEvalBlockedByCSP=False)
        if "exceptionDetails" in done:
            raise AssertionError(f"{script}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def open(self, url):
        self.call("Page.navigate", url=url)

    def until(self, script):
        """Waits for an expression to become true, and returns it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            value = self.run(script)
            if value:
                return value
            if time.monotonic() > deadline:
                text = self.run("document.body.innerText")
                raise AssertionError(f"not in {PATIENCE} s: {script}; the page: {text}; {self.judge()}")
            time.sleep(0.05)

    def press(self, key, shift=False):
        code, text = KEYS[key]
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path):
        picture = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture))

    def judge(self):
        """Sorts what has happened into the three lists, and returns them."""
        self.call("Runtime.evaluate", expression="0")  # Behind it are all events so far.
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, params = event["method"], event["params"]
            if method == "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            elif method == "Page.javascriptDialogOpening":
                self.dialogs.append(params["message"])
            elif method == "Runtime.exceptionThrown":
                self.troubles.append(str(params["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                self.troubles.append(str(params["args"]))
            elif method == "Audits.issueAdded" and "ContentSecurityPolicy" in params["issue"]["code"]:
                self.troubles.append(str(params["issue"]))
            elif method == "Log.entryAdded" and params["entry"]["source"] == "security":
                self.troubles.append(params["entry"]["text"])
        self.browser.events = [event for event in self.browser.events if event.get("sessionId") != self.session]
        return {"requests": self.requests, "troubles": self.troubles, "dialogs": self.dialogs}
