"""Starts `msitctl web`, calls it, and records runs to show."""

import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from browser import Browser
from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import BIN_DIR, Daemon

TIMEOUT_S = 30
# Windows that views are shown in.
SIZES = {"phone": (360, 740), "laptop": (1280, 900), "wall": (3840, 2160)}
# Markup that would run if the page interpreted it.
MARKUP = "<img src=x onerror=document.title='pwned'>"


class Web:
    """A process of `msitctl web`."""

    def __init__(self, environment: dict[str, str], *flags: str) -> None:
        self.process = subprocess.Popen(
            [BIN_DIR / "msitctl", *flags],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert "#token=" in self.url, self.process.communicate(timeout=TIMEOUT_S)
        self.address, self.token = self.url.split("/#token=")
        self.port = int(self.address.rpartition(":")[2])

    def request(
        self, method: str, target: str, body: str = "", **fields: str | None
    ) -> http.client.HTTPResponse:
        """Sends a request, by default as the page does. None leaves a field out."""
        all_fields: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in fields.items()},
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, TIMEOUT_S)
        connection.putrequest(method, target, skip_host=True)
        for name, value in all_fields.items():
            if value is not None:
                connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body.encode())))
        connection.endheaders(body.encode())
        return connection.getresponse()

    def call(self, name: str, body: object = None, expect: int = 200) -> Any:
        """Makes a call of the page and returns its parsed answer."""
        response = self.request("POST", f"/api/v1/{name}", json.dumps(body or {}))
        text = response.read().decode()
        assert response.status == expect, text
        return json.loads(text)

    def stop(self) -> int:
        """Ends the process as Ctrl-C does, and returns its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(TIMEOUT_S)


@contextmanager
def serving(daemon: Daemon, *flags: str) -> Iterator[Web]:
    """Serves the page for a daemon within the block."""
    web = Web(
        {"MSITCTL_ENDPOINT": daemon.endpoint, "MSITD_ENDPOINT": daemon.endpoint},
        *("web", "--listen", "127.0.0.1:0", *flags),
    )
    try:
        yield web
    finally:
        if web.process.poll() is None:
            web.process.kill()
            web.process.wait(TIMEOUT_S)
        for stream in (web.process.stdout, web.process.stderr):
            assert stream is not None
            stream.close()


def record_run(daemon: Daemon, run: str, factor: float, ops: list[str]) -> None:
    """Records and seals a run of two tokens. From the third op on, values grow."""
    records = []
    for token in range(2):
        for i, op in enumerate(ops):
            value = (1.0 + i) * (factor if i >= 2 else 1.0)
            records.append(
                Record(
                    op,
                    b"".join(float32(value + k / 64) for k in range(64)),
                    [8, 8],
                    token=token,
                    sequence=token * len(ops) + i,
                    stack=f"model.py:{i} forward\ntrain.py:1 main",
                )
            )
    write(daemon.channel(), run, [Chunk(run, records, version=2).pack()])
    daemon.ctl("run", "seal", run)


OPS = ["embed", "layers.0.attn", "layers.0.mlp", f"layers.1.{MARKUP}", "head"]
ROWS = 2 * len(OPS)
FAILING = [2, 3, 4, 7, 8, 9]


def compared(daemon: Daemon) -> str:
    """Records two runs that differ, and returns the name of their comparison."""
    record_run(daemon, "golden", 1.0, OPS)
    record_run(daemon, "target", 3.0, OPS)
    name = daemon.ctl("-o", "name", "compare", "run", "golden", "target", expect=1)
    return name.stdout.strip()


def go(browser: Browser, view: str) -> None:
    """Goes to another view of the page that is open."""
    browser.run(f"location.hash={view!r}")


READY = "!document.querySelector('#main')?.textContent.startsWith('Loading')"


def opened(browser: Browser, web: Web, view: str = "#/") -> None:
    """Opens the page as the user does, and then a view."""
    browser.open(web.url)
    browser.wait("document.querySelector('.cards a')")
    if view != "#/":
        go(browser, view)
        browser.wait("!document.querySelector('.cards a')")
    browser.wait(READY)
