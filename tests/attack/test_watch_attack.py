"""Effects of files, disks and a stopped daemon on a watch that removes imported
files.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from small_disk import MIB, SmallDisk
from watching import WAIT_S, Watch, save_fx, tensor_count, wait_for, wait_until_gone

from daemon import Daemon

PARTIAL = 4
SEED = 20250901


def values(daemon: Daemon) -> dict[str, float]:
    """Returns the largest element of each tensor of the run, by op."""
    listed = daemon.ctl_json("tensor", "list", "--run", "r", "--limit", "0")
    return {one["op"]: one["summary"]["max"] for one in listed.get("tensors", [])}


def check_removed(daemon: Daemon, paths: dict[Path, float]) -> int:
    """Checks that removed files are in the run unchanged. Returns how many were
    removed.
    """
    gone = [path for path in paths if not path.exists()]
    held = values(daemon) if gone else {}
    for path in gone:
        assert held[path.name.split(".OUTPUT")[0]] == paths[path], path
    return len(gone)


def test_stopped_daemon_costs_no_file(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    folder = tmp_path / "fx/1/graph_1"
    folder.mkdir(parents=True)
    watches.append(Watch(daemon, tmp_path / "fx", "--delete", "--timeout", "1s"))
    paths: dict[Path, float] = {save_fx(folder, i): i for i in range(30)}
    wait_until_gone(*paths)
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    later = {save_fx(folder, i): float(i) for i in range(30, 60)}
    # Longer than the patience of the watch.
    end = time.monotonic() + 3
    while time.monotonic() < end:
        assert all(path.exists() for path in later)
        time.sleep(0.05)
    daemon.process.send_signal(signal.SIGCONT)
    wait_until_gone(*later)
    assert check_removed(daemon, paths | later) == 60
    watches[0].end()


def test_killed_daemon_costs_no_file(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    rng = random.Random(SEED)
    folder = tmp_path / "fx/1/graph_1"
    folder.mkdir(parents=True)
    watches.append(Watch(daemon, tmp_path / "fx", "--delete"))
    # A watch that cannot reach its daemon at the start would end.
    wait_until_gone(save_fx(folder, 400))
    paths: dict[Path, float] = {}
    for round_number in range(4):
        first = round_number * 100
        for i in range(first, first + 100):
            paths[save_fx(folder, i)] = i
            if i == first + rng.randrange(100):
                daemon.kill()
                daemon.start()
        daemon.kill()
        daemon.start()
        check_removed(daemon, paths)
    wait_until_gone(*paths)
    assert check_removed(daemon, paths) == 400
    watches[0].end()


def test_daemon_may_be_away_when_the_first_file_comes(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "fx"
    root.mkdir()
    watches.append(Watch(daemon, root, "--delete", "--progress"))
    said = watches[0].process.stderr
    assert said is not None
    # The watch has found the daemon.
    while "waiting for files" not in said.readline():
        assert watches[0].process.poll() is None
    daemon.kill()
    path = save_fx(root / "1/graph_1", 1)
    while "files wait for it" not in said.readline():
        assert watches[0].process.poll() is None
    assert path.exists()
    daemon.start()
    wait_until_gone(path)
    watches[0].end()


def test_full_disk_of_the_daemon_costs_no_file(
    new_daemon: Callable[[], Daemon], tmp_path: Path, watches: list[Watch]
) -> None:
    disk = SmallDisk(tmp_path, "tmpfs", 128 * MIB)
    try:
        daemon = new_daemon()
        daemon.data_dir = disk.path / "data"
        daemon.start("--segment-bytes", str(16 * MIB))
        folder = tmp_path / "fx/1/graph_1"
        folder.mkdir(parents=True)
        flags = ("--delete", "--timeout", "1s")
        watches.append(Watch(daemon, tmp_path / "fx", *flags))
        wait_until_gone(save_fx(folder, 0))
        disk.fill()
        paths = {}
        for number in range(1, 20):
            name = f"op{number}-aten.add.OUTPUT.0.{20250101000000000000 + number}.npy"
            np.save(tmp_path / "made.npy", np.full(MIB, number, np.float32))
            paths[folder / name] = float(number)
            (tmp_path / "made.npy").rename(folder / name)
        deadline = time.monotonic() + WAIT_S
        while daemon.ctl_json("node", "status")["storage_state"] != "FULL":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        # Longer than the patience of the watch.
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert watches[0].process.poll() is None
            time.sleep(0.05)
        check_removed(daemon, paths)
        disk.empty()
        wait_until_gone(*paths)
        assert check_removed(daemon, paths) == 19
        watches[0].end()
        daemon.clean()
    finally:
        disk.unmount()


def test_names_of_all_kinds(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "files"
    root.mkdir()
    names = [
        *(b"a\nb.npy", b"\x1b[31mred.npy", b"tab\tx.npy", b" .npy", b"-rf.npy"),
        *(b"\xff\xfe.npy", b"x" * 251 + b".npy", "\u202enpy.txt".encode()),
    ]
    watches.append(Watch(daemon, root, "--source", "files", "--delete"))
    paths = []
    for number, name in enumerate(names):
        path = Path(os.fsdecode(os.fsencode(root) + b"/" + name))
        np.save(tmp_path / "made.npy", np.full(4, number, np.float32))
        (tmp_path / "made.npy").rename(path)
        paths.append(path)
    # A name that is not valid UTF-8 cannot be an op, so its file stays.
    good = [path for path in paths if b"\xff" not in os.fsencode(path)]
    wait_until_gone(*good)
    result = watches[0].end(expect=PARTIAL)
    assert [path for path in paths if path.exists()] == [
        path for path in paths if path not in good
    ]
    assert int(result["imported"]["problem_count"]) == 1
    assert sorted(values(daemon).values()) == [0, 1, 2, 3, 4, 6, 7]


def test_links_lead_nowhere_else(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "fx"
    folder = root / "1/graph_1"
    folder.mkdir(parents=True)
    outside = tmp_path / "outside/1/graph_1"
    kept = save_fx(outside, 7)
    (root / "loop").symlink_to(root)
    (folder / "self").symlink_to("self")
    (root / "2").symlink_to(tmp_path / "outside/1")
    link = folder / kept.name.replace("op7", "op8")
    link.symlink_to(kept)
    watches.append(Watch(daemon, root, "--delete"))
    wait_until_gone(save_fx(folder, 0))
    watches[0].end(expect=PARTIAL)
    assert kept.exists() and link.is_symlink()
    assert values(daemon) == {"op0-aten.add": 0}


def test_folders_that_come_and_go_cost_no_file(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    rng = random.Random(SEED)
    root = tmp_path / "fx"
    root.mkdir()
    watches.append(Watch(daemon, root, "--delete"))
    paths: dict[Path, float] = {}
    for number in range(120):
        folder = root / f"{1 + number % 5}/graph_1"
        paths[save_fx(folder, number)] = number
        if rng.random() < 0.2:
            away = tmp_path / f"away{number}"
            (root / f"{1 + number % 5}").rename(away)
            if rng.random() < 0.5:
                away.rename(root / f"{1 + number % 5}")
            else:
                moved = [path for path in paths if path.parent == folder]
                for path in moved:
                    held = away / "graph_1" / path.name
                    if held.exists():
                        paths[held] = paths[path]
                        del paths[path]
    wait_until_gone(*[path for path in paths if path.is_relative_to(root)])
    check_removed(daemon, paths)
    watches[0].end(expect=None)


def test_killed_watches_remove_what_the_run_has(daemon: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "fx/1/graph_1"
    folder.mkdir(parents=True)
    paths = {}
    for number in range(4000):
        paths[save_fx(folder, number)] = float(number)
    for _ in range(3):
        watch = Watch(daemon, tmp_path / "fx", "--delete")
        before = tensor_count(daemon)
        wait_for(daemon, min(before + 500, 4000))
        watch.kill()
        check_removed(daemon, paths)
    watch = Watch(daemon, tmp_path / "fx", "--delete", "--until-idle", "1s")
    watch.end(stop=False)
    assert check_removed(daemon, paths) == 4000
