"""The personal daemon: an ordinary user needs no step before the first command."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from people import IDLE_EXIT_S, UID, Person, make_person

from daemon import BIN_DIR

pytestmark = pytest.mark.skipif(
    os.path.exists("/run/msitd"), reason="this machine has a service"
)

UNREACHABLE = 64 + 14
NEITHER = "no msitd runs on this machine, neither a service nor a daemon of your own"

MODEL = """
import sys
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
model.to(getattr(torch, sys.argv[1]))(torch.ones(2, 8).to(getattr(torch, sys.argv[1])))
"""
RECORD = """
import time, sys, msitd, numpy
start = time.monotonic()
client = msitd.Client(run=sys.argv[1])
print(time.monotonic() - start)
client.record(numpy.ones(3, numpy.float32), op="x")
client.close()
"""


@pytest.fixture
def person() -> Iterator[Person]:
    yield from make_person()


@pytest.fixture
def root_only() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")


def names(person: Person) -> set[str]:
    listed = person.run("msitctl", "run", "list", "-o", "name").stdout
    return {line.removeprefix("runs/") for line in listed.split()}


def starts(person: Person) -> int:
    return person.log().count("server: start version=")


def test_the_first_minute_has_no_daemon_step(person: Person) -> None:
    (person.home / "model.py").write_text(MODEL)
    for run, dtype in (("golden", "float32"), ("bf16", "bfloat16")):
        words = ("msitctl", "exec", "--run", run, "--", sys.executable, "model.py")
        assert f"recorded {run}" in person.run(*words, dtype).stderr
    compared = person.run("msitctl", "compare", "run", "golden", "bf16")
    assert "PASS" in compared.stdout
    assert names(person) == {"golden", "bf16"}
    assert {path.name for path in person.home.iterdir()} == {
        *("model.py", ".config", ".local"),
    }
    assert (person.state / "store/segments").is_dir()
    assert person.state.stat().st_mode & 0o777 == 0o700
    assert starts(person) == 1


def test_a_client_starts_one_and_queries_find_it(person: Person) -> None:
    took = float(
        person.run(sys.executable, "-c", RECORD, "first").stdout.splitlines()[0]
    )
    assert took < 10, took
    text = "import msitd.query as q; print([r.name for r in q.connect().runs.list()])"
    assert person.python(text).stdout.strip() == "['first']"
    assert starts(person) == 1


def test_a_query_starts_one(person: Person) -> None:
    text = "import msitd.query as q; print(list(q.connect().runs.list()))"
    assert person.python(text).stdout.strip() == "[]"
    assert person.daemons()


def test_programs_in_c_start_one(person: Person) -> None:
    """The extension calls msit_open, here without the endpoint of the package."""
    text = """
from msitd import _msit
from msitd._core.vocabulary import IF_EXISTS_NUMBERS, OVERFLOW_NUMBERS
client = _msit.Client(
    None, "r", 0, 1, 10**6, None, 20_000, 5 * 10**6, "cpu:0", "test",
    OVERFLOW_NUMBERS["block"], IF_EXISTS_NUMBERS["fail"], None, 0,
)
print(client.open_code == _msit.OK, "" if client.open_code == 0 else _msit.last_error())
"""
    off = person.python(text, variables={"MSITD_START": "0"}).stdout
    assert off.startswith(f"False {NEITHER}, and none was started: MSITD_START is 0")
    assert person.python(text).stdout.strip() == "True"
    assert len(person.daemons()) == 1
    assert names(person) == {"r"}


def test_it_ends_when_it_is_idle_and_nothing_is_lost(person: Person) -> None:
    person.run(sys.executable, "-c", RECORD, "first")
    person.wait_for_end()
    assert f"stop idle_exit_s={IDLE_EXIT_S}" in person.log()
    assert not list(person.socket.parent.glob("*.sock*"))
    assert names(person) == {"first"}
    person.run(sys.executable, "-c", RECORD, "second")
    assert names(person) == {"first", "second"}
    assert starts(person) == 2


def test_it_does_not_end_while_a_client_is_open(person: Person) -> None:
    text = f"""
import time, msitd, numpy
with msitd.Client(run="long") as client:
    client.record(numpy.ones(3, numpy.float32), op="x", token=0)
    time.sleep({IDLE_EXIT_S} + 3)
    client.record(numpy.ones(3, numpy.float32), op="x", token=1)
