"""Folders of other tools, imported by `msitctl watch` as they grow."""

import json
import os
import time
from pathlib import Path
from typing import Any

import ge_dump
import numpy as np
import pytest
from msitd import query
from watching import (
    Watch,
    ge_bytes,
    ge_folder,
    import_agrees,
    keys,
    save_fx,
    tensor_count,
    wait_for,
    wait_until_gone,
)

from daemon import Daemon

PARTIAL = 4
USAGE = 2
EXHAUSTED = 64 + 8
ATTACHMENTS_MAX = 256


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
    assert "truncated" in " ".join(one["reason"] for one in result["incomplete"])
    assert not result["imported"].get("sealed", False)
    # Its first tensor is complete.
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
    # A moved file is also recorded under another token.
    wait_for(daemon, 5)
    (root / "1/graph_1/leads_out.npy").symlink_to("/etc/hostname")
    save_fx(root / "3/graph_1", 4)
    wait_for(daemon, 6)
    result = watches[0].end(expect=PARTIAL)
    reasons = [one["reason"] for one in result["imported"]["problems"]]
    assert reasons == ["a link to a file outside of the folder"]


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


def made_by_the_document(path: Path) -> Any:
    """Returns the output of the TorchAir document's script for an array."""
    data = np.load(path)
    return np.array([data.min(), data.max()])


