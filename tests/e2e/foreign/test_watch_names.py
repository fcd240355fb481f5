"""`msitctl watch --name-pattern`: names that users make themselves, while they appear."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from watching import Watch, keys, tensor_count, wait_for, wait_until_gone

from daemon import Daemon

PATTERN = "rank{rank}_step{token}_{op}"
PARTIAL = 4
USAGE = 2
LOCAL = 3


def save(path: Path, value: float = 1.0, count: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.full(count, value, np.float32))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    out = tmp_path / "dump"
    out.mkdir()
    return out


Start = Callable[..., Watch]


@pytest.fixture
def watch(daemon: Daemon, root: Path, watches: list[Watch]) -> Start:
    """Starts a watch that the end of the test ends."""

    def start(*flags: str, pattern: str = PATTERN) -> Watch:
        watches.append(Watch(daemon, root, "--name-pattern", pattern, *flags))
        return watches[-1]

    return start


def problems(result: dict[str, Any]) -> list[str]:
    return [
        f"{Path(one['file']).name}: {one['reason']}"
        for one in result["imported"].get("problems", [])
    ]


def test_files_that_appear_later_are_named_by_the_pattern(
    daemon: Daemon, root: Path, watch: Start
) -> None:
    running = watch("--world-size", "2")
    for step in range(4):
        for rank in (0, 1):
            save(root / f"s{step}" / f"rank{rank}_step{step}_layers.0.mlp.npy", step)
        wait_for(daemon, 2 * (step + 1))
    result = running.end()
    assert int(result["imported"]["tensor_count"]) == 8
    assert not problems(result)
    told = daemon.ctl(
        *("run", "import", str(root), "--run", "whole", "--name-pattern", PATTERN)
    )
    assert "imported 8 files" in told.stdout
    assert keys(daemon, "r") == keys(daemon, "whole")


def test_an_import_continues_a_watch(daemon: Daemon, root: Path, watch: Start) -> None:
    save(root / "rank0_step1_a.npy")
    running = watch()
    wait_for(daemon, 1)
    running.kill()
    save(root / "rank0_step2_a.npy", 2)
    flags = ("--run", "r", "--name-pattern", PATTERN)
    told = daemon.ctl("run", "import", str(root), *flags, "--keep-open")
    assert "1 skipped, 0 problems" in told.stdout
    save(root / "rank0_step3_a.npy", 3)
    running = watch()
    wait_for(daemon, 3)
    running.end()
    assert tensor_count(daemon) == 3


def test_other_names_are_counted_and_named(
    daemon: Daemon, root: Path, watch: Start
) -> None:
    running = watch("--until-idle", "3s")
    save(root / "rank0_step1_a.npy")
    save(root / "rank0_a.npy")
    wait_for(daemon, 1)
    (root / "later.txt").write_text("x")
    save(root / "rank0_step2_a.npy")
    result = running.end(stop=False, expect=PARTIAL)
    assert sorted(problems(result)) == [
        "later.txt: its name does not match the pattern",
        "rank0_a.npy: its name does not match the pattern",
    ]
    assert int(result["imported"]["problem_count"]) == 2
    assert tensor_count(daemon) == 2


def test_a_file_is_imported_when_it_is_complete(
    daemon: Daemon, root: Path, watch: Start
) -> None:
    whole = save(root / "made.npy", 5, 4096).read_bytes()
    (root / "made.npy").unlink()
    running = watch()
    half = root / "rank0_step1_a.npy"
    half.write_bytes(whole[:1000])
    save(root / "rank0_step2_a.npy")
    wait_for(daemon, 1)
    with open(half, "ab") as file:
        file.write(whole[1000:])
    wait_for(daemon, 2)
    assert int(running.end()["incomplete_count"]) == 0
    # One that never is stays incomplete.
    running = watch("--until-idle", "2s", "--seal")
    (root / "rank0_step3_a.npy").write_bytes(whole[:-1])
    result = running.end(stop=False, expect=PARTIAL)
    assert int(result["incomplete_count"]) == 1
    assert not result["imported"].get("sealed", False)


def test_delete_keeps_what_does_not_match(
    daemon: Daemon, root: Path, watch: Start
) -> None:
    names = [save(root / f"rank0_step{step}_a.npy", step) for step in range(5)]
    other = save(root / "other.npy")
    running = watch("--delete", "--seal", "--until-idle", "4s")
    for name in names:
        wait_until_gone(name)
    result = running.end(stop=False, expect=PARTIAL)
    assert other.exists()
    assert int(result["deleted_count"]) == 5
    assert tensor_count(daemon) == 5


def test_seal_at_the_end(daemon: Daemon, root: Path, watch: Start) -> None:
    save(root / "rank0_step1_a.npy")
    running = watch("--seal", "--until-idle", "2s")
    assert running.end(stop=False)["imported"]["sealed"]


def test_a_second_file_with_the_same_place_is_a_problem(
    daemon: Daemon, root: Path, watch: Start
) -> None:
    save(root / "x/rank0_step1_a.npy", 1)
    save(root / "y/rank0_step01_a.npy", 2)
    running = watch("--delete")
    wait_for(daemon, 1)
    # One that arrives later is in conflict with the tensor of the run.
    save(root / "z/rank0_step001_a.npy", 3)
    save(root / "z/rank0_step2_a.npy", 4)
    wait_for(daemon, 2)
    result = running.end(expect=PARTIAL)
    (problem,) = problems(result)
    assert "by the pattern" in problem
    assert "x/rank0_step1_a.npy" in problem and "y/rank0_step01_a.npy" in problem
    assert int(result["imported"]["conflict_count"]) == 1
    (double,) = result["imported"]["doubles"]
    assert double["file"].endswith("z/rank0_step001_a.npy")
    # Nothing is removed whose bytes the run lacks.
    assert (root / "y/rank0_step01_a.npy").exists()
    assert (root / "z/rank0_step001_a.npy").exists()


def test_a_rank_beyond_the_run_is_a_problem(
    daemon: Daemon, root: Path, watch: Start
) -> None:
    for rank in (0, 1):
        save(root / f"rank{rank}_step1_a.npy")
    running = watch()
    wait_for(daemon, 2)
    save(root / "rank7_step1_a.npy")
    save(root / "rank1_step2_a.npy")
    wait_for(daemon, 3)
    result = running.end(expect=PARTIAL)
    (problem,) = problems(result)
    assert "its rank 7 is not one of the 2 ranks of the run" in problem
    assert "--world-size" in problem


def test_a_file_that_does_not_match_does_not_set_the_ranks(
    daemon: Daemon, root: Path, watch: Start
) -> None:
    running = watch()
    save(root / "rank0_step1_a.npy").unlink()
    (root / "train.log").write_text("epoch 1")
    # Longer than the time after which files without a pattern would be imported.
    time.sleep(6)
    for rank in (0, 1, 2):
        save(root / f"rank{rank}_step1_a.npy")
    wait_for(daemon, 3)
    result = running.end(expect=PARTIAL)
    assert problems(result) == ["train.log: its name does not match the pattern"]
    assert daemon.ctl_json("run", "get", "r")["world_size"] == 3


def test_a_watch_without_matching_files_reports_the_others(
    daemon: Daemon, root: Path, watch: Start
) -> None:
    (root / "train.log").write_text("epoch 1")
    running = watch("--until-idle", "2s")
    result = running.end(stop=False, expect=PARTIAL)
    assert problems(result) == ["train.log: its name does not match the pattern"]


def test_fields_with_a_call_are_not_numbered_again(
    daemon: Daemon, root: Path, watch: Start
) -> None:
    running = watch(pattern="{op}.{call}.{io}.{index}")
    for call in (3, 1, 2):
        save(root / f"add.{call}.input.1.npy", call)
        wait_for(daemon, {3: 1, 1: 2, 2: 3}[call])
    result = running.end()
    assert not problems(result)
    names = [
        one["name"]
        for one in daemon.ctl_json("tensor", "list", "--run", "r")["tensors"]
    ]
    assert sorted(name.split("/calls/")[1] for name in names) == [
        f"{call}/input/1" for call in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--name-pattern", "{step}_{op}"), "{step} is not a field"),
        (("--name-pattern", PATTERN, "--rank", "1"), "--rank does not go with"),
        (("--name-pattern", PATTERN, "--token", "1"), "--token does not go with"),
        (("--name-pattern", PATTERN, "--source", "ge"), "only for files"),
    ],
)
def test_wrong_flags_are_refused(
    daemon: Daemon, root: Path, flags: tuple[str, ...], words: str
) -> None:
    told = daemon.ctl("watch", str(root), "--run", "r", *flags, expect=USAGE)
    assert words in told.stderr


def test_an_export_needs_no_pattern(daemon: Daemon, root: Path) -> None:
    (root / "tensors.jsonl").write_text("{}\n")
    save(root / "rank0_step1_a.npy")
    flags = ("--run", "r", "--name-pattern", PATTERN, "--until-idle", "5s")
    told = daemon.ctl("watch", str(root), *flags, expect=None)
    assert told.returncode != 0
