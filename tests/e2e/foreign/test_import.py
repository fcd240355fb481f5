"""Files of other tools, imported by `msitctl run import`."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import ge_dump
import numpy as np
import pytest
from names import tensor_name

from daemon import BIN_DIR, ROOT, Daemon

PARTIAL = 4
USAGE = 2
INTERRUPTED = 130
SEALED = 64 + 9
UNAVAILABLE = 64 + 14
TIMEOUT_S = 150
MIB = 1 << 20


def run_import(
    daemon: Daemon, *args: object, expect: int = 0, run: str = "r"
) -> dict[str, int]:
    """Imports into `run`; returns the counts."""
    words = ("run", "import", *map(str, args), "--run", run)
    result = daemon.ctl_json(*words, expect=expect)
    return {
        name.removesuffix("_count"): int(value)
        for name, value in result.items()
        if isinstance(value, (str, int)) and str(value).isdigit()
    }


def save(path: Path, array: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)
    return path


def read(daemon: Daemon, op: str, run: str = "r", **key: object) -> bytes:
    name = tensor_name(run, op, **key)
    return daemon.ctl(
        "tensor", "read", name, "--out", "-", "--format", "raw", binary=True
    ).stdout


def tensors(daemon: Daemon, run: str = "r") -> dict[str, dict[str, object]]:
    listed = daemon.ctl_json("tensor", "list", "--run", run)["tensors"]
    return {one["op"]: one for one in listed}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two arrays, and an archive with two more."""
    save(tmp_path / "tree/a.npy", np.arange(10, dtype=np.float32))
    save(tmp_path / "tree/deep/b.npy", np.ones((2, 3)))
    np.savez(tmp_path / "tree/z.npz", x=np.zeros(3), y=np.ones(4, dtype=np.int8))
    return tmp_path / "tree"


@pytest.mark.parametrize("door", ["shm", "unix", "tcp"])
def test_bytes_come_in_through_every_door(
    daemon: Daemon, tree: Path, tmp_path: Path, door: str
) -> None:
    large = np.random.default_rng(0).standard_normal(3 * MIB, dtype=np.float32)
    save(tree / "large.npy", large)
    endpoint = {
        "shm": f"unix:{daemon.socket_dir}",
        "unix": f"unix:{daemon.socket_dir}/msitd.sock",
        "tcp": daemon.endpoint,
    }[door]
    if door == "unix":
        (daemon.socket_dir / "ingest.sock").unlink()
    counts = run_import(daemon, "--endpoint", endpoint, tree)
    assert (counts["file"], counts["tensor"], counts["problem"]) == (4, 5, 0)
    assert read(daemon, "large") == large.tobytes()
    assert read(daemon, "deep/b") == np.ones((2, 3)).tobytes()
    assert tensors(daemon)["z/y"]["dtype"] == "D_TYPE_INT8"
    state = daemon.ctl_json("run", "get", "r")
    labels = {"source": "files", "order": "unknown"}
    assert (state["state"], state["labels"]) == ("SEALED", labels)


def test_second_import_brings_what_is_new(daemon: Daemon, tree: Path) -> None:
    assert run_import(daemon, tree, "--keep-open")["skipped_file"] == 0
    save(tree / "new.npy", np.zeros(2))
    counts = run_import(daemon, tree)
    assert (counts["skipped_file"], counts["file"]) == (3, 1)
    counts = run_import(daemon, tree)
    assert (counts["skipped_file"], counts["file"]) == (4, 0)
    save(tree / "newer.npy", np.zeros(2))
    result = daemon.ctl("run", "import", str(tree), "--run", "r", expect=SEALED)
    assert "run r is sealed" in result.stderr
    run = daemon.ctl_json("run", "get", "r")["counters"]
    assert (int(run["tensor_count"]), int(run["duplicate_count"])) == (5, 0)


def test_ledger_that_is_lost_makes_no_conflict(daemon: Daemon, tree: Path) -> None:
    run_import(daemon, tree, "--keep-open")
    daemon.ctl("run", "detach", "r", "import-ledger.jsonl")
    counts = run_import(daemon, tree)
    assert (counts["tensor"], counts["conflict"]) == (4, 0)
    run = daemon.ctl_json("run", "get", "r")["counters"]
    assert (int(run["tensor_count"]), int(run["duplicate_count"])) == (4, 4)


