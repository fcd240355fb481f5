"""Which daemon a client uses."""

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msitd
import pytest
from msitd import query
from msitd._core import personal
from msitd._core.endpoints import (
    Surroundings,
    choose_endpoint,
    query_endpoint,
)
from msitd._core.errors import MsitError

TABLE = Path(__file__).parents[1] / "golden/endpoint/endpoint_rule.txt"
NEITHER = "no msitd runs on this machine, neither a service nor a daemon of your own"


def cases() -> list[list[str]]:
    lines = TABLE.read_text().splitlines()
    return [line.split() for line in lines if line and line[0] != "#"]


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose path leaves room for the path of a socket."""
    with tempfile.TemporaryDirectory(prefix="m", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("case", cases(), ids=" ".join)
def test_the_rule_follows_the_table(case: list[str], short_path: Path) -> None:
    given, first, second, service, runtime, origin, is_default, endpoint = case
    uid = os.geteuid()
    for name in ("service", "runtime", "users"):
        (short_path / name).mkdir()
    if service != "none":
        (short_path / "service" / service).touch()
    if runtime == "user":
        (short_path / "users" / str(uid)).mkdir()
    long = short_path / ("x" * 100)
    long.mkdir()
    runtimes = {
        "set": str(short_path / "runtime"),
        "missing": str(short_path / "missing"),
        "relative": ".",
        "long": str(long),
    }
    variables = {"XDG_RUNTIME_DIR": runtimes.get(runtime, "")}
    for name, value in (("MSITD_ENDPOINT", first), ("MSITCTL_ENDPOINT", second)):
        if value != "-":
            variables[name] = value
    around = Surroundings(
        variables,
        system_dir=str(short_path / "service"),
        runtime_root=str(short_path / "users"),
        temporary_root=str(short_path / "tmp"),
    )
    choice = choose_endpoint("" if given == "-" else given, around)
    for word, path in (
        ("UID", str(uid)),
        ("RUNTIME", str(short_path / "runtime")),
        ("USER", str(short_path / "users" / str(uid))),
        ("TMP", str(short_path / "tmp")),
        ("SERVICE", str(short_path / "service")),
    ):
        endpoint = endpoint.replace(word, path)
    assert choice.origin == origin
    assert choice.is_default == (is_default == "yes")
    assert choice.endpoint == endpoint


def test_every_spelling_leads_to_the_socket_of_queries(tmp_path: Path) -> None:
    expected = f"unix:{tmp_path}/msitd.sock"
    for spelling in (
        str(tmp_path),
        f"unix:{tmp_path}",
        f"{tmp_path}/ingest.sock",
        f"unix:{tmp_path}/msitd.sock",
    ):
        assert query_endpoint(spelling) == expected
    assert query_endpoint("dns:///node7:7741") == "node7:7741"


@pytest.mark.parametrize("value", ["0", "false", "No", "OFF"])
def test_a_variable_forbids_the_start(value: str) -> None:
    around = Surroundings({"MSITD_START": value}, uid=1000)
    assert "MSITD_START is" in personal.why_not_start(around)
    assert "MSITD_START is" in personal.why_not_start(around, is_named=True)


def test_root_and_services_need_permission() -> None:
    assert personal.why_not_start(Surroundings({}, uid=1000)) == ""
    assert "for root" in personal.why_not_start(Surroundings({}, uid=0))
    assert personal.why_not_start(Surroundings({}, uid=0), is_named=True) == ""
    info = os.fstat(2)
    for variables in (
        {"SYSTEMD_EXEC_PID": str(os.getpid())},
        {"JOURNAL_STREAM": f"{info.st_dev}:{info.st_ino}"},
    ):
        around = Surroundings(variables, uid=1000)
        assert "of a service" in personal.why_not_start(around)
        allowed = Surroundings({**variables, "MSITD_START": "1"}, uid=0)
        assert personal.why_not_start(allowed) == ""
    desktop = {"SYSTEMD_EXEC_PID": "1", "JOURNAL_STREAM": "1:2", "INVOCATION_ID": "a"}
    assert personal.why_not_start(Surroundings(desktop, uid=1000)) == ""


def test_the_folder_of_the_sockets_belongs_to_the_user(tmp_path: Path) -> None:
    folder = tmp_path / "msitd"
    uid = os.geteuid()
    assert personal.check_socket_dir(str(folder), uid) == ""
    folder.mkdir(mode=0o700)
    assert personal.check_socket_dir(str(folder), uid) == ""
    assert "belongs to user" in personal.check_socket_dir(str(folder), uid + 1)
    folder.chmod(folder.stat().st_mode | stat.S_IWOTH)
    assert "chmod 700" in personal.check_socket_dir(str(folder), uid)
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert "is not a folder" in personal.check_socket_dir(str(link), uid)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A user without a daemon. Returns the folder of the sockets."""
    if os.path.exists("/run/msitd"):
        pytest.skip("this machine has a service")
    for name in ("MSITD_ENDPOINT", "MSITCTL_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MSITD_ENDPOINT", "personal")
    monkeypatch.setattr(personal, "_run", lambda *_: None)
    folder = tmp_path / "sockets"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(
        "msitd._core.endpoints.personal_socket_dir", lambda _: str(folder)
    )
    yield folder


def test_without_a_daemon_clients_say_so_at_once(alone: Path) -> None:
    with pytest.raises(MsitError, match=f"{NEITHER}.*MSITD_START is 0"):
        msitd.Client(run="r")
    with query.connect() as daemon, pytest.raises(query.QueryError) as raised:
        list(daemon.runs.list())
    assert raised.value.code == "UNAVAILABLE"
    assert raised.value.message.startswith(NEITHER)


def test_a_stale_socket_is_no_daemon(alone: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(alone / "msitd.sock"))
        listener.listen()
        assert personal.is_listening(str(alone))
    assert not personal.is_listening(str(alone))