"""
    person.python(text)
    assert starts(person) == 1
    listed = person.run("msitctl", "tensor", "list", "--run", "long", "-o", "csv")
    assert len(listed.stdout.splitlines()) == 3


def test_clients_that_arrive_while_it_ends_get_a_daemon(person: Person) -> None:
    person.configure("idle_exit_s = 1\n")
    recorded = set()
    end = time.monotonic() + 15
    pause = 0.9
    while time.monotonic() < end:
        name = f"r{len(recorded)}"
        person.run("msitctl", "run", "create", name)
        recorded.add(name)
        # The daemon ends about now.
        time.sleep(pause)
        pause = 0.9 if pause > 1.8 else pause + 0.1
    assert names(person) == recorded
    assert starts(person) > 1


def test_processes_that_start_it_at_once_get_one(person: Person) -> None:
    processes = [
        person.start(sys.executable, "-c", RECORD, f"r{number}") for number in range(4)
    ]
    processes += [person.start("msitctl", "node", "status") for _ in range(4)]
    processes += [person.start("msitd", "--personal") for _ in range(4)]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert len(person.daemons()) == 1
    assert starts(person) == 1
    assert names(person) == {"r0", "r1", "r2", "r3"}


def test_sockets_of_a_daemon_that_was_killed_do_not_matter(person: Person) -> None:
    person.run(sys.executable, "-c", RECORD, "first")
    (daemon,) = person.daemons()
    os.kill(daemon, signal.SIGKILL)
    while person.daemons():
        time.sleep(0.01)
    assert person.socket.exists()
    assert names(person) == {"first"}


def test_it_outlives_the_program_that_started_it(person: Person) -> None:
    person.configure("idle_exit_s = 600\n")
    text = """