def test_file_that_changed_is_a_conflict(daemon: Daemon, tree: Path) -> None:
    run_import(daemon, tree, "--keep-open")
    before = read(daemon, "a")
    save(tree / "a.npy", np.arange(10, dtype=np.float32) + 1)
    counts = run_import(daemon, tree, expect=PARTIAL)
    assert counts["conflict"] == 1
    assert read(daemon, "a") == before


def test_files_that_conflict_are_named(daemon: Daemon, tmp_path: Path) -> None:
    for folder, number in (("one", 1.0), ("two", 2.0)):
        save(tmp_path / folder / "same.npy", np.zeros(3))
        save(tmp_path / folder / "other.npy", np.full(3, number))
    paths = [str(tmp_path / folder) for folder in ("one", "two")]
    result = daemon.ctl("run", "import", *paths, "--run", "r", expect=PARTIAL)
    assert "1 conflicts" in result.stdout
    assert (
        f"{paths[1]}/other.npy: tensor other was already imported from {paths[0]}"
        in result.stderr
    )


def test_file_that_is_still_written_comes_later(daemon: Daemon, tree: Path) -> None:
    whole = (tree / "a.npy").read_bytes()
    for cut in (0, 60, len(whole) - 1):
        (tree / "a.npy").write_bytes(whole[:cut])
        result = daemon.ctl("run", "import", str(tree), "--run", "r", expect=PARTIAL)
        assert f"{tree}/a.npy: " in result.stderr
        assert "stays open" in result.stderr, cut
    (tree / "a.npy").write_bytes(whole)
    counts = run_import(daemon, tree)
    assert (counts["file"], counts["skipped_file"]) == (1, 2)
    assert read(daemon, "a") == whole[-40:]
    assert daemon.ctl_json("run", "get", "r")["state"] == "SEALED"


def test_problems_are_listed_and_counted_by_reason(daemon: Daemon, tree: Path) -> None:
    for i in range(30):
        (tree / f"note{i}.txt").write_text("hello")
    (tree / "pipe").symlink_to("/dev/zero")
    result = daemon.ctl("run", "import", str(tree), "--run", "r", expect=PARTIAL)
    assert result.stdout.startswith("imported 3 files of files into r: 4 tensors")
    assert result.stdout.endswith("0 skipped, 31 problems\n")
    lines = [
        line
        for line in result.stderr.splitlines()
        if not line.startswith("the files do not record")
    ]
    assert lines[20] == "31 problems in total:"
    assert sum(int(line.split()[0]) for line in lines[21:]) == 31
    # None of them can be repaired later.
    assert daemon.ctl_json("run", "get", "r")["state"] == "SEALED"


def test_odd_names_come_in_or_are_problems(daemon: Daemon, tree: Path) -> None:
    odd = ["a b", "new\nline", "\u6ce8\u610f", "%20", "-dash", "x" * 200]
    for name in odd:
        save(tree / f"odd/{name}.npy", np.zeros(1))
    good = (tree / "a.npy").read_bytes()
    (Path(os.fsdecode(os.fsencode(tree) + b"/odd/\xff.npy"))).write_bytes(good)
    result = daemon.ctl("run", "import", str(tree), "--run", "r", expect=PARTIAL)
    assert "\\xff" in result.stderr
    assert {f"odd/{name}" for name in odd} < tensors(daemon).keys()
    again = run_import(daemon, tree, expect=PARTIAL)
    assert (again["skipped_file"], again["problem"]) == (9, 1)


