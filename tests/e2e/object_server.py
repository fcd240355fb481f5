"""A real S3 server on this machine, and one that misbehaves."""

import http.server
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ACCESS_KEY = "AKIDTESTTESTTEST"
SECRET_KEY = "hunter2hunter2hunter2hunter2"
BUCKET = "runs"
START_TIMEOUT_S = 60

IDENTITIES = f"""{{"identities": [{{"name": "test", "credentials":
 [{{"accessKey": "{ACCESS_KEY}", "secretKey": "{SECRET_KEY}"}}],
 "actions": ["Admin", "Read", "Write", "List", "Tagging"]}}]}}"""


def find_weed() -> str | None:
    """Returns the path of the server program, if it is installed."""
    beside = str(Path(sys.executable).parent)
    return os.environ.get("MSITD_WEED") or shutil.which(
        "weed", path=f"{beside}:{os.environ['PATH']}"
    )


def free_ports(count: int) -> list[int]:
    """Returns free ports such that the ports 10,000 higher are also free."""
    ports: list[int] = []
    sockets: list[socket.socket] = []
    try:
        while len(ports) < count:
            low = socket.socket()
            high = socket.socket()
            sockets += [low, high]
            low.bind(("127.0.0.1", 0))
            port = low.getsockname()[1]
            if port > 55000:
                continue
            try:
                high.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
            ports.append(port)
    finally:
        for one in sockets:
            one.close()
    return ports