def test_min_max_files_stand_where_the_dumps_were(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "fx/1/graph_1"
    root.mkdir(parents=True)
    rng = np.random.default_rng(1)
    arrays = [
        rng.standard_normal(1000).astype(kind)
        for kind in (np.float16, np.float32, np.float64, np.int8, np.int64, np.bool_)
    ]
    arrays.append(np.array([1, np.nan, -np.inf], np.float32))
    expected = {}
    watches.append(Watch(daemon, tmp_path / "fx", "--min-max", "--delete"))
    for number, array in enumerate(arrays):
        path = root / f"op{number}-aten.OUTPUT.0.{10**19 + number}.npy"
        kept = tmp_path / "kept.npy"
        np.save(kept, array)
        expected[path] = made_by_the_document(kept)
        kept.rename(path)
    wait_for(daemon, len(arrays))
    wait_until_gone(*expected)
    result = watches[0].end()
    assert int(result["deleted_count"]) == len(arrays)
    for path, wanted in expected.items():
        got = np.load(path.with_name(path.stem + "_min_max.npy"))
        assert (got.dtype, got.shape) == (wanted.dtype, (2,))
        np.testing.assert_array_equal(got, wanted)
    # They represent the contents of the run.
    again = Watch(
        daemon, tmp_path / "fx", "--min-max", "--delete", "--until-idle", "1s"
    )
    assert int(again.end(stop=False)["imported"]["file_count"]) == 0
    assert len(list(root.iterdir())) == len(arrays)
    import_agrees(daemon, tmp_path / "fx", len(arrays))


def test_min_max_of_a_ge_dump_has_its_inputs_and_outputs(
    daemon: Daemon, tmp_path: Path
) -> None:
    root = tmp_path / "ge"
    path = ge_folder(root, 0) / "MatMul.MatMul_1.3.0.1735689600000001"
    ge_bytes(path, 64)
    watch = Watch(daemon, root, "--min-max", "--delete", "--until-idle", "1s")
    watch.end(stop=False)
    assert not path.exists()
    with np.load(path.with_name(path.name + "_min_max.npz")) as made:
        assert made["inputs"].dtype == np.float32
        assert made["inputs"].tolist() == made["outputs"].tolist() == [[0.0, 63.0]]
    assert tensor_count(daemon) == 2


def test_min_max_of_an_input_that_was_not_given_is_nan(
    daemon: Daemon, tmp_path: Path
) -> None:
    root = tmp_path / "ge"
    path = ge_folder(root, 0) / "MatMul.MatMul_1.3.0.1735689600000001"
    there = ge_dump.Dumped(1, ge_dump.ND, (1,), (1,), np.float32(3).tobytes())
    absent = ge_dump.Dumped(1, ge_dump.ND, (1,), (1,), b"", 4, 0)
    ge_dump.write(path, [absent, there], [there])
    watch = Watch(daemon, root, "--min-max", "--delete", "--until-idle", "1s")
    watch.end(stop=False)
    assert not path.exists()
    with np.load(path.with_name(path.name + "_min_max.npz")) as made:
        assert np.isnan(made["inputs"][0]).all()
        assert made["inputs"][1].tolist() == made["outputs"][0].tolist() == [3, 3]


def test_dump_stays_if_its_min_max_file_finds_no_room(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "fx"
    folder = root / "1/graph_1"
    path = save_fx(folder, 0)
    # A folder with this name simulates a disk that refuses the file.
    blocked = path.with_name(path.stem + "_min_max.npy")
    blocked.mkdir()
    watches.append(Watch(daemon, root, "--min-max", "--delete"))
    wait_for(daemon, 1)
    # It does not delay other files.
    wait_until_gone(save_fx(folder, 1))
    assert path.exists()
    blocked.rmdir()
    wait_until_gone(path)
    assert blocked.is_file()
    watches[0].end()


def test_file_that_a_program_has_open_is_not_deleted(
    daemon: Daemon, tmp_path: Path
) -> None:
    root = tmp_path / "fx"
    path = save_fx(root / "1/graph_1", 0)
    flags = ("--delete", "--until-idle", "1s")
    with open(path, "r+b"):
        result = Watch(daemon, root, *flags).end(stop=False)
        assert path.exists()
        assert tensor_count(daemon) == int(result["kept_count"]) == 1
    assert int(Watch(daemon, root, *flags).end(stop=False)["deleted_count"]) == 1
    assert not path.exists()


def test_file_of_which_the_policy_keeps_less_is_not_deleted(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "fx"
    folder = root / "1/graph_1"
    folder.mkdir(parents=True)
    watches.append(Watch(daemon, root, "--delete"))
    wait_until_gone(save_fx(folder, 0))
    policy = ("--level", "summary", "--from-token", "0")
    daemon.ctl("capture", "set", "--run", "r", *policy)
    path = save_fx(folder, 1)
    wait_for(daemon, 2)
    assert int(watches[0].end()["kept_count"]) == 1
    Watch(daemon, root, "--delete").end(stop=False, expect=USAGE)
    assert path.exists()


def test_file_that_was_left_out_is_not_deleted(daemon: Daemon, tmp_path: Path) -> None:
    root = tmp_path / "fx"
    path = save_fx(root / "1/graph_1", 0)
    flags = ("--keep", "summary", "--until-idle", "1s")
    policy = ("--level", "off", "--from-token", "0")
    daemon.ctl("capture", "set", "--run", "r", *policy)
    daemon.ctl("run", "import", str(root), "--run", "r", "--keep-open")
    daemon.ctl("capture", "set", "--run", "r", "--level", "summary")
    # The file is in the ledger, but not in the run.
    Watch(daemon, root, *flags, "--delete").end(stop=False)
    assert path.exists()


def test_level_that_is_kept_is_enough_to_delete(daemon: Daemon, tmp_path: Path) -> None:
    root = tmp_path / "fx"
    path = save_fx(root / "1/graph_1", 0)
    flags = ("--keep", "summary", "--until-idle", "1s")
    Watch(daemon, root, *flags).end(stop=False)
    assert path.exists()
    Watch(daemon, root, *flags, "--delete").end(stop=False)
    assert not path.exists()
    assert tensor_count(daemon) == 1


def test_files_of_a_tree_that_is_read_whole_may_go(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    torch = pytest.importorskip("torch")
    top = tmp_path / "top"
    root = top / "msit_dump_20250101_000000/torch_tensors/cpu_1"
    folder = root / "0/root.fc1"
    folder.mkdir(parents=True)
    (root / "model_tree.json").write_text('{"root": {"children": []}}')
    watches.append(Watch(daemon, top, "--source", "msit", "--delete"))
    for number, name in enumerate(("input_0.pth", "output.pth")):
        torch.save(torch.full((4,), number), tmp_path / name)
        (tmp_path / name).rename(folder / name)
        wait_until_gone(folder / name)
    assert int(watches[0].end()["imported"]["problem_count"]) == 0
    assert tensor_count(daemon) == 2


def test_file_that_the_run_has_otherwise_is_not_deleted(
    daemon: Daemon, tmp_path: Path
) -> None:
    root = tmp_path / "fx"
    path = save_fx(root / "1/graph_1", 0)
    daemon.ctl("run", "import", str(root), "--run", "r", "--keep-open")
    daemon.ctl("run", "detach", "r", "import-ledger.jsonl")
    np.save(path, np.ones(16, np.float32))
    for _ in range(2):
        watch = Watch(daemon, root, "--delete", "--until-idle", "1s")
        watch.end(stop=False, expect=None)
        assert path.exists()


def test_killed_watch_leaves_the_dump_or_what_stands_for_it(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "fx"
    folder = root / "1/graph_1"
    paths = [save_fx(folder, number) for number in range(300)]
    for _ in range(6):
        watches.append(Watch(daemon, root, "--min-max", "--delete"))
        time.sleep(0.15)
        watches[-1].kill()
        for path in paths:
            assert path.exists() or path.with_name(path.stem + "_min_max.npy").exists()
    watch = Watch(daemon, root, "--min-max", "--delete", "--until-idle", "1s")
    watch.end(stop=False)
    assert not any(path.exists() for path in paths)
    assert tensor_count(daemon) == len(paths)
    import_agrees(daemon, root, len(paths))


def save_min_max(path: Path) -> Path:
    """Writes the output of the TorchAir document's script for a GE dump."""
    made = path.with_name(path.name + "_min_max.npz")
    rows = np.array([[0, 63]], np.float32)
    np.savez(made, inputs=rows, outputs=rows)
    return made


def test_dump_counts_though_another_program_has_converted_it(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "ge"
    folder = ge_folder(root, 0)
    whole = ge_bytes(tmp_path / "made")
    dump = folder / "MatMul.MatMul_1.3.0.1735689600000001"
    dump.write_bytes(whole[:-100])
    made = save_min_max(dump)
    watches.append(Watch(daemon, root, "--delete"))
    ge_bytes(folder / "MatMul.MatMul_2.4.0.1735689600000002")
    wait_for(daemon, 2)
    dump.write_bytes(whole)
    wait_until_gone(dump)
    result = watches[0].end()
    assert int(result["incomplete_count"]) == 0
    assert int(result["imported"]["problem_count"]) == 0
    assert tensor_count(daemon) == 4
    # The tokens of both dumps, which have the same op.
    assert {key[3] for key in keys(daemon, "r")} == {0, 1}
    assert made.exists()
    import_agrees(daemon, root, 1)


def test_converted_dump_that_is_gone_is_what_an_import_takes_it_for(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "ge"
    folder = ge_folder(root, 0)
    whole = ge_bytes(tmp_path / "made")
    watches.append(Watch(daemon, root))
    cut = folder / "MatMul.MatMul_1.3.0.1735689600000001"
    cut.write_bytes(whole[:-100])
    made = save_min_max(cut)
    for number in range(2, 200):
        # The script may run before or after the watch.
        dump = folder / f"MatMul.MatMul_{number}.3.0.{1735689600000000 + number}"
        (tmp_path / "made").write_bytes(whole)
        (tmp_path / "made").rename(dump)
        save_min_max(dump)
        dump.unlink()
    cut.unlink()
    wait_for(daemon, 2 * 199)
    result = watches[0].end(expect=None)
    assert int(result["imported"].get("conflict_count", 0)) == 0
    assert tensor_count(daemon) == 2 * 199
    assert {key[3] for key in keys(daemon, "r")} == {0}
    assert made.exists()


def test_mappings_lie_where_the_user_says(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    names = ["mindie_rt_op_mapping.json", "mindie_torch_op_mapping.json"]
    root = tmp_path / "out"
    folder = root / "20250101000000/0/Graph/1/0"
    folder.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in names:
        (root / name).write_text('"of another model"')
    flags = ("--mapping-folder", str(elsewhere))
    watches.append(Watch(daemon, root, *flags))
    ge_bytes(folder / "MatMul.MatMul_1.3.0.1735689600000001")
    wait_for(daemon, 2)
    # MindIE writes them at its end; links are accepted as files.
    for name in names:
        (tmp_path / f"real_{name}").write_text("[]")
        (elsewhere / name).symlink_to(tmp_path / f"real_{name}")
    result = watches[0].end()
    assert int(result["imported"]["attachment_count"]) == 2
    for name in names:
        out = tmp_path / f"read_{name}"
        daemon.ctl("run", "attachment", "r", name, "--out", str(out))
        assert out.read_text() == "[]"
    (elsewhere / names[0]).unlink()
    watch = Watch(daemon, root, *flags, "--until-idle", "1s")
    watch.end(stop=False, expect=PARTIAL)


@pytest.mark.parametrize("source", [(), ("--source", "atb")])
def test_atb_tensors_are_not_deleted(
    daemon: Daemon, tmp_path: Path, source: tuple[str, ...]
) -> None:
    root = tmp_path / "dump"
    path = root / "msit_dump_1/tensors/0_42/0/0_Add/after/outtensor0.bin"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"dtype=0\ndims=1\n$End=1\nabcd")
    words = ("watch", str(root), "--run", "r", "--until-idle", "1s", *source)
    refused = daemon.ctl(*words, "--delete", expect=USAGE)
    assert "--delete is not supported for atb" in refused.stderr
    assert path.exists()
    daemon.ctl("run", "get", "r", expect=64 + 5)
    daemon.ctl(*words)
    assert tensor_count(daemon) == 1


def test_limit_that_stays_ends_the_watch(daemon: Daemon, tmp_path: Path) -> None:
    path = save_fx(tmp_path / "fx/1/graph_1", 1)
    daemon.ctl("run", "create", "r", "--label", "source=fx")
    with query.connect(daemon.endpoint) as asked:
        for number in range(ATTACHMENTS_MAX):
            asked.runs.attach("r", f"a{number}", b"")
        words = ("-o", "json", "watch", str(tmp_path / "fx"), "--run", "r", "--delete")
        refused = daemon.ctl(*words, expect=EXHAUSTED)
        assert "ATTACHMENTS_EXHAUSTED" in refused.stderr
        assert int(json.loads(refused.stdout)["waiting_count"]) == 1
        assert "1 not imported" in daemon.ctl(*words[2:], expect=EXHAUSTED).stdout
        assert path.exists()
        asked.runs.detach("r", "a0")
    done = daemon.ctl_json(*words[2:], "--until-idle", "1s")
    assert int(done["imported"]["file_count"]) == 1
    assert int(done["waiting_count"]) == 0
    assert not path.exists()


def test_a_file_that_changed_is_a_conflict(daemon: Daemon, tmp_path: Path) -> None:
    root = tmp_path / "files"
    root.mkdir()
    np.save(root / "x.npy", np.zeros(4, np.float32))
    np.save(root / "earlier.npy", np.ones(4, np.float32))
    words = ("--run", "r", "--source", "files")
    daemon.ctl("run", "import", str(root), *words, "--keep-open")
    daemon.ctl("run", "detach", "r", "import-ledger.jsonl")
    np.save(root / "x.npy", np.ones(4, np.float32))
    told = daemon.ctl("watch", str(root), *words, "--until-idle", "1s", expect=PARTIAL)
    assert "1 conflicts" in told.stdout
