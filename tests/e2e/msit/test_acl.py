"""The ACL shim in a process that uses a stand-in for CANN."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import standin
from standin import SHIM, Standin, write_tree

from daemon import Daemon

TIMEOUT_S = 120


@pytest.fixture(scope="module")
def cann(tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin.build(tmp_path_factory.mktemp("standin"))


def job(
    cann: Standin,
    daemon: Daemon,
    tree: Path,
    *words: str,
    run: str = "streamed",
    expect: int = 0,
    program: Path | None = None,
    **environment: object,
) -> "subprocess.CompletedProcess[str]":
    """Runs the stand-in of MindIE with the shim preloaded."""
    done = subprocess.run(
        [program or cann.mindie, *words],
        cwd=tree.parent,
        env=cann.environment(
            LD_PRELOAD=SHIM,
            STANDIN_TREE=tree,
            **{
                "MSITD_RUN": run,
                "MSITD_ENDPOINT": f"unix:{daemon.socket_dir}",
                **environment,
            },
        ),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == expect, done.stderr
    return done


def said(done: "subprocess.CompletedProcess[str]") -> list[str]:
    lines = done.stderr.splitlines()
    assert all(line.startswith("libmsit_acl: ") for line in lines), done.stderr
    return [line.removeprefix("libmsit_acl: ") for line in lines]


def records(daemon: Daemon, run: str) -> list[str]:
    """Returns all facts about each tensor of a run, except the run itself.

    Includes inputs that a task did not have, which have no elements.
    """
    words = ("tensor", "list", "--run", run, "--limit", "100000")
    words += ("--kind", "tensor,statistics")
    # The run may lack ranks.
    listed = daemon.ctl_json(*words, expect=None)
    for one in listed["tensors"]:
        one["name"] = one["name"].removeprefix(f"runs/{run}/")
        for of_storage in ("run", "record_time", "write_time"):
            one.pop(of_storage, None)
    return sorted(json.dumps(one, sort_keys=True) for one in listed["tensors"])


def unordered(known: list[str]) -> set[str]:
    """Returns the records without their order in the run."""
    return {re.sub(r'"sequence": "\d+", ', "", text) for text in known}


def imported(daemon: Daemon, tree: Path) -> list[str]:
    words = ("run", "import", str(tree), "--source", "mindie", "--run", "imported")
    result = daemon.ctl(*words, expect=None)
    # Inputs without bytes are reported as problems.
    assert result.returncode in (0, 4), result.stderr
    return records(daemon, "imported")


@pytest.mark.parametrize("order", ["append", "shuffle"])
@pytest.mark.parametrize("slice_bytes", [1, 100, 1 << 20])
def test_run_is_that_of_an_import(
    daemon: Daemon, cann: Standin, tmp_path: Path, order: str, slice_bytes: int
) -> None:
    tree = write_tree(tmp_path / "tree")
    done = job(cann, daemon, tree, STANDIN_ORDER=order, STANDIN_SLICE_BYTES=slice_bytes)
    assert said(done)[-1].startswith("run streamed: 36 tensors from 12 files")
    streamed = records(daemon, "streamed")
    assert len(streamed) == 48
    assert streamed == imported(daemon, tree)
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == [
        "mindie_rt_op_mapping.json",
        "mindie_torch_op_mapping.json",
    ]


def test_only_named_ops_are_dumped(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path / "tree", tokens=1)
    log = tmp_path / "log"
    names = ",layer_op2,,layer_op3,"
    job(cann, daemon, tree, MSITD_ACL_OPS=names, STANDIN_LOG=log)
    ops = {json.loads(text)["op"] for text in records(daemon, "streamed")}
    assert ops == {"layer/op2", "layer/op3"}
    called = log.read_text().splitlines()
    assert called[0] == "acldumpRegCallback"
    assert json.loads(next(line for line in called if line.startswith("{"))) == {
        "dump": {
            "dump_path": os.environ.get("TMPDIR", "/tmp"),
            "dump_mode": "all",
            "dump_op_switch": "off",
            "dump_list": [{"model_name": "Graph", "layer": ["layer_op2", "layer_op3"]}],
        }
    }


def test_names_cannot_break_out_of_the_configuration(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path / "tree", tokens=1)
    log = tmp_path / "log"
    model, op = 'a"b\\c\n', '"],"x":["\x01'
    job(cann, daemon, tree, MSITD_ACL_MODEL=model, MSITD_ACL_OPS=op, STANDIN_LOG=log)
    text = next(line for line in log.read_text().splitlines() if line[0] == "{")
    assert json.loads(text)["dump"]["dump_list"] == [
        {"model_name": model, "layer": op.split(",")}
    ]


def test_library_that_is_loaded_late_is_found(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path / "tree")
    job(cann, daemon, tree, program=cann.loader)
    assert records(daemon, "streamed") == imported(daemon, tree)


@pytest.mark.parametrize("how", ["exit", "fork", "dump"])
def test_host_may_do_as_it_likes(
    daemon: Daemon, cann: Standin, tmp_path: Path, how: str
) -> None:
    """The host exits without aclFinalize, forks, or switches dumps on itself."""
    tree = write_tree(tmp_path / "tree")
    done = job(cann, daemon, tree, how)
    assert said(done)[-1].startswith("run streamed: 36 tensors from 12 files")
    assert len(records(daemon, "streamed")) == 48


def test_dump_of_the_host_is_streamed(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path / "tree")
    config = tmp_path / "dump.json"
    dump = {"dump_path": str(tmp_path), "dump_list": [{"model_name": "Graph"}]}
    config.write_text(json.dumps({"dump": dump}, separators=(",", ":")))
    log = tmp_path / "log"
    job(cann, daemon, tree, MINDIE_RT_DUMP_CONFIG_PATH=config, STANDIN_LOG=log)
    assert len(records(daemon, "streamed")) == 48
    assert log.read_text().count("aclmdlInitDump") == 1
    job(cann, daemon, tree, run="none", MSITD_ACL_DUMP="host")
    daemon.ctl("run", "get", "none", expect=64 + 5)


def test_without_a_run_nothing_happens(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path / "tree")
    log = tmp_path / "log"
    assert said(job(cann, daemon, tree, run="", STANDIN_LOG=log)) == []
    assert "Dump" not in log.read_text()
    assert "acldumpRegCallback" not in log.read_text()


def test_files_are_written_where_there_is_a_folder_and_no_run(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path / "tree")
    out = tmp_path / "out"
    out.mkdir()
    job(cann, daemon, tree, run="", MSITD_ACL_DUMP_PATH=out)
    below = [
        {p.relative_to(top): p.read_bytes() for p in top.rglob("*") if p.is_file()}
        for top in (out, tree)
    ]
    assert below[0] == below[1]


def test_two_processes_are_two_ranks_of_a_run(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    for rank in range(2):
        folder = tmp_path / f"job{rank}"
        folder.mkdir()
        tree = write_tree(folder / "tree", device=rank)
        job(cann, daemon, tree, RANK=rank, WORLD_SIZE=2, MSITD_JOB="launch")
    run = daemon.ctl_json("run", "get", "streamed")
    assert (run["world_size"], int(run["counters"]["tensor_count"])) == (2, 72)
    known = [json.loads(text) for text in records(daemon, "streamed")]
    assert {(one["rank"], one["device"]) for one in known} == {
        (0, "npu:0"),
        (1, "npu:1"),
    }


def test_folder_of_a_rank_says_the_rank(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path / "tree", rank="worldsize4_global_rank3")
    job(cann, daemon, tree, RANK=1, WORLD_SIZE=2)
    assert daemon.ctl_json("run", "get", "streamed")["world_size"] == 4
    assert records(daemon, "streamed") == imported(daemon, tree)


def test_run_of_another_job_is_not_changed(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path / "tree")
    job(cann, daemon, tree)
    before = records(daemon, "streamed")
    lines = said(job(cann, daemon, tree))
    assert lines[-1].endswith("0 tensors from 12 files; 12 files were not sent")
    assert "RUN_EXISTS" in "".join(lines[:-1])
    assert records(daemon, "streamed") == before
    lines = said(job(cann, daemon, tree, MSITD_ACL_IF_EXISTS="new"))
    assert lines[-1].startswith("run streamed-2: 36 tensors")
    assert unordered(records(daemon, "streamed-2")) == unordered(before)


def test_capture_policy_says_what_is_kept(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    words = ("capture", "set", "streamed", "--ops", "layer/op2", "--from-token", "0")
    daemon.ctl(*words)
    lines = said(job(cann, daemon, write_tree(tmp_path / "tree")))
    ops = {json.loads(text)["op"] for text in records(daemon, "streamed")}
    assert ops == {"layer/op2"}
    assert "32 of them not selected by the capture policy" in lines[-1]


def test_graphs_can_be_told_apart_from_the_beginning(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path / "tree")
    first = tree / "20251001120000/0/Graph/1"
    shutil.copytree(first, first.with_name("2"))
    job(cann, daemon, tree, MSITD_ACL_GRAPHS=1, STANDIN_ORDER="files")
    streamed = records(daemon, "streamed")
    ops = {json.loads(text)["op"] for text in streamed}
    assert ops == {f"Graph/{g}/layer/op{n}" for g in (1, 2) for n in (1, 2, 3)}
    assert unordered(streamed) == unordered(imported(daemon, tree))


@pytest.mark.parametrize("how", ["", "exit"])
def test_daemon_may_be_elsewhere(
    daemon: Daemon, cann: Standin, tmp_path: Path, how: str
) -> None:
    tree = write_tree(tmp_path / "tree")
    done = job(cann, daemon, tree, how, MSITD_ENDPOINT=daemon.endpoint)
    assert said(done)[-1].endswith("36 tensors from 12 files, 12 more have no bytes")
    assert records(daemon, "streamed") == imported(daemon, tree)


def test_file_without_an_end_is_incomplete(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path / "tree", tokens=1)
    done = job(cann, daemon, tree, STANDIN_LEAVES_OPEN=1, STANDIN_SLICE_BYTES=300)
    assert "1 file is incomplete" in said(done)[-1]
    # All tensors except the last one, which may be cut off, match.
    whole = imported(daemon, tree)
    streamed = records(daemon, "streamed")
    assert unordered(streamed) < unordered(whole)
    counters = daemon.ctl_json("run", "get", "streamed")["counters"]
    assert int(counters["dropped_count"]) == len(whole) - len(streamed)


def test_rank_that_is_killed_leaves_what_was_whole(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path / "tree")
    whole = imported(daemon, tree)
    with subprocess.Popen(
        [cann.mindie],
        cwd=tmp_path,
        env=cann.environment(
            LD_PRELOAD=SHIM,
            MSITD_RUN="streamed",
            MSITD_ENDPOINT=f"unix:{daemon.socket_dir}",
            STANDIN_TREE=tree,
            STANDIN_ORDER="files",
            # In the middle of the sixth file.
            STANDIN_SLICE_BYTES=1500,
            STANDIN_KILL_AFTER=11,
            STANDIN_GATE=tmp_path / "gate",
        ),
        stderr=subprocess.PIPE,
    ) as process:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            run = daemon.ctl("-o", "json", "run", "get", "streamed", expect=None)
            if run.returncode == 0:
                counters = json.loads(run.stdout)["counters"]
                if int(counters["tensor_count"]) == 15:
                    break
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        (tmp_path / "gate").touch()
        assert process.wait(TIMEOUT_S) == -signal.SIGKILL
    streamed = records(daemon, "streamed")
    assert len(streamed) == 20 and unordered(streamed) < unordered(whole)
    coverage = daemon.ctl_json("capture", "coverage", "streamed", expect=None)
    (rank,) = coverage["ranks"]
    assert "BROKEN" in json.dumps(rank)


def test_hostile_slices_harm_nothing(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path / "tree")
    done = job(cann, daemon, tree, STANDIN_HOSTILE=1, MSITD_ACL_MAX_BLOCK_MS=100)
    lines = said(done)
    assert len(lines) < 20
    assert "\033" not in done.stderr
    assert lines[-1].startswith("run streamed: 36 tensors from ")
    assert re.search("; 5000. files are incomplete, 4 files were lost, ", lines[-1])
    assert ", 2 slices belong to no file, " in lines[-1]
    assert records(daemon, "streamed") == imported(daemon, tree)


def test_file_of_a_broken_slice_is_lost(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    """Data after it would be at the position of the missing slice."""
    tree = write_tree(tmp_path / "tree", tokens=1)
    # The second slice of the fourth file.
    done = job(cann, daemon, tree, STANDIN_SLICE_BYTES=300, STANDIN_BREAKS=9)
    assert said(done)[-1].endswith("; 1 file was lost")
    streamed = records(daemon, "streamed")
    whole = imported(daemon, tree)
    assert len(streamed) == len(whole) - 4
    assert unordered(streamed) < unordered(whole)
    counters = daemon.ctl_json("run", "get", "streamed")["counters"]
    assert int(counters["dropped_count"]) == 1


@pytest.mark.parametrize("overflow", ["block", "drop-newest"])
def test_memory_is_bounded(
    daemon: Daemon, cann: Standin, tmp_path: Path, overflow: str
) -> None:
    tree = write_tree(tmp_path / "tree", ops=60, tokens=8)
    big = tree / "20251001120000/0/Graph/1/0/MatMul.big.1.1.1759312800000000"
    big.write_bytes(b"\x10" + bytes((1 << 20) + 1))
    done = job(
        cann,
        daemon,
        tree,
        MSITD_ACL_BUFFER_BYTES=1 << 20,
        MSITD_ACL_OVERFLOW=overflow,
        STANDIN_SLICE_BYTES=5000,
    )
    assert re.search("larger than MSITD_ACL_BUFFER|not enough memory", done.stderr)
    assert re.search("file(s were| was) lost", said(done)[-1])
    counters = daemon.ctl_json("run", "get", "streamed")["counters"]
    assert int(counters["dropped_count"]) > 0


def test_daemon_that_is_not_there_ends_nothing(
    daemon: Daemon, cann: Standin, tmp_path: Path
) -> None:
    daemon.stop()
    done = job(cann, daemon, write_tree(tmp_path / "tree"))
    assert "records were not acknowledged" in said(done)[-1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MSITD_ACL_BUFFER_BYTES", "1k"),
        ("MSITD_ACL_MAX_BLOCK_MS", "-1"),
        ("MSITD_ACL_OVERFLOW", "wait"),
        ("MSITD_ACL_IF_EXISTS", "maybe"),
        ("RANK", "-1"),
        ("MSITD_ENDPOINT", "nowhere"),
        ("MSITD_RUN", "x" * 200),
    ],
)
def test_wrong_settings_are_said(
    daemon: Daemon, cann: Standin, tmp_path: Path, name: str, value: str
) -> None:
    done = job(cann, daemon, write_tree(tmp_path / "tree"), **{name: value})
    lines = said(done)
    assert any(name in line or "endpoint" in line or "run" in line for line in lines)