def test_names_that_a_file_has_twice_are_problems(
    daemon: Daemon, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.zeros(3), torch.ones(3)
    torch.save({"a.b": x, "a": {"b": y}}, tmp_path / "t.pt")
    for _ in range(2):
        words = ("run", "import", str(tmp_path / "t.pt"), "--run", "r")
        told = daemon.ctl(*words, expect=PARTIAL)
        assert "t.pt: a.b: the file contains another tensor of this name" in told.stderr
        assert "conflict" not in told.stdout
    assert len(tensors(daemon)) == 1


def test_run_of_others_is_refused(daemon: Daemon, tree: Path, tmp_path: Path) -> None:
    run_import(daemon, tree, "--keep-open")
    daemon.ctl("run", "create", "fx", "--label", "source=fx")
    refused = daemon.ctl("run", "import", str(tree), "--run", "fx", expect=USAGE)
    assert "has files of format fx" in refused.stderr
    daemon.ctl("run", "import", str(tree), "--run", "r", "--world-size", "3", expect=2)
    daemon.ctl("run", "import", str(tree), expect=USAGE)
    daemon.ctl("run", "import", str(tree), "--run", "x", "--source", "no", expect=2)
    daemon.ctl("run", "import", str(tmp_path / "none"), "--run", "x", expect=3)
    assert "x" not in daemon.ctl("run", "list", "-o", "name").stdout.split()


def test_run_of_a_job_is_refused(daemon: Daemon, tree: Path) -> None:
    msitd = pytest.importorskip("msitd")
    with msitd.Client("job", endpoint=f"unix:{daemon.socket_dir}") as client:
        client.record(np.zeros(1), op="op")
        client.flush(TIMEOUT_S)
    refused = daemon.ctl("run", "import", str(tree), "--run", "job", expect=USAGE)
    assert "were not imported" in refused.stderr


def test_ranks_come_one_by_one_into_one_run(daemon: Daemon, tree: Path) -> None:
    flags = ["--device", "npu:7", "--prefix", "left.", "--token", "5"]
    run_import(daemon, tree, "--rank", 0, "--world-size", 2, "--keep-open")
    run_import(daemon, tree, "--rank", 1, *flags)
    run = daemon.ctl_json("run", "get", "r")
    assert (run["world_size"], int(run["counters"]["tensor_count"])) == (2, 8)
    assert read(daemon, "left.a", rank=1, device="npu:7", token=5) == read(daemon, "a")


def write_ge(folder: Path, ops: int, tokens: int) -> None:
    """Writes a tree of TorchAir's graph mode with two ranks."""
    for rank in range(2):
        for token in range(tokens):
            graph = folder / f"worldsize2_global_rank{rank}/20251001120000/{rank}"
            dumps = graph / f"graph_1/1/{token}"
            dumps.mkdir(parents=True)
            for op in range(ops):
                value = np.full((2, 4), 100 * rank + 10 * token + op, np.float32)
                tensor = ge_dump.Dumped(1, ge_dump.ND, (2, 4), (2, 4), value.tobytes())
                name = f"MatMul.op{op}.{op}.1.{1759312800000000 + op}"
                ge_dump.write(dumps / name, [tensor], [tensor])


def test_dumps_of_torchair_become_a_run_of_two_ranks(
    daemon: Daemon, tmp_path: Path
) -> None:
    write_ge(tmp_path / "ge", 3, 2)
    counts = run_import(daemon, tmp_path / "ge")
    assert (counts["file"], counts["tensor"], counts["problem"]) == (12, 24, 0)
    run = daemon.ctl_json("run", "get", "r")
    assert (run["world_size"], run["labels"]) == (2, {"source": "ge"})
    listed = daemon.ctl_json("tensor", "list", "--run", "r")["tensors"]
    # All dumps of the writer have the same op, so they are calls of it.
    keys = {
        (int(t["rank"]), int(t["token"]), int(t.get("call", 0)), t["io"])
        for t in listed
    }
    assert keys == {
        (rank, token, call, io)
        for rank in range(2)
        for token in range(2)
        for call in range(3)
        for io in ("IO_INPUT", "IO_OUTPUT")
    }
    op = listed[0]["op"]
    got = read(daemon, op, rank=1, device="npu:1", token=1, call=2)
    assert np.frombuffer(got, np.float32).tolist() == [112.0] * 8
    assert run_import(daemon, tmp_path / "ge")["skipped_file"] == 12


def test_dump_that_became_another_call_is_a_problem(
    daemon: Daemon, tmp_path: Path
) -> None:
    write_ge(tmp_path / "ge", 2, 1)
    first = min((tmp_path / "ge").rglob("MatMul.op0.*"))
    first.rename(tmp_path / first.name)
    run_import(daemon, tmp_path / "ge", "--keep-open")
    (tmp_path / first.name).rename(first)
    # This file now precedes the other one, which was the first call.
    for _ in range(2):
        words = ("run", "import", str(tmp_path / "ge"), "--run", "r")
        told = daemon.ctl(*words, expect=PARTIAL).stderr
        assert "/MatMul.op1.1." in told
        assert (
            "was already imported as a different tensor; import into a new run" in told
        )


def write_ge_statistics(folder: Path, largest: float) -> Path:
    """Writes a tree of statistics that CANN wrote instead of dumps."""
    dumps = folder / "worldsize1_global_rank0/20251001120000/0/graph_1/1/0"
    dumps.mkdir(parents=True)
    for op in range(3):
        (dumps / f"MatMul.op{op}.{op}.1.{1759312800000000 + op}.csv").write_text(
            "Input/Output,Index,Data Size,Data Type,Format,Shape,"
            "Max Value,Min Value,Avg Value,Count\n"
            "Input,0,24,DT_FLOAT,ND,2x3,1.5,-2,0.25,6\n"
            f"Output,0,24,DT_FLOAT,ND,2x3,{largest if op == 1 else 1.5},-2,0.25,6\n"
        )
    return folder


def test_statistics_of_ge_are_compared(daemon: Daemon, tmp_path: Path) -> None:
    for run, largest in (("golden", 1.5), ("target", 2.5)):
        tree = write_ge_statistics(tmp_path / run, largest)
        counts = run_import(daemon, tree, "--source", "ge", run=run)
        assert (counts["statistics"], counts["problem"]) == (6, 0)
        assert run_import(daemon, tree, run=run)["skipped_file"] == 3
        state = daemon.ctl_json("run", "get", run)
        assert (state["state"], state["counters"]["statistics_count"]) == (
            "SEALED",
            "6",
        )
    told = daemon.ctl("compare", "run", "golden", "target", expect=1).stdout
    assert "statistics differ: max: target 2.5, golden 1.5" in told
    assert "op1 output/0" in told


def test_tensors_that_a_task_did_not_have_let_the_run_seal(
    daemon: Daemon, tmp_path: Path
) -> None:
    table = write_ge_statistics(tmp_path / "csv", 1.5)
    for file in table.rglob("*.csv"):
        with file.open("a") as rows:
            rows.write("Input,1,24,DT_FLOAT,ND,2x3,,,,\n")
    dumps = table.parent / "dumps"
    write_ge(dumps, 1, 1)
    (first, *_) = sorted(dumps.rglob("MatMul.*"))
    there = ge_dump.Dumped(1, ge_dump.ND, (1,), (1,), b"1234")
    absent = ge_dump.Dumped(1, ge_dump.ND, (1,), (1,), b"", 4, 0)
    ge_dump.write(first, [there, absent], [there])
    for run, tree, count in (("a", table, 9), ("b", table, 9), ("c", dumps, 1)):
        counts = run_import(daemon, tree, "--source", "ge", run=run)
        assert (counts["statistics"], counts["problem"]) == (count, 0)
        assert daemon.ctl_json("run", "get", run)["state"] == "SEALED"
    words = ("compare", "run", "a", "b", "--match", "none", "--rows", "all")
    told = daemon.ctl(*words, expect=4).stdout
    assert "partial: 3 of 9 rows could not be compared" in told
    assert "nothing but type and shape is known" in told


class Importer:
    """An import that runs in parallel with the test."""

    def __init__(self, daemon: Daemon, *args: object) -> None:
        self.process = subprocess.Popen(
            [BIN_DIR / "msitctl", "--endpoint", f"unix:{daemon.socket_dir}", "run"]
            + ["import", *map(str, args), "--run", "r", "-o", "json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def end(self) -> tuple[int, str, str]:
        out, error = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, out, error


@pytest.fixture
def many(tmp_path: Path) -> tuple[Path, list[str]]:
    """More than the memory of a client holds: 72 MB in 3000 files."""
    folder = tmp_path / "many"
    names = [f"f{i:05}" for i in range(3000)]
    for i, name in enumerate(names):
        save(folder / f"{name}.npy", np.full(6144, i, np.float32))
    return folder, names


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_import_that_is_ended_goes_on(
    daemon: Daemon, many: tuple[Path, list[str]], number: signal.Signals
) -> None:
    folder, names = many
    assert daemon.process is not None
    importer = Importer(daemon, folder)
    # Somewhere in the middle: a stopped daemon accepts no more.
    wait_for_tensors(daemon, 1)
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        importer.process.send_signal(number)
        code, _, _ = importer.end()
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert code in (-number, INTERRUPTED, 0)
    counts = run_import(daemon, folder)
    assert counts["file"] + counts["skipped_file"] == len(names)
    check_all(daemon, names)


def wait_for_tensors(daemon: Daemon, count: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        run = daemon.ctl("-o", "json", "run", "get", "r", expect=None)
        if run.returncode == 0:
            counters = json.loads(run.stdout)["counters"]
            if int(counters["tensor_count"]) >= count:
                return
        assert time.monotonic() < deadline
        time.sleep(0.01)


def check_all(daemon: Daemon, names: list[str]) -> None:
    """Checks that all files are in the run once, with their bytes."""
    run = daemon.ctl_json("run", "get", "r")
    assert int(run["counters"]["tensor_count"]) == len(names)
    assert int(run["counters"]["conflict_count"]) == 0
    listed = tensors(daemon)
    assert sorted(listed) == names
    assert all(
        one["summary"]["max"] == int(op[1:]) == one["summary"]["min"]
        for op, one in listed.items()
    )


def test_import_waits_for_a_daemon_that_starts_again(
    daemon: Daemon, many: tuple[Path, list[str]]
) -> None:
    folder, names = many
    importer = Importer(daemon, folder)
    wait_for_tensors(daemon, 1)
    daemon.kill()
    daemon.start()
    code, out, error = importer.end()
    assert code == 0, error
    assert int(json.loads(out)["tensor_count"]) == len(names)
    check_all(daemon, names)
    assert run_import(daemon, folder)["skipped_file"] == len(names)


def test_daemon_that_takes_nothing_ends_the_import(daemon: Daemon, tree: Path) -> None:
    run_import(daemon, tree, "--keep-open")
    save(tree / "more.npy", np.zeros(64 * MIB // 8))
    assert daemon.process is not None
    importer = Importer(daemon, tree, "--timeout", "5s")
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        code, _, error = importer.end()
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert code in (UNAVAILABLE, 64 + 4), error
    # Files that were not acknowledged are not in the ledger.
    assert run_import(daemon, tree)["file"] == 1
    assert read(daemon, "more") == bytes(64 * MIB)


def test_few_descriptors_are_enough(daemon: Daemon, tmp_path: Path) -> None:
    for i in range(300):
        save(tmp_path / f"many/{i}.npy", np.zeros(4))
    result = subprocess.run(
        ["bash", "-c", 'ulimit -n 32; exec "$0" "$@"', BIN_DIR / "msitctl"]
        + ["--endpoint", f"unix:{daemon.socket_dir}", "run", "import"]
        + [tmp_path / "many", "--run", "r"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "imported 300 files" in result.stdout


def blocks_of(page: str) -> list[tuple[str, str]]:
    """Returns the blocks of a page in order: the language, and the text."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_page_on_imports_shows_what_happens(daemon: Daemon, tmp_path: Path) -> None:
    page = (ROOT / "docs/import.md").read_text()
    environment = {
        **os.environ,
        "PATH": f"{BIN_DIR}:{os.environ['PATH']}",
        "MSITCTL_ENDPOINT": daemon.endpoint,
    }
    for folder in ("dump", "part"):
        (tmp_path / folder).mkdir()
    shown = 0
    for language, text in blocks_of(page):
        if language == "python":
            subprocess.run([sys.executable, "-c", text], cwd=tmp_path, check=True)
            continue
        commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
        printed = subprocess.run(
            [
                "bash",
                "-c",
                's=0; while read -r c; do echo "$ $c"; (exit "$s"); eval "$c"; s=$?; done',
            ],
            input="\n".join(commands) + "\n",
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        ).stdout
        assert printed == text
        shown += len(commands)
    assert shown >= 8
