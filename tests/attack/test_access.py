"""Callers who try to access more than they may.

Other users are processes with another user id, so these tests require root.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from msitd.v1 import run_service_pb2, run_service_pb2_grpc

from daemon import BIN_DIR, ROOT, Daemon

ALICE, BOB, STRANGER = 50_001, 50_002, 50_003
GROUP = 50_000
DENIED = 64 + 7

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs other users")


class User:
    """Runs msitctl as another user."""

    def __init__(self, daemon: Daemon, folder: Path, uid: int, *groups: int) -> None:
        self.daemon = daemon
        self.program = folder / "msitctl"
        self.groups = ",".join(str(group) for group in groups)
        self.uid = uid

    def __call__(self, *words: str) -> "subprocess.CompletedProcess[str]":
        groups = ["--groups", self.groups] if self.groups else ["--clear-groups"]
        return subprocess.run(
            ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", *groups]
            + [self.program, "--endpoint", f"unix:{self.daemon.socket_dir}"]
            + ["--connect-timeout", "5s", *words],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )

    def may(self, *words: str) -> str:
        done = self(*words)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def may_not(self, reason: str, *words: str) -> None:
        done = self(*words)
        assert done.returncode == DENIED, (words, done.stdout, done.stderr)
        assert f"({reason})" in done.stderr


def give_to_group(daemon: Daemon) -> None:
    """Gives the sockets to a group, in a folder that all users may enter."""
    os.chown(daemon.socket_dir, 0, GROUP)
    # New sockets in the folder belong to its group.
    daemon.socket_dir.chmod(0o2755)
    shutil.copy(BIN_DIR / "msitctl", daemon.socket_dir / "msitctl")
    np.save(daemon.socket_dir / "a.npy", np.arange(8, dtype=np.float32))


@pytest.fixture
def shared(new_daemon: Callable[[], Daemon], tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose sockets belong to a group, in a folder that all users may
    enter.
    """
    daemon = new_daemon()
    give_to_group(daemon)
    daemon.start("--audit-file", str(tmp_path / "audit"))
    yield daemon


@pytest.fixture
def alice(shared: Daemon) -> User:
    return User(shared, shared.socket_dir, ALICE, GROUP)


@pytest.fixture
def bob(shared: Daemon) -> User:
    return User(shared, shared.socket_dir, BOB, GROUP)


def audit(shared: Daemon, tmp_path: Path, count: int) -> list[dict[str, str]]:
    """Returns the last `count` lines of the audit log once there are that many."""
    deadline = time.monotonic() + 10
    while True:
        lines = (tmp_path / "audit").read_text().splitlines()
        if len(lines) >= count or time.monotonic() > deadline:
            return [json.loads(line) for line in lines[-count:]]
        time.sleep(0.01)


def import_words(shared: Daemon, run: str) -> tuple[str, ...]:
    return ("run", "import", str(shared.socket_dir / "a.npy"), "--run", run)


def test_the_unit_keeps_users_apart_and_the_group_out() -> None:
    unit = (ROOT / "deploy/systemd/msitd.service").read_text().splitlines()
    # With PrivateUsers, all users except root and msitd would have the same
    # number.
    assert "PrivateUsers=no" in unit
    # The protection of PrivateUsers is achieved without it.
    assert {"CapabilityBoundingSet=", "NoNewPrivileges=yes"} <= set(unit)
    # The group may use only the sockets.
    assert {"StateDirectoryMode=0700", "RuntimeDirectoryMode=0750"} <= set(unit)


@needs_root
def test_runs_are_their_owners(
    shared: Daemon, alice: User, bob: User, tmp_path: Path
) -> None:
    alice.may(*import_words(shared, "hers"), "--keep-open")
    assert json.loads(bob.may("-o", "json", "run", "get", "hers"))["owner"] == (
        f"uid:{ALICE}"
    )
    for words in (
        ("run", "delete", "hers", "--yes"),
        ("run", "seal", "hers"),
        ("run", "pin", "hers"),
        ("run", "retain", "hers", "--tokens", "1"),
        ("capture", "set", "--run", "hers", "--ops", "x"),
        ("run", "attach", "hers", str(shared.socket_dir / "a.npy")),
    ):
        bob.may_not("NOT_OWNER", *words)
        last = audit(shared, tmp_path, 1)[0]
        assert last["caller"] == f"uid:{BOB}"
        assert last["reason"] == "NOT_OWNER"
        assert last["target"].split()[0] == "hers"
    alice.may("run", "pin", "hers")
    alice.may("run", "delete", "hers", "--yes")
    assert audit(shared, tmp_path, 1)[0]["method"] == "RunService.DeleteRun"


