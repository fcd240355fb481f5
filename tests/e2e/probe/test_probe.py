"""msitd.probe: the folders that PrecisionDebugger writes, and its steps and ranks."""

import doctest
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from msitd import probe, query
from msitd.probe import debugger as debuggers
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
from probe_models import entries, leaves, make, train

from daemon import ROOT, Daemon

GOLDEN = ROOT / "tests/golden/msprobe_names"


def frozen(model: str, level: str) -> dict[str, list[str]]:
    """Returns the leaves that msprobe 26.2.0 found with torch 2.13."""
    found: dict[str, list[str]] = {}
    entry = ""
    for line in (GOLDEN / f"{model}.{level}.txt").read_text().splitlines():
        if line.startswith("  "):
            found[entry].append(line[2:])
        else:
            entry = line
            found[entry] = []
    return found


# Entries that msprobe does not have, with the reason.
MORE = {
    # msprobe loses backwards that follow an in-place module.
    ("conv", "L0"): {
        "Module.0.1.BatchNorm2d.backward.0",
        "Module.0.2.ReLU.backward.0",
    },
}


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("model", ["mlp", "conv", "transformer"])
def test_leaves_are_those_of_msprobe(model: str, level: str) -> None:
    debugger = probe.PrecisionDebugger(task="tensor", level=level, dump_path="dump")
    train(debugger, make(model), level, steps=1)
    found = entries(Path("dump/step0/rank"))
    levels = ["L0", "L1"] if level == "mix" else [level]
    expected = {k: v for each in levels for k, v in frozen(model, each).items()}
    more = {entry for each in levels for entry in MORE.get((model, each), ())}
    assert found.keys() - expected.keys() == more
    assert expected.keys() - found.keys() == set()
    assert {entry: found[entry] for entry in expected} == expected


def test_each_tensor_has_its_file_and_its_values() -> None:
    model = Net()
    step = run(debugger_of("L0"), model) / "step0"
    batch = torch.ones(2, 4)
    first = model.fc(batch)
    data = step / "rank/dump_tensor_data"
    assert load(data / "Module.fc.Linear.forward.0.input.0.pt").equal(batch)
    assert load(data / "Module.fc.Linear.forward.0.output.0.pt").equal(first)
    assert load(data / "Module.fc.Linear.forward.1.input.0.pt").equal(first)
    assert load(data / "Module.fc.Linear.forward.1.parameters.bias.pt").equal(
        model.fc.bias
    )
    (leaf,) = records(step)["Module.fc.Linear.forward.0"]["output"]
    assert leaf["data_name"] == "Module.fc.Linear.forward.0.output.0.pt"
    assert leaf["Max"] == first.max().item()
    said = json.loads((step / "rank/dump.json").read_text())
    assert said["dump_data_dir"] == "dump/step0/rank/dump_tensor_data"
    assert (said["task"], said["level"]) == ("tensor", "L0")
    # No intermediate files are left.
    assert steps_of(Path("dump")) == {"step0"}
    assert {path.name for path in (step / "rank").iterdir()} == {
        "dump.json",
        "stack.json",
        "construct.json",
        "dump_tensor_data",
    }


def test_the_run_is_in_the_daemon_too(daemon: Daemon) -> None:
    debugger = debugger_of("mix")
    run(debugger, steps=2)
    listed = query.connect().tensors.list(debugger.run, query.select(io="output"))
    assert {(tensor.token, tensor.op) for tensor in listed} >= {
        (0, "Module.fc.Linear"),
        (1, "Functional.softmax"),
    }


def test_statistics_are_those_of_the_tensors() -> None:
    run(debugger_of("mix", "statistics"))
    debuggers.forget_all()
    found = records(Path("dump/step0"))
    assert not Path("dump/step0/rank/dump_tensor_data").exists()
    run(debugger_of("mix", "tensor"))
    full = records(Path("dump/step0"))
    assert list(found) == list(full)
    assert [without_files(leaf) for leaf in tensors(full)] == list(tensors(found))


