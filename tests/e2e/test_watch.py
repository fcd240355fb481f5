"""Folders of other tools, brought into a run by `msitctl watch` as they grow."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ge_dump
import numpy as np
import pytest

from daemon import BIN_DIR, Daemon

PARTIAL = 4
USAGE = 2
WAIT_S = 60
ND = ge_dump.ND
FLOAT32 = 1


class Watch:
    """A running `msitctl watch`."""

    def __init__(self, daemon: Daemon, folder: Path, *flags: str) -> None:
        self.process = subprocess.Popen(
            [BIN_DIR / "msitctl", "-o", "json", "watch", folder, "--run", "r", *flags],
            env={**os.environ, "MSITCTL_ENDPOINT": f"unix:{daemon.socket_dir}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def end(self, *, expect: int = 0, stop: bool = True) -> dict[str, Any]:
        """Stops it in good order; returns what it printed."""
        if stop:
            self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == expect, (out, err)
        return json.loads(out) if out else {}

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def watches() -> Iterator[list[Watch]]:
    """Those that are to be ended."""
    made: list[Watch] = []
    yield made
    for watch in made:
        if watch.process.poll() is None:
            watch.kill()


def tensor_count(daemon: Daemon, run: str = "r") -> int:
    result = daemon.ctl("-o", "json", "run", "get", run, expect=None)
    if result.returncode != 0:
        return 0
    return int(json.loads(result.stdout).get("counters", {}).get("tensor_count", 0))


def wait_for(daemon: Daemon, count: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while tensor_count(daemon) < count:
        assert time.monotonic() < deadline, tensor_count(daemon)
        time.sleep(0.05)


def save_fx(folder: Path, number: int, time_us: int | None = None) -> Path:
    """Writes one array as TorchAir's eager mode does."""
    folder.mkdir(parents=True, exist_ok=True)
    when = 20250101000000000000 + (number if time_us is None else time_us)
    path = folder / f"op{number}-aten.add.OUTPUT.0.{when}.npy"
    np.save(path, np.full(16, number, np.float32))
    return path


def ge_bytes(path: Path, count: int = 64) -> bytes:
    raw = np.arange(count, dtype=np.float32).tobytes()
    tensor = ge_dump.Dumped(FLOAT32, ND, (count,), (count,), raw)
    ge_dump.write(path, [tensor], [tensor])
    return path.read_bytes()


def ge_folder(root: Path, token: int) -> Path:
    folder = root / f"worldsize1_global_rank0/20250101000000/0/graph_1/1/{token}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def import_agrees(daemon: Daemon, folder: Path, count: int) -> None:
    """An import of the finished folder finds nothing to do, and nothing amiss."""
    result = daemon.ctl_json("run", "import", str(folder), "--run", "r")
    assert int(result["skipped_file_count"]) == count
    assert (int(result["file_count"]), int(result["problem_count"])) == (0, 0)


def keys(daemon: Daemon, run: str) -> set[tuple[object, ...]]:
    listed = daemon.ctl_json("tensor", "list", "--run", run)["tensors"]
    return {
        (
            one.get("rank", 0),
            one.get("token", 0),
            one["op"],
            one.get("call", 0),
            one["io"],
            one.get("index"),
            one["hash"],
        )
        for one in listed
    }


