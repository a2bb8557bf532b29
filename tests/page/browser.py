"""A headless Chromium, driven by the DevTools protocol over a pipe. It collects what the console says,
what the content security policy refuses, and what the network refuses."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

LIMIT = 60
ARGUMENTS = [
    "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
    "--disable-dev-shm-usage", "--disable-extensions", "--disable-component-update", "--no-first-run",
    "--disable-background-networking", "--disable-sync", "--remote-debugging-pipe",
]


class Browser:
    def __init__(self, scripted=True):
        self.home = tempfile.mkdtemp(prefix="spoke-page-")
        to_read, self.to = os.pipe()
        self.at, to_write = os.pipe()
        # The two descriptors that the browser expects may be the ones of these pipes.
        moved = [os.dup(one) for one in (to_read, to_write)]
        high = [os.dup2(one, 50 + at, inheritable=True) for at, one in enumerate(moved)]

        def place():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        environment = dict(os.environ, HOME=self.home)
        self.process = subprocess.Popen(
            ARGUMENTS + ["--user-data-dir=" + self.home, "about:blank"],
            preexec_fn=place, close_fds=False, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for one in (to_read, to_write, *moved, *high):
            os.close(one)
        self.rest, self.number, self.session, self.heard = b"", 0, None, []
        self.complaints = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(part + ".enable")
        if not scripted:
            self.call("Emulation.setScriptExecutionDisabled", value=True)

    def read(self, until):
        while b"\0" not in self.rest:
            left = until - time.monotonic()
            ready, _, _ = select.select([self.at], [], [], max(left, 0))
            if not ready:
                raise TimeoutError("the browser is silent")
            piece = os.read(self.at, 1 << 16)
            if not piece:
                raise EOFError("the browser ended")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(message)
        self.note(message)
        return message

    def note(self, message):
        method, what = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([one.get("value") for one in what["args"]]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(what["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.complaints.append(what["entry"]["text"] + " " + what["entry"].get("url", ""))
        if method:
            self.heard.append(message)

    def call(self, method, **parameters):
        self.number += 1
        call = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            call["sessionId"] = self.session
        os.write(self.to, json.dumps(call).encode() + b"\0")
        until = time.monotonic() + LIMIT
        while True:
            message = self.read(until)
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(method + ": " + str(message["error"]))
                return message["result"]

    def until(self, method, condition=lambda what: True):
        until = time.monotonic() + LIMIT
        while True:
            for at, message in enumerate(self.heard):
                if message["method"] == method and condition(message["params"]):
                    del self.heard[:at + 1]
                    return message["params"]
            self.heard.clear()
            self.read(until)

    def size(self, width, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 720)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url):
        self.heard.clear()
        done = self.call("Page.navigate", url=url)
        if done.get("errorText"):
            raise RuntimeError(url + ": " + done["errorText"])
        self.until("Page.loadEventFired")

    def run(self, script):
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(json.dumps(done["exceptionDetails"])[:800])
        return done["result"].get("value")

    def key(self, key, code=0):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=code, nativeVirtualKeyCode=code)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path, full=False):
        done = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        with open(path, "wb") as file:
            file.write(base64.b64decode(done["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (EOFError, TimeoutError, BrokenPipeError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.at)
        shutil.rmtree(self.home, ignore_errors=True)