import os, signal, msitd
client = msitd.Client(run="r")
os.killpg(0, signal.SIGKILL)
"""
    person.run(
        *(sys.executable, "-c", text),
        expect=-signal.SIGKILL,
        start_new_session=True,
    )
    assert names(person) == {"r"}
    (daemon,) = person.daemons()
    links = [path.readlink() for path in Path(f"/proc/{daemon}/fd").iterdir()]
    assert not [link for link in links if "pipe" in str(link)]
    assert starts(person) == 1


@pytest.mark.parametrize("how", ["flag", "variable", "file"])
def test_it_is_not_started_for_those_who_do_not_want_it(
    person: Person, how: str
) -> None:
    variables = {"MSITD_START": "0"} if how == "variable" else {}
    flags = ["--no-start"] if how == "flag" else []
    if how == "file":
        person.configure("start_on_demand = false\n")
    start = time.monotonic()
    done = person.run(
        *("msitctl", *flags, "run", "list"), expect=UNREACHABLE, variables=variables
    )
    assert time.monotonic() - start < 5
    assert {
        "flag": f"{NEITHER}, and none was started: --no-start was given",
        "variable": f"{NEITHER}, and none was started: MSITD_START is 0",
        "file": "your own daemon does not start: start_on_demand is false",
    }[how] in done.stderr
    assert not person.daemons()
    if how == "flag":
        return
    failed = person.python(
        "import msitd; msitd.Client(run='r')", expect=1, variables=variables
    )
    last = failed.stderr.splitlines()[-1]
    kinds = (
        "msitd._core.errors.MsitError: ",
        "msitd._core.personal.StartRefusedError: ",
    )
    assert last.startswith(kinds)
    execute = ("msitctl", "exec", "--run", "r", "--", "true")
    person.run(*execute, expect=125, variables=variables)
    private = ("msitctl", "exec", "--private", "--run", "r", "--", "true")
    person.run(*private, variables=variables)
    assert not person.daemons()


def test_a_process_of_a_service_starts_none(person: Person) -> None:
    place = person.folder / "journal"
    with open(place, "w") as journal:
        info = os.fstat(journal.fileno())
        command = ["sh", "-c", f"exec msitctl run list 2>{place}"]
        variables = {"JOURNAL_STREAM": f"{info.st_dev}:{info.st_ino}"}
        person.own()
        person.run(*command, expect=UNREACHABLE, variables=variables)
        assert "for a process of a service, MSITD_START=1" in place.read_text()
        person.run(*command, variables={**variables, "MSITD_START": "1"})


def test_root_starts_none_by_accident(person: Person, root_only: None) -> None:
    variables = {**person.environment, "MSITD_START": ""}
    command = [BIN_DIR / "msitctl", "run", "list"]
    for as_root in (person.folder, person.runtime, person.home):
        os.chown(as_root, 0, 0)
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == UNREACHABLE
    assert "for root, MSITD_START=1 has to allow it" in done.stderr
    variables["MSITD_START"] = "1"
    subprocess.run(command, env=variables, check=True, capture_output=True)
    assert person.daemons()
    person.wait_for_end()
    # Naming it is consent enough.
    variables |= {"MSITD_START": "", "MSITD_ENDPOINT": "personal"}
    subprocess.run(command, env=variables, check=True, capture_output=True)
    assert person.daemons()


def test_a_store_of_one_s_own_choice_needs_no_system_folder(person: Person) -> None:
    daemon = person.start("msitd", "--data-dir", "data")
    try:
        while not person.socket.exists():
            assert daemon.poll() is None, daemon.communicate()
            time.sleep(0.01)
        assert person.socket.parent.stat().st_mode & 0o777 == 0o700
        person.run(sys.executable, "-c", RECORD, "r")
        assert names(person) == {"r"}
        assert len(person.daemons()) == 1
        # It is the daemon of the user until it ends.
        assert str(person.socket.parent) in person.run("msitd", "--personal").stdout
    finally:
        daemon.terminate()
        daemon.communicate(timeout=30)
    assert not person.state.exists()
    assert names(person) == set()


def test_a_home_without_space(person: Person, root_only: None) -> None:
    person.state.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", person.state], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount")
    try:
        (person.state / "full").write_bytes(bytes(60 << 10))
        person.own()
        os.chown(person.state, UID, UID)
        failed = person.run("msitctl", "run", "list", expect=UNREACHABLE)
        assert "No space left on device" in failed.stderr
        assert "set XDG_STATE_HOME to a folder on a local disk" in failed.stderr
        person.wait_for_end()
        elsewhere = person.folder / "elsewhere"
        elsewhere.mkdir()
        person.own()
        person.environment["XDG_STATE_HOME"] = str(elsewhere)
        person.run("msitctl", "run", "list")
    finally:
        for daemon in person.daemons():
            os.kill(daemon, signal.SIGKILL)
        subprocess.run(["umount", "-l", person.state], check=True)


def test_a_home_that_cannot_be_written(person: Person) -> None:
    person.home.chmod(0o500)
    failed = person.run("msitctl", "run", "list", expect=UNREACHABLE)
    assert f"make the folder {person.state}: Permission denied" in failed.stderr
    assert "set XDG_STATE_HOME" in failed.stderr
    person.home.chmod(0o700)
    person.run("msitctl", "run", "list")


def test_no_home(person: Person) -> None:
    if not person.is_other:
        pytest.skip("the user has a home")
    variables = {"HOME": ""}
    failed = person.run(
        "msitctl", "run", "list", expect=UNREACHABLE, variables=variables
    )
    assert "there is no home folder for the store" in failed.stderr
    variables["XDG_STATE_HOME"] = str(person.folder / "state")
    (person.folder / "state").mkdir()
    person.own()
    person.run("msitctl", "run", "list", variables=variables)


def test_a_store_that_another_machine_uses(person: Person) -> None:
    """As in a home on a network: the sockets of the other daemon are not here."""
    sockets = person.folder / "there"
    sockets.mkdir()
    person.own()
    person.state.mkdir(parents=True)
    person.own()
    other = person.start(
        *("msitd", "--data-dir", str(person.state / "store")),
        *("--socket-dir", str(sockets)),
    )
    try:
        while not (sockets / "msitd.sock").exists():
            assert other.poll() is None, other.communicate()
            time.sleep(0.01)
        failed = person.run("msitctl", "run", "list", expect=UNREACHABLE)
        assert re.search(
            r"the store in \S+ is in use by another process.*XDG_STATE_HOME",
            failed.stderr,
        )
    finally:
        other.terminate()
        other.communicate(timeout=30)


def test_a_session_with_other_folders_says_where_the_daemon_is(
    person: Person,
) -> None:
    """As after a logout, or in a job of cron."""
    person.configure("idle_exit_s = 600\n")
    person.run(sys.executable, "-c", RECORD, "r")
    folder = person.socket.parent
    person.environment["XDG_RUNTIME_DIR"] = str(person.folder / "other")
    (person.folder / "other").mkdir()
    person.own()
    failed = person.run("msitctl", "run", "list", expect=UNREACHABLE)
    assert f"to use it too, set MSITD_ENDPOINT={folder}" in failed.stderr
    person.environment["MSITD_ENDPOINT"] = str(folder)
    assert names(person) == {"r"}
    running = person.state / "running"
    running.write_text(f"node7 {folder}\n")
    del person.environment["MSITD_ENDPOINT"]
    failed = person.run("msitctl", "run", "list", expect=UNREACHABLE)
    assert "your daemon on node7 uses it" in failed.stderr
    # Without its sockets, it ends.
    shutil.rmtree(folder)
    person.environment["XDG_RUNTIME_DIR"] = str(person.runtime)
    person.wait_for_end()
    assert names(person) == {"r"}


def test_sockets_are_never_in_the_home_folder(person: Person) -> None:
    """Without a folder for them, they are in /tmp."""
    if not person.is_other:
        pytest.skip("would use the daemon of the user who runs the tests")
    person.environment["XDG_RUNTIME_DIR"] = ""
    folder = Path(f"/tmp/msitd-{UID}")
    assert not folder.exists()
    try:
        assert f"unix:{folder}" in person.run("msitd", "--personal").stdout
        assert folder.stat().st_mode & 0o777 == 0o700
        person.run("msitctl", "run", "list")
        while folder.joinpath("msitd.sock").exists():
            time.sleep(0.05)
        os.chown(folder, 0, 0)
        failed = person.run("msitctl", "run", "list", expect=UNREACHABLE)
        assert f"{folder} belongs to user 0" in failed.stderr
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_who_may_not_enter_the_folder_of_the_service_hears_so(
    person: Person, root_only: None
) -> None:
    script = """