def tensors(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and value.get("type") == "torch.Tensor":
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors(each)
    elif isinstance(value, list):
        for each in value:
            yield from tensors(each)


def without_files(leaf: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in leaf.items() if key != "data_name"}


def test_a_structure_has_names_alone() -> None:
    run(debugger_of("L1", "structure"))
    folder = Path("dump/step0/rank")
    said = json.loads((folder / "dump.json").read_text())
    assert (said["task"], said["level"], said["data"]) == ("structure", "mix", {})
    tree = json.loads((folder / "construct.json").read_text())
    assert tree["Functional.relu.0.forward"] == "Module.act.ReLU.forward.0"
    assert tree["Functional.linear.1.backward"] == "Module.fc.Linear.backward.1"
    stacks = json.loads((folder / "stack.json").read_text())
    assert {name for names, _ in stacks.values() for name in names} >= {
        "Functional.softmax.0.forward",
        "Module.fc.Linear.forward.1",
    }


def test_stacks_name_the_lines_of_the_program() -> None:
    run(debugger_of("L1"))
    stacks = json.loads(Path("dump/step0/rank/stack.json").read_text())
    (frames,) = [
        frames
        for entries, frames in stacks.values()
        if "Functional.softmax.0.forward" in entries
    ]
    text = "return functional.softmax(self.act(self.fc(self.fc(x))), dim=-1)"
    assert f"in forward, \n {text}" in frames[0]


@pytest.mark.parametrize(
    "steps, expected",
    [
        ([], {"step0", "step1", "step2", "step3"}),
        ([1], {"step1"}),
        (["1-2", 3], {"step1", "step2", "step3"}),
        (["7"], set()),
    ],
)
def test_steps_are_chosen(steps: list[Any], expected: set[str]) -> None:
    run(debugger_of("L0", step=steps), steps=4)
    assert steps_of(Path("dump")) == expected
    for step in expected:
        assert names(Path("dump") / step) == MODULES


def test_names_of_a_step_begin_again() -> None:
    folder = run(debugger_of("L0"), steps=3)
    assert names(folder / "step2") == MODULES


@pytest.mark.parametrize("bad", [[1.5], ["3-1"], ["a"], [-1], "1", [True], [10**7]])
def test_bad_steps_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="step"):
        debugger_of("L0", step=bad)


def test_a_resumed_program_says_its_first_step() -> None:
    debugger = debugger_of("L0", step=[8])
    debugger.set_init_step(7)
    assert steps_of(run(debugger, steps=3)) == {"step8"}


def test_ranks_are_chosen(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not run(
        probe.PrecisionDebugger(str(config(place, rank=[0])), level="L0")
    ).exists()
    debuggers.forget_all()
    run(probe.PrecisionDebugger(str(config(place, rank=["1-3"])), level="L0"))
    assert steps_of(Path("dump/step0")) == {"rank1"}


def test_a_rank_can_be_named() -> None:
    debugger = debugger_of("L1")
    debugger.start(rank_id=5)
    torch.exp(torch.ones(2))
    debugger.stop()
    assert steps_of(Path("dump/step0")) == {"rank5"}


def test_arguments_win_over_the_file(place: Path) -> None:
    file = config(place, level="L1", dump_path="elsewhere", step=[4])
    debugger = probe.PrecisionDebugger(
        str(file), task="statistics", dump_path="dump", level="L0", step=[0]
    )
    run(debugger)
    assert names(Path("dump/step0")) == MODULES
    assert not Path("elsewhere").exists()


def test_the_seeds_signature_has_the_model_before_the_steps(place: Path) -> None:
    model = Net()
    file = str(config(place, level="L0"))
    debugger = probe.PrecisionDebugger(file, None, None, None, model, [1])
    torch.manual_seed(0)
    for _ in range(3):
        debugger.start()
        model(torch.ones(2, 4)).sum().backward()
        debugger.stop()
        debugger.step()
    assert names(Path("dump/step1")) == MODULES
    assert steps_of(Path("dump")) == {"step1"}


def test_the_current_signature_has_steps_alone(place: Path) -> None:
    debugger = probe.PrecisionDebugger(str(config(place)), None, None, "L0", [1])
    assert steps_of(run(debugger, steps=2)) == {"step1"}


def test_one_that_is_made_again_is_the_same(place: Path) -> None:
    file = str(config(place))
    debugger = probe.PrecisionDebugger(file)
    assert probe.PrecisionDebugger(file) is debugger
    assert probe.PrecisionDebugger(file, level="L0") is not debugger


def test_the_page_shows_what_happens(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msitd.probe.reloading._DISABLED_S", 0.0)
    failed, tried = doctest.testfile(
        str(ROOT / "docs/probe.md"), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert tried > 5
    assert failed == 0


def test_leaves_of_a_record_are_paths() -> None:
    record = {"output": [{"type": "int", "value": 3}, None]}
    assert list(leaves(record)) == ['output.0 "int" 3', "output.1 null"]