def test_files_come_as_they_are_written(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "fx"
    root.mkdir()
    watches.append(Watch(daemon, root))
    for number in range(40):
        save_fx(root / str(1 + number // 10) / "graph_1", number)
    wait_for(daemon, 40)
    result = watches[0].end()
    assert int(result["imported"]["file_count"]) == 40
    assert int(result["incomplete_count"]) == 0
    assert 0 <= result["lag_p99_s"] < 30
    import_agrees(daemon, root, 40)
    daemon.ctl("run", "import", str(root), "--run", "whole")
    assert keys(daemon, "r") == keys(daemon, "whole")


def test_dump_that_grows_slice_by_slice_comes_once_it_is_whole(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "ge"
    folder = ge_folder(root, 0)
    whole = ge_bytes(tmp_path / "made", 4096)
    name = folder / "MatMul.MatMul_1.3.0.1735689600000001"
    watches.append(Watch(daemon, root))
    ge_bytes(folder / "MatMul.MatMul_0.2.0.1735689600000000")
    pieces = [whole[:1000], whole[1000:9000], whole[9000:]]
    for piece in pieces[:2]:
        with open(name, "ab") as file:
            file.write(piece)
    wait_for(daemon, 2)
    assert tensor_count(daemon) == 2
    with open(name, "ab") as file:
        file.write(pieces[2])
    wait_for(daemon, 4)
    assert int(watches[0].end()["incomplete_count"]) == 0
    import_agrees(daemon, root, 2)


def test_file_that_is_never_whole_is_incomplete(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "ge"
    folder = ge_folder(root, 0)
    whole = ge_bytes(tmp_path / "made", 1024)
    cut = folder / "MatMul.MatMul_1.3.0.1735689600000001"
    cut.write_bytes(whole[:-100])
    (folder / "MatMul.MatMul_2.4.0.1735689600000002").touch()
    watches.append(Watch(daemon, root, "--until-idle", "2s", "--seal"))
    result = watches[0].end(stop=False, expect=PARTIAL)
    assert int(result["incomplete_count"]) == 2
    assert "cut off" in " ".join(one["reason"] for one in result["incomplete"])
    assert not result["imported"].get("sealed", False)
    # Its first tensor is whole.
    assert tensor_count(daemon) == 1
    cut.write_bytes(whole)
    (folder / "MatMul.MatMul_2.4.0.1735689600000002").unlink()
    daemon.ctl("run", "import", str(root), "--run", "r")
    assert tensor_count(daemon) == 2


def test_killed_watch_sends_nothing_twice(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "ge"
    root.mkdir()
    watches.append(Watch(daemon, root))
    count = 0
    for part in range(4):
        for _ in range(25):
            ge_bytes(
                ge_folder(root, count // 20) / f"Add.op.{count}.0.{10**15 + count}"
            )
            count += 1
        if part < 3:
            wait_for(daemon, 2)
            watches[-1].kill()
            watches.append(Watch(daemon, root))
    wait_for(daemon, 2 * count)
    watches[-1].end()
    import_agrees(daemon, root, count)
    run = daemon.ctl_json("run", "get", "r")["counters"]
    assert int(run["tensor_count"]) == 2 * count


def test_daemon_may_start_again(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "fx"
    root.mkdir()
    watches.append(Watch(daemon, root))
    for number in range(10):
        save_fx(root / "1/graph_1", number)
    wait_for(daemon, 10)
    daemon.kill()
    for number in range(10, 20):
        save_fx(root / "1/graph_1", number)
    daemon.start()
    wait_for(daemon, 20)
    assert int(watches[0].end()["imported"]["conflict_count"]) == 0
    import_agrees(daemon, root, 20)


def test_folders_may_go_and_come_again(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "fx"
    save_fx(root / "1/graph_1", 0)
    watches.append(Watch(daemon, root))
    wait_for(daemon, 1)
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    save_fx(root / "1/graph_1", 1)
    wait_for(daemon, 2)
    made = tmp_path / "made"
    save_fx(made / "graph_1", 2)
    (made).rename(root / "2")
    wait_for(daemon, 3)
    (root / "2").rename(root / "3")
    save_fx(root / "3/graph_1", 3)
    # What was moved is there under another token, too.
    wait_for(daemon, 5)
    (root / "1/graph_1/leads_out.npy").symlink_to("/etc/hostname")
    save_fx(root / "3/graph_1", 4)
    wait_for(daemon, 6)
    result = watches[0].end(expect=PARTIAL)
    reasons = [one["reason"] for one in result["imported"]["problems"]]
    assert reasons == ["a link that leads out of the folder"]


def test_polled_folder_brings_the_same(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "fx"
    root.mkdir()
    watches.append(Watch(daemon, root, "--poll"))
    for number in range(6):
        save_fx(root / str(1 + number // 3) / "graph_1", number)
    wait_for(daemon, 6)
    result = watches[0].end()
    assert int(result["polled_folder_count"]) > 0
    import_agrees(daemon, root, 6)


@pytest.mark.parametrize("level", ["summary", "sample"])
def test_kept_level_is_the_policy_of_the_run(
    daemon: Daemon, tmp_path: Path, level: str
) -> None:
    root = tmp_path / "fx"
    for number in range(3):
        save_fx(root / "1/graph_1", number)
    watch = Watch(daemon, root, "--keep", level, "--until-idle", "1s", "--seal")
    assert watch.end(stop=False)["imported"]["sealed"]
    policy = daemon.ctl_json("capture", "get", "--run", "r")
    assert policy["rules"][0]["level"] == f"CAPTURE_LEVEL_{level.upper()}"
    assert tensor_count(daemon) == 3
    found = daemon.ctl_json("tensor", "list", "--run", "r")["tensors"]
    assert {one["summary"]["max"] for one in found} == {0.0, 1.0, 2.0}
    again = Watch(daemon, root, "--until-idle", "1s")
    again.end(stop=False, expect=USAGE)


def test_torch_tree_comes_whole(daemon: Daemon, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    top = tmp_path / "top"
    root = top / "msit_dump_20250101_000000/torch_tensors/cpu_1"
    folder = root / "0/root.fc1"
    folder.mkdir(parents=True)
    (root / "model_tree.json").write_text('{"root": {"children": []}}')
    watch = Watch(daemon, top, "--source", "msit")
    torch.save(torch.ones(4), folder / "input_0.pth")
    torch.save(torch.zeros(4), folder / "output.pth")
    wait_for(daemon, 2)
    watch.end()
    daemon.ctl("run", "import", str(top), "--source", "msit", "--run", "whole")
    assert keys(daemon, "r") == keys(daemon, "whole")


def test_ten_thousand_files_of_one_folder(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "fx"
    count = 10_000
    watches.append(Watch(daemon, root.parent / "none"))
    watches.pop().end(stop=False, expect=3)
    folder = root / "1/graph_1"
    folder.mkdir(parents=True)
    watches.append(Watch(daemon, root))
    one = save_fx(tmp_path, 0)
    for number in range(count):
        os.link(one, folder / f"op{number}-aten.OUTPUT.0.{10**19 + number}.npy")
    wait_for(daemon, count)
    watches[0].end()
    import_agrees(daemon, root, count)