set -e
mount -t tmpfs none /run
mkdir -m 0750 /run/msitd
touch /run/msitd/msitd.sock
exec setpriv --reuid="$0" --regid="$0" --clear-groups "$@"
"""
    inside = ["unshare", "-m", "sh", "-c", script, str(UID)]
    if subprocess.run([*inside, "true"], check=False).returncode != 0:
        pytest.skip("cannot mount")
    environment = person.environment

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*inside, *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )

    expected = "not allowed to enter /run/msitd; ask an administrator to add you to the"
    done = run("msitctl", "run", "list")
    assert done.returncode == UNREACHABLE
    assert expected in done.stderr
    done = run("msitctl", "--endpoint", "/run/msitd/msitd.sock", "run", "list")
    assert expected in done.stderr
    done = run(sys.executable, "-c", "import msitd; msitd.Client(run='r')")
    assert expected in done.stderr
    # The remedy that needs no administrator.
    environment["MSITD_ENDPOINT"] = "personal"
    assert run("msitctl", "run", "list").returncode == 0


DUMP = """
import sys, torch
from torch import nn
from msitd.llm import DumpConfig, register_hook
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
handle = register_hook(model, DumpConfig(dump_path="dump", token_range=[0, 1]))
with torch.no_grad():
    for _ in range(2):
        model(torch.ones(2, 4))
handle.remove()
"""

PROBE = """
import torch
from torch import nn
from msitd.probe import PrecisionDebugger
debugger = PrecisionDebugger(dump_path="probe", task="tensor", level="L0", step=[0])
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
debugger.start(model=model)
model(torch.ones(2, 4))
debugger.stop()
debugger.step()
"""


def test_ranks_that_dump_share_one_daemon(person: Person) -> None:
    variables = {"WORLD_SIZE": "2", "MSITD_RUN": "dumped", "MASTER_PORT": "29511"}
    ranks = [
        person.start(
            *(sys.executable, "-c", DUMP), variables={**variables, "RANK": str(rank)}
        )
        for rank in range(2)
    ]
    for rank in ranks:
        out, err = rank.communicate(timeout=120)
        assert rank.returncode == 0, (out, err)
        assert "daemon of this process" not in err
    assert len(person.daemons()) == 1 and starts(person) == 1
    assert names(person) == {"dumped"}
    folders = list((person.home / "dump").glob("msit_dump_*/torch_tensors/cpu_*"))
    assert len(folders) == 2
    for folder in folders:
        assert len(list(folder.glob("*/*/*.pth"))) == 12
    # No store of another daemon is left in the folder.
    assert not list((person.home / "dump").glob(".msitd-*"))


def test_a_probe_uses_the_daemon_that_later_queries_find(person: Person) -> None:
    person.python(PROBE)
    assert starts(person) == 1
    assert len(names(person)) == 1
    assert list((person.home / "probe").glob("step0/rank*/dump.json"))


def test_a_user_who_starts_no_daemon_gets_the_folder(person: Person) -> None:
    done = person.python(DUMP, variables={"MSITD_START": "0"})
    assert "a daemon of this process" in done.stderr
    assert "MSITD_START is 0" in done.stderr
    assert not person.daemons()
    assert len(list((person.home / "dump").glob("*/torch_tensors/*/*/*/*.pth"))) == 12
    assert not list((person.home / "dump").glob(".msitd-*"))
