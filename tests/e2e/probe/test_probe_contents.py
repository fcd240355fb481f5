"""msitd.probe: what is dumped of a tensor, and keys that are rejected."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from msitd import probe
from probe_dumps import (
    MODULES,
    Net,
    config,
    debugger_of,
    load,
    names,
    probe_place,  # noqa: F401
    records,
    run,
    steps_of,
)


def files(step: Path) -> set[str]:
    return {path.stem for path in (step / "rank/dump_tensor_data").iterdir()}


@pytest.mark.parametrize("mode", ["md5", "xor"])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_checksums_are_of_the_bytes(task: str, mode: str, place: Path) -> None:
    values = torch.arange(6, dtype=torch.bfloat16)
    debugger = probe.PrecisionDebugger(
        str(config(place, task, block_summary_mode=mode)), level="L1"
    )
    debugger.start()
    torch.exp(values)
    torch.exp(torch.tensor(2.0))
    torch.abs(torch.tensor(-5, dtype=torch.int8))
    torch.logical_not(torch.tensor(True))
    debugger.stop()
    data = records(Path("dump/step0"))
    (leaf,) = data["Torch.exp.0.forward"]["input_args"]
    raw = values.view(torch.int16).numpy().tobytes()
    if mode == "md5":
        assert leaf["md5"] == f"{zlib.crc32(raw):08x}"
        assert leaf["Max"] == 5.0
        assert list(leaf)[-1] == "md5"
    else:
        padded = raw + bytes(-len(raw) % 8)
        words = [padded[at : at + 8] for at in range(0, len(padded), 8)]
        folded = 0
        for word in words:
            folded ^= int.from_bytes(word, "little")
        assert leaf["md5"] == f"0x{folded:016x}"
        assert "Max" not in leaf
        assert data["Torch.exp.1.forward"]["input_args"][0]["md5"] == 2.0
        whole = data["Torch.abs.0.forward"]
        assert whole["input_args"][0]["md5"] == "0xfffffffffffffffb"
        assert whole["output"][0]["md5"] == "0x0000000000000005"
        truth = data["Torch.logical_not.0.forward"]
        assert truth["input_args"][0]["md5"] == "0x0000000000000001"
        assert truth["output"][0]["md5"] == "0x0000000000000000"
    assert ("data_name" in leaf) == (task == "tensor")


def test_tensors_of_a_list_are_kept_beside_statistics(place: Path) -> None:
    file = config(place, "statistics", block_tensor_list=["softmax"])
    run(probe.PrecisionDebugger(str(file), level="L1"))
    assert files(Path("dump/step0")) == {
        "Functional.softmax.0.forward.input.0",
        "Functional.softmax.0.forward.output.0",
        "Functional.softmax.0.backward.input.0",
        "Functional.softmax.0.backward.output.0",
    }
    said = json.loads(Path("dump/step0/rank/dump.json").read_text())
    assert said["task"] == "statistics"
    assert "Functional.linear.0.forward" in said["data"]


def test_slices_cut_tensors(place: Path) -> None:
    rules = [
        {"dim": 0, "size": 6, "begin": 1, "end": 3},
        {"dim": 1, "size": 4, "end": 1},
    ]
    debugger = probe.PrecisionDebugger(
        str(config(place, block_slice=rules)), level="L1"
    )
    debugger.start()
    torch.exp(torch.arange(24.0).reshape(6, 4))
    torch.abs(torch.ones(5))
    debugger.stop()
    data = Path("dump/step0/rank/dump_tensor_data")
    assert load(data / "Torch.exp.0.forward.input.0.pt").tolist() == [[4.0], [8.0]]
    assert load(data / "Torch.abs.0.forward.input.0.pt").shape == (5,)


@pytest.mark.parametrize("rule", [{"dim": 0}, {"size": "4"}, {"size": 2, "dim": -1}, 3])
def test_bad_slices_are_refused(rule: Any, place: Path) -> None:
    with pytest.raises(ValueError, match="slice"):
        probe.PrecisionDebugger(str(config(place, block_slice=[rule])))


@pytest.mark.parametrize(
    "scheduled, rows",
    [
        ({"a": 2, "b": 3, "c": 1}, (2, 5)),
        ({"b": 1}, (0, 1)),
        (None, (0, 6)),
        ({"b": "x"}, (0, 6)),
        ({"a": 6}, None),
    ],
)
def test_a_request_has_its_rows(
    scheduled: Any, rows: tuple[int, int] | None, place: Path
) -> None:
    debugger = probe.PrecisionDebugger(
        str(config(place, block_request_id="b")), level="L1"
    )
    debugger.start(scheduled_tokens=scheduled)
    batch = torch.arange(6.0)
    torch.exp(batch)
    debugger.stop()
    debugger.step()
    if rows is None:
        assert not Path("dump").exists()
        return
    data = Path("dump/step0/rank/dump_tensor_data")
    found = load(data / "Torch.exp.0.forward.input.0.pt")
    assert found.equal(batch[slice(*rows)])


def test_values_are_saved_by_name() -> None:
    debugger = debugger_of("debug")
    x = torch.ones(2, requires_grad=True)
    y = x * 3
    debugger.save(y, "y")
    debugger.save({"a": y, "b": [1, "s", None, 2.5]}, "nest")
    debugger.save(y, "y", save_backward=False)
    y.sum().backward()
    debugger.step()
    debugger.save(torch.zeros(1), "y")
    debugger.step()
    said = json.loads(Path("dump/step0/rank/debug.json").read_text())
    assert said["level"] == "debug"
    data = said["data"]
    assert set(data) == {
        "y.0.debug",
        "y.1.debug",
        "y_grad.0.debug",
        "nest.0.debug",
        "nest_grad.0.debug",
    }
    nest = data["nest.0.debug"]
    assert nest["a"]["shape"] == [2]
    assert nest["b"] == [
        {"type": "int", "value": 1},
        {"type": "str", "value": "s"},
        None,
        {"type": "float", "value": 2.5},
    ]
    assert data["nest_grad.0.debug"]["a"]["Max"] == 1.0
    assert data["nest_grad.0.debug"]["b"] == [None, None, None, None]
    files = Path("dump/step0/rank/dump_tensor_data")
    assert load(files / "y.0.debug.pt").tolist() == [3, 3]
    assert load(files / "nest.0.debug.a.pt").tolist() == [3, 3]
    assert {path.name for path in Path("dump/step0/rank").iterdir()} == {
        "debug.json",
        "dump_tensor_data",
    }
    second = json.loads(Path("dump/step1/rank/debug.json").read_text())
    assert set(second["data"]) == {"y.0.debug"}


def test_what_cannot_be_saved_raises_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    debugger = debugger_of("debug")
    table = torch.ones(4, 2, requires_grad=True)
    debugger.save(table, "table")
    debugger.save(numpy.arange(3.0, dtype=numpy.float32), "array")
    debugger.save([torch.empty(2, device="meta"), torch.ones(1)], "meta")
    debugger.save(torch.eye(2).to_sparse(), "sparse")
    torch.nn.functional.embedding(
        torch.tensor([1]), table, sparse=True
    ).sum().backward()
    assert table.grad is not None
    assert table.grad.is_sparse
    debugger.step()
    data = json.loads(Path("dump/step0/rank/debug.json").read_text())["data"]
    assert data["array.0.debug"]["shape"] == [3]
    assert data["meta.0.debug"][1]["shape"] == [1]
    assert data["sparse.0.debug"].keys() >= {"indices", "values"}
    assert "table_grad.0.debug" in data
    told = [each.getMessage() for each in caplog.records if "`meta`" in each.message]
    assert len(told) == 1


def test_a_debugger_that_is_closed_before_the_backward_ends_no_training() -> None:
    debugger = debugger_of("debug")
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    debugger.save(y, "y")
    debugger.close()
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0] * 3


def test_overflows_are_dumped(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    debugger = probe.PrecisionDebugger(str(config(place, "overflow_check")), level="L1")
    for number in (1.0, 0.0, 0.0):
        debugger.start()
        torch.exp(torch.reciprocal(torch.tensor([number])))
        debugger.stop()
        debugger.step()
    # Only the first one, and no results that are passed on.
    assert steps_of(Path("dump")) == {"step1"}
    assert names(Path("dump/step1")) == {"Torch.reciprocal.0.forward"}
    assert (
        "step 1: Torch.reciprocal call 0, forward, gives NaN or infinities"
        in caplog.text
    )


def test_an_overflow_counts_once_though_its_step_is_written_twice(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = config(place, "overflow_check", block_overflow_nums=2)
    debugger = probe.PrecisionDebugger(str(file), level="L1")
    for _ in range(3):
        debugger.start()
        x = torch.full((1,), 3e38, requires_grad=True)
        loss = torch.mul(x, 3e38)
        debugger.stop()
        # Its gradients arrive after `stop`.
        loss.backward(torch.zeros(1))
        debugger.step()
    assert steps_of(Path("dump")) == {"step0", "step1"}
    told = [r for r in caplog.messages if "Torch.mul call 0, forward" in r]
    assert len(told) == 2


@pytest.mark.parametrize("task", sorted(probe.refused.REFUSED_TASKS))
def test_what_is_not_done_is_refused_by_name(task: str) -> None:
    with pytest.raises(ValueError, match=f"task '{task}' is not done here: .{{20}}"):
        debugger_of("L1", task)


def test_keys_of_early_releases_that_say_nothing_new_are_taken(place: Path) -> None:
    file = config(
        place,
        level="L0",
        async_dump=True,
        precision="low",
        acl_config="",
        block_file_format="pt",
        block_online_run_ut=False,
        block_backward_input=[],
    )
    run(probe.PrecisionDebugger(str(file)))
    assert names(Path("dump/step0")) == MODULES


def test_unknown_keys_are_told(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    probe.PrecisionDebugger(str(config(place, colour="red", block_lst=["x"])))
    assert "colour is no key that is known" in caplog.text
    assert "tensor.lst is no key that is known" in caplog.text


def test_a_file_that_is_no_configuration_is_refused(place: Path) -> None:
    for text in ("{", "[]"):
        (place / "c.json").write_text(text)
        with pytest.raises(ValueError, match=r"c\.json"):
            probe.PrecisionDebugger("c.json", dump_path=text)
    with pytest.raises(FileNotFoundError):
        probe.PrecisionDebugger("none.json")
    with pytest.raises(ValueError, match="dump_path is given neither"):
        probe.PrecisionDebugger(task="tensor")


def test_monitor_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="monitor is not done here"):
        debugger_of("L0").monitor(Net())
