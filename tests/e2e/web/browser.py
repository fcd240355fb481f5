"""Drives a headless Chromium by the DevTools protocol over a pair of pipes."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-headless-shell")
# Set by the lane of tests/run that installs a browser.
IS_REQUIRED = "MSITD_REQUIRE_BROWSER" in os.environ
TIMEOUT_S = 60

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
    *("--no-first-run", "--disable-background-networking", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars"),
)


class Browser:
    """A browser with one page."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        reads, self._commands = os.pipe()
        self._answers, writes = os.pipe()
        # Their numbers may be those of the other one.
        child_reads, child_writes = (
            fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (reads, writes)
        )
        os.close(reads)
        os.close(writes)
        self.profile = folder / "profile"
        command = (CHROMIUM, *FLAGS, f"--user-data-dir={self.profile}", "about:blank")
        self.process = subprocess.Popen(
            # The shell gives the pipes the numbers that Chromium expects.
            [
                "bash",
                "-c",
                f'exec "$@" 3<&{child_reads} 4>&{child_writes}',
                "-",
                *command,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(child_reads, child_writes),
        )
        os.close(child_reads)
        os.close(child_writes)
        self._number = 0
        self._buffer = b""
        # Addresses of all requests, and errors of the page.
        self.requests: list[str] = []
        self.errors: list[str] = []
        targets = self._send("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self._send("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def _send(
        self, method: str, session: str | None = None, **parameters: object
    ) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {
            "id": self._number,
            "method": method,
            "params": parameters,
        }
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    def send(self, method: str, **parameters: object) -> dict[str, Any]:
        """Calls a method of the protocol for the page, and returns its result."""
        return self._send(method, self._session, **parameters)

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert time.monotonic() < deadline, "the browser does not answer"
            data = os.read(self._answers, 1 << 16)
            assert data, "the browser has ended"
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        self._see(message)
        return message

    def _see(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"]))
        elif message.get("method") == "Log.entryAdded":
            entry = parameters["entry"]
            if entry["level"] == "error":
                self.errors.append(entry["text"])

    def show(self, width: int, height: int, scheme: str = "light") -> None:
        """Sets the size of the window and the color scheme."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def open(self, url: str) -> None:
        """Goes to an address."""
        self.send("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """Evaluates a script, waits for its promise, and returns the value."""
        result = self.send(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, condition: str, timeout_s: float = TIMEOUT_S) -> Any:
        """Waits until a script has a value that is true, and returns it."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                # An element has no value outside of the browser.
                value = self.run(f"(v=>v instanceof Node||v)({condition})")
            except AssertionError as error:
                # The page is being replaced by another one.
                if "navigated" not in str(error) and "context" not in str(error):
                    raise
                value = None
            if value:
                return value
            if time.monotonic() > deadline:
                text = self.run("document.body.innerText.slice(0, 2000)")
                raise AssertionError((condition, text, self.errors))
            time.sleep(0.02)

    def key(self, key: str, text: str = "") -> None:
        """Presses and releases a key."""
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38}
        codes |= {"ArrowLeft": 37, "ArrowRight": 39}
        named = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0]))}
        if key == "Enter":
            text = "\r"
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        self.send("Input.dispatchKeyEvent", type="keyUp", **named)

    def picture(self, file: Path) -> None:
        """Writes a picture of the window."""
        data = self.send("Page.captureScreenshot", format="png")["data"]
        file.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        """Ends the browser."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)
        os.close(self._commands)
        os.close(self._answers)