@needs_root
@pytest.mark.parametrize("transport", ["shared memory", "grpc"])
def test_nobody_writes_into_the_run_of_another(
    new_daemon: Callable[[], Daemon], tmp_path: Path, transport: str
) -> None:
    daemon = new_daemon()
    give_to_group(daemon)
    np.save(daemon.socket_dir / "b.npy", np.arange(8, dtype=np.float32))
    daemon.start("--shared-memory", str(transport == "shared memory").lower())
    alice = User(daemon, daemon.socket_dir, ALICE, GROUP)
    bob = User(daemon, daemon.socket_dir, BOB, GROUP)
    alice.may(*import_words(daemon, "hers"), "--keep-open")
    done = bob("run", "import", str(daemon.socket_dir / "b.npy"), "--run", "hers")
    assert done.returncode != 0
    assert "NOT_OWNER" in done.stderr
    tensors = json.loads(bob.may("-o", "json", "tensor", "list", "hers"))["tensors"]
    assert [tensor["op"] for tensor in tensors] == ["a"]


@needs_root
def test_comparisons_are_their_owners(shared: Daemon, alice: User, bob: User) -> None:
    alice.may(*import_words(shared, "one"))
    bob.may(*import_words(shared, "two"))
    alice.may("compare", "run", "one", "two")
    name = json.loads(bob.may("-o", "json", "compare", "list"))["comparisons"][0][
        "name"
    ]
    bob.may_not("NOT_OWNER", "compare", "delete", name, "--yes")
    alice.may("compare", "delete", name, "--yes")


@needs_root
def test_strangers_do_not_get_in(shared: Daemon) -> None:
    stranger = User(shared, shared.socket_dir, STRANGER)
    assert stranger("run", "list").returncode != 0
    # Not even if the files are opened to all users.
    for name in ("msitd.sock", "ingest.sock"):
        (shared.socket_dir / name).chmod(0o666)
    refused = stranger("run", "list")
    assert refused.returncode != 0
    assert "needs the role reader; this user has the role none" in refused.stderr
    assert "no group of theirs has a role" in shared.log()
    done = stranger(*import_words(shared, "his"))
    assert done.returncode != 0
    assert shared.ctl("run", "list", "-o", "name").stdout == ""


@needs_root
def test_groups_have_roles(new_daemon: Callable[[], Daemon]) -> None:
    daemon = new_daemon()
    daemon.socket_dir.chmod(0o755)
    shutil.copy(BIN_DIR / "msitctl", daemon.socket_dir / "msitctl")
    np.save(daemon.socket_dir / "a.npy", np.arange(8, dtype=np.float32))
    daemon.start(
        *("--reader-groups", "60001", "--writer-groups", "60002"),
        *("--admin-groups", "60003", "--unix-role", "none"),
    )
    for name in ("msitd.sock", "ingest.sock"):
        (daemon.socket_dir / name).chmod(0o666)
    reader = User(daemon, daemon.socket_dir, ALICE, 60001)
    writer = User(daemon, daemon.socket_dir, BOB, 60002)
    admin = User(daemon, daemon.socket_dir, STRANGER, 60003)
    reader.may("run", "list")
    reader.may_not("ROLE_REFUSED", "run", "create", "r")
    assert reader(*import_words(daemon, "r")).returncode != 0
    writer.may(*import_words(daemon, "w"))
    reader.may("tensor", "list", "w")
    reader.may_not("ROLE_REFUSED", "run", "delete", "w", "--yes")
    writer.may_not("ROLE_REFUSED", "node", "diag", "--out", "/tmp/none.tar.gz")
    admin.may("run", "delete", "w", "--yes")