class Weed:
    """A SeaweedFS server that stores its objects in a folder, in up to 20 volumes."""

    def __init__(self, folder: Path, volume_mib: int = 128) -> None:
        self.folder = folder
        self._volume_mib = volume_mib
        self.ports = free_ports(4)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.ports[3]}"

    def start(self) -> None:
        """Starts the server, waits until it is serving, and creates the bucket."""
        program = find_weed()
        assert program is not None
        config = self.folder / "s3.json"
        config.write_text(IDENTITIES)
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        master, volume, filer, s3 = self.ports
        with open(self.folder / "weed.log", "ab") as log:
            self.process = subprocess.Popen(
                [
                    program,
                    "server",
                    f"-dir={data}",
                    "-ip=127.0.0.1",
                    "-ip.bind=127.0.0.1",
                    f"-master.port={master}",
                    f"-volume.port={volume}",
                    f"-filer.port={filer}",
                    "-filer",
                    "-s3",
                    f"-s3.port={s3}",
                    f"-s3.config={config}",
                    # Their default ports may be used by other servers.
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    # It answers 500 while it makes another volume.
                    "-volume.max=20",
                    f"-master.volumeSizeLimitMB={self._volume_mib}",
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._made_bucket():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.2)

    def _made_bucket(self) -> bool:
        made = self.curl("-X", "PUT", f"{self.endpoint}/{BUCKET}")
        return made.stdout.endswith("200") or made.stdout.endswith("409")

    def curl(self, *args: str) -> "subprocess.CompletedProcess[str]":
        """Makes a signed request; the status code is at the end of stdout."""
        return subprocess.run(
            [
                "curl",
                "-s",
                "-w",
                "%{http_code}",
                "--noproxy",
                "*",
                "--aws-sigv4",
                "aws:amz:us-east-1:s3",
                "--user",
                f"{ACCESS_KEY}:{SECRET_KEY}",
                "-H",
                "x-amz-content-sha256: UNSIGNED-PAYLOAD",
                *args,
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def log(self) -> str:
        """Returns all output of the server."""
        return (self.folder / "weed.log").read_text(errors="replace")

    def stop(self) -> None:
        """Kills the server."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


@dataclass
class Faults:
    """Faults that a BadServer applies to its requests."""

    # Called with the method and the number of the request. Returns a status
    # code to answer with, "cut" to truncate the answer, or None to serve the
    # request.
    choose: Callable[[str, int], "int | str | None"] = lambda method, number: None
    delay_s: float = 0
    hold: Callable[[str], None] | None = None  # Called with the path; may wait.
    bytes_max: int | None = None  # That the bucket takes; then 507.
    ignores_absence: bool = False  # Puts an object although it is there.
    # Changes the answer to a list request.
    rewrite_list: Callable[[bytes], bytes] = lambda body: body
    modified: str = "Sat, 01 Jan 2022 00:00:00 GMT"  # Of all objects.
    requests: list[tuple[str, str]] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)


class _HttpServer(http.server.ThreadingHTTPServer):
    """Listens on a free port; one thread serves each connection."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(("127.0.0.1", 0), _BadHandler)
        self.faults = faults
        self.lock = threading.Lock()


class _BadHandler(http.server.BaseHTTPRequestHandler):
    """Serves one request to a BadServer, or fails as its faults demand."""

    server: "_HttpServer"
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Suppresses log output."""

    def answer(self, code: int, body: bytes = b"", length: int | None = None) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("Last-Modified", self.server.faults.modified)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        with self.server.lock:
            self.server.faults.requests.append((self.command, self.path))
            choice = self.server.faults.choose(
                self.command, len(self.server.faults.requests)
            )
        time.sleep(self.server.faults.delay_s)
        if self.server.faults.hold is not None:
            self.server.faults.hold(self.path)
        if isinstance(choice, int):
            self.answer(choice)
            return
        if choice == "cut":
            self.close_connection = True
            # The answer to HEAD has no body that could be truncated.
            if self.command != "HEAD":
                self.answer(200, b"x", 1000)
            return
        if self.command == "PUT":
            self.put(body)
        elif self.path.find("?") >= 0:
            self.list()
        else:
            self.get()

    def put(self, body: bytes) -> None:
        with self.server.lock:
            held = sum(map(len, self.server.faults.objects.values()))
            if (
                self.headers.get("If-None-Match")
                and self.path in self.server.faults.objects
                and not self.server.faults.ignores_absence
            ):
                self.answer(412)
            elif (
                self.server.faults.bytes_max is not None
                and held + len(body) > self.server.faults.bytes_max
            ):
                self.answer(507)
            else:
                self.server.faults.objects[self.path] = body
                self.answer(200)

    def get(self) -> None:
        body = self.server.faults.objects.get(self.path)
        if body is None:
            self.answer(404)
            return
        area = self.headers.get("Range")
        if self.command == "HEAD":
            self.answer(200, b"", len(body))
        elif area is None:
            self.answer(200, body)
        else:
            first, last = map(int, area.removeprefix("bytes=").split("-"))
            if first >= len(body):
                self.answer(416)
            else:
                self.answer(206, body[first : last + 1])

    def list(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        prefix = dict(urllib.parse.parse_qsl(url.query)).get("prefix", "")
        names = set()
        for path in list(self.server.faults.objects):
            key = path.removeprefix(f"{url.path}/")
            if key.startswith(prefix):
                rest = key.removeprefix(prefix)
                names.add(rest.partition("/")[0] + "/" * ("/" in rest))
        found = "".join(
            f"<CommonPrefixes><Prefix>{prefix}{name}</Prefix></CommonPrefixes>"
            if name.endswith("/")
            else f"<Contents><Key>{prefix}{name}</Key></Contents>"
            for name in sorted(names)
        )
        whole = f"<ListBucketResult>{found}</ListBucketResult>".encode()
        self.answer(200, self.server.faults.rewrite_list(whole))

    do_GET = do_HEAD = do_PUT = serve

    def do_DELETE(self) -> None:
        self.server.faults.objects.pop(self.path, None)
        self.answer(204)


class BadServer:
    """Stores objects in memory, accepts any key, and fails as the test sets."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.server = _HttpServer(self.faults)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def endpoint(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def stop(self) -> None:
        """Stops the server."""
        self.server.shutdown()
        self.server.server_close()