@needs_root
def test_users_who_take_turns_are_not_confused(
    shared: Daemon, alice: User, bob: User
) -> None:
    for i in range(8):
        for user in (alice, bob):
            user.may("run", "create", f"run-{user.uid}-{i}")
    runs = json.loads(alice.may("-o", "json", "run", "list"))["runs"]
    assert len(runs) == 16
    for run in runs:
        assert run["owner"] == f"uid:{run['name'].split('-')[1]}"


@needs_root
def test_one_user_keeps_no_other_out(shared: Daemon, alice: User, bob: User) -> None:
    """A user has one slot, however many connections it opens."""
    script = (
        "import os,socket,sys\n"
        f"os.setgroups([{GROUP}]); os.setgid({ALICE}); os.setuid({ALICE})\n"
        "held=[]\n"
        "for i in range(600):\n"
        "    s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "    s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'); held.append(s)\n"
        "print('held',flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        ["python3", "-c", script, shared.socket_dir / "msitd.sock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    bob.may("run", "create", "his")
    assert alice("run", "list").returncode != 0
    assert "connections are open" in shared.log()
    holder.communicate("", timeout=30)
    alice.may("run", "create", "hers")


@needs_root
def test_new_runs_are_not_kept_from_others(
    shared: Daemon, alice: User, bob: User
) -> None:
    """If another user has taken a name, the next name is used."""
    bob.may("run", "create", "r")
    bob.may("run", "create", "r-4294967295")
    script = (
        "import os,sys\n"
        f"os.setgroups([{GROUP}]); os.setgid({ALICE}); os.setuid({ALICE})\n"
        "import msitd, numpy\n"
        "c=msitd.Client(run='r', if_exists='new', endpoint='unix:'+sys.argv[1])\n"
        "c.record(numpy.ones(3), op='x'); c.flush(); print(c.run)\n"
    )
    for name in ("r-2", "r-3"):
        done = subprocess.run(
            [sys.executable, "-c", script, str(shared.socket_dir)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if "PermissionError" in done.stderr or "ModuleNotFound" in done.stderr:
            pytest.skip("another user cannot read the Python environment")
        assert done.stdout.strip() == name, done.stderr


def test_the_audit_says_what_was_read_and_made(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    daemon = new_daemon()
    daemon.start("--audit-file", str(tmp_path / "audit"))
    np.save(tmp_path / "a.npy", np.arange(8, dtype=np.float32))
    for run in ("one", "two"):
        daemon.ctl("run", "import", str(tmp_path / "a.npy"), "--run", run)
    daemon.ctl("compare", "run", "one", "two")
    name = daemon.ctl_json("tensor", "list", "one")["tensors"][0]["name"]
    daemon.ctl("tensor", "get", name, "--out", str(tmp_path / "out.npy"), expect=None)
    runs = run_service_pb2_grpc.RunServiceStub(daemon.channel())
    with pytest.raises(grpc.RpcError):
        runs.DeleteRun(run_service_pb2.DeleteRunRequest(run="\x01" * 400_000))
    daemon.stop()
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    by_method = {line["method"]: line for line in lines}
    assert (
        by_method["ComparisonService.CreateComparison"]["target"] == "c-000001 one two"
    )
    assert by_method["RunService.CreateRun"]["target"] == "two"
    assert by_method["RunService.DeleteRun"]["code"] == "NOT_FOUND"
    assert len(by_method["RunService.DeleteRun"]["target"]) == 512
    reads = [line for line in lines if line["method"].startswith("TensorService.Read")]
    assert all(line["target"] for line in reads)


def test_loopback_reads_unless_told_otherwise(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    daemon = new_daemon()
    daemon.start("--loopback-role", "reader", "--audit-file", str(tmp_path / "audit"))
    local = f"unix:{daemon.socket_dir}"
    daemon.ctl("--endpoint", local, "run", "create", "r")
    daemon.ctl("run", "list")
    for words in (
        ("run", "delete", "r", "--yes"),
        ("run", "create", "other"),
        ("run", "seal", "r"),
        ("capture", "set", "--run", "r", "--ops", "x"),
    ):
        done = daemon.ctl(*words, expect=DENIED)
        assert "(ROLE_REFUSED)" in done.stderr
    daemon.stop()
    refused = [
        line
        for line in map(json.loads, (tmp_path / "audit").read_text().splitlines())
        if line.get("reason") == "ROLE_REFUSED"
    ]
    assert [line["target"] for line in refused] == ["r", "other", "r", "r"]
    daemon.start("--loopback-role", "none")
    assert "(ROLE_REFUSED)" in daemon.ctl("run", "list", expect=DENIED).stderr


def test_lost_audit_lines_are_logged_at_once(
    new_daemon: Callable[[], Daemon],
) -> None:
    daemon = new_daemon()
    daemon.start("--audit-file", "/dev/full")
    daemon.ctl("run", "create", "r")
    deadline = time.monotonic() + 10
    while "audit lines are lost" not in daemon.log():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "No space left" in daemon.log()


def test_a_fifo_as_audit_file_fails_the_start(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "audit")
    daemon = new_daemon()
    begin = time.monotonic()
    with pytest.raises(Exception):  # noqa: B017
        daemon.start("--audit-file", str(tmp_path / "audit"))
    assert time.monotonic() - begin < 10
    assert "is not a regular file" in daemon.log()


def test_calls_are_bounded(new_daemon: Callable[[], Daemon]) -> None:
    daemon = new_daemon()
    daemon.start("--caller-calls-per-s", "5")
    runs = run_service_pb2_grpc.RunServiceStub(daemon.channel())
    refused = 0
    for _ in range(100):
        try:
            runs.ListRuns(run_service_pb2.ListRunsRequest(), timeout=10)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "caller_calls_per_s" in error.details()
            refused += 1
    assert 0 < refused <= 90
    # Other users do not have to wait for that.
    daemon.ctl("--endpoint", f"unix:{daemon.socket_dir}", "run", "list")


def test_ten_thousand_silent_connections(new_daemon: Callable[[], Daemon]) -> None:
    """They cost only descriptors, and are replaced by clients that send requests."""
    daemon = new_daemon()
    daemon.start()
    host, port = daemon.endpoint.rsplit(":", 1)
    with contextlib.ExitStack() as stack:
        refused = 0
        for _ in range(10_000):
            try:
                silent = stack.enter_context(
                    socket.create_connection((host, int(port)), timeout=10)
                )
            except OSError:
                refused += 1
                continue
            silent.setblocking(False)
            if len(os.listdir("/proc/self/fd")) > 900:
                stack.pop_all().close()
        assert refused == 0
        daemon.ctl("run", "create", "r")
    assert daemon.ctl("run", "list", "-o", "name").stdout == "r\n"


def test_names_do_not_lead_out_of_the_store(daemon: Daemon, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    np.save(tmp_path / "a.npy", np.arange(4, dtype=np.float32))
    for name in ("../../outside/x", "/etc/x", "..", ".", "a/../../../outside/y"):
        done = daemon.ctl(
            *("run", "import", str(tmp_path / "a.npy"), "--run", name), expect=None
        )
        if done.returncode != 0:
            continue
        # A name is text. Exports of the run stay in their folder.
        out = tmp_path / "out"
        daemon.ctl(
            "run", "export", name, "--format", "npy", "--out", str(out), expect=None
        )
    assert list(outside.iterdir()) == []
    inside = {path.resolve() for path in tmp_path.rglob("*")}
    assert all(path.is_relative_to(tmp_path.resolve()) for path in inside)


def test_links_in_a_tree_do_not_lead_out_of_it(daemon: Daemon, tmp_path: Path) -> None:
    secret = tmp_path / "secret.npy"
    np.save(secret, np.arange(4, dtype=np.float32))
    tree = tmp_path / "tree"
    tree.mkdir()
    np.save(tree / "mine.npy", np.arange(2, dtype=np.float32))
    (tree / "theirs.npy").symlink_to(secret)
    done = daemon.ctl("run", "import", str(tree), "--run", "r", expect=None)
    tensors = daemon.ctl_json("tensor", "list", "r")["tensors"]
    ops = sorted(tensor["op"] for tensor in tensors)
    assert ops == ["mine"], (ops, done.stderr)
