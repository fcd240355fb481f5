"""msitd.probe: the folders that PrecisionDebugger writes, parameter by parameter."""

import doctest
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from msitd import probe, query
from msitd.probe import debugger as debuggers
from probe_models import entries, leaves, make, train
from torch import nn
from torch.nn import functional

from daemon import ROOT, Daemon

GOLDEN = ROOT / "tests/golden/msprobe_names"


@pytest.fixture(autouse=True)
def place(user_place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A daemon at its usual location, and no debugger of another test."""
    # Restores the variables that seeding changes.
    for name in ("PYTHONHASHSEED", "HCCL_DETERMINISTIC", "CUBLAS_WORKSPACE_CONFIG"):
        monkeypatch.setenv(name, "5")
    yield user_place
    debuggers.forget_all()
    torch.use_deterministic_algorithms(False)


class Net(nn.Module):
    """Calls one module twice."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.softmax(self.act(self.fc(self.fc(x))), dim=-1)


def config(place: Path, task: str = "tensor", **keys: Any) -> Path:
    """Writes a configuration; keys of the block of the task are `block_<key>`."""
    block = {
        key.removeprefix("block_"): keys.pop(key)
        for key in list(keys)
        if key.startswith("block_")
    }
    path = place / "config.json"
    text = json.dumps({"task": task, "dump_path": "dump", task: block, **keys})
    path.write_text(text)
    return path


def run(debugger: probe.PrecisionDebugger, model: Any = None, steps: int = 1) -> Path:
    """Dumps steps of a training, and returns the folder of the dumps."""
    torch.manual_seed(0)
    if model is None:
        model = Net()
    for _ in range(steps):
        debugger.start(model)
        model(torch.ones(2, 4)).square().sum().backward()
        debugger.stop()
        debugger.step()
    return Path("dump")


def names(step: Path) -> set[str]:
    return set(entries(step / "rank"))


def files(step: Path) -> set[str]:
    return {path.stem for path in (step / "rank/dump_tensor_data").iterdir()}


def steps_of(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def records(step: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((step / "rank/dump.json").read_text())["data"]
    return data


MODULES = {
    "Module.fc.Linear.forward.0",
    "Module.fc.Linear.forward.1",
    "Module.act.ReLU.forward.0",
    "Module.fc.Linear.backward.0",
    "Module.fc.Linear.backward.1",
    "Module.act.ReLU.backward.0",
    "Module.fc.Linear.parameters_grad.0",
}


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
    # A dropout with probability 0 has a backward here.
    ("mlp", "L1"): {"Functional.dropout.0.backward"},
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
    for entry, known in expected.items():
        if entry.startswith("Module.") or not entry.endswith(".backward"):
            assert found[entry] == known
            continue
        # msitd has the gradients of the arguments in their order, msprobe those
        # that the last autograd node returns.
        assert sides(found[entry], "input") == sides(known, "input")


def sides(of: list[str], side: str) -> list[str]:
    return [leaf for leaf in of if leaf.startswith(side)]


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


def debugger_of(
    level: str, task: str = "tensor", **keys: Any
) -> probe.PrecisionDebugger:
    return probe.PrecisionDebugger(task=task, level=level, dump_path="dump", **keys)


def load(path: Path) -> torch.Tensor:
    tensor: torch.Tensor = torch.load(path, weights_only=True)
    return tensor


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


def test_a_module_of_another_class_has_another_name(place: Path) -> None:
    class Quantized(nn.Linear):
        pass

    class Adapted(nn.Module):
        def __init__(self, base_layer: nn.Module) -> None:
            super().__init__()
            self.base_layer = base_layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.base_layer(x)

    debugger = debugger_of("L0")
    model = Net()
    run(debugger, model)
    model.fc = Quantized(4, 4)
    run(debugger, model)
    model.act = Adapted(model.act)  # type: ignore[assignment]
    run(debugger, model)
    debugger.close()

    def classes(step: str) -> set[str]:
        ends = (".forward.", ".backward.", ".parameters_grad")
        found = names(Path("dump") / step)
        return {next(n.partition(e)[0] for e in ends if e in n) for n in found}

    assert classes("step0") == {"Module.fc.Linear", "Module.act.ReLU"}
    assert classes("step1") == {"Module.fc.Quantized", "Module.act.ReLU"}
    assert classes("step2") == {
        "Module.fc.Quantized",
        "Module.act.Adapted",
        "Module.act.base_layer.ReLU",
    }


def test_methods_of_the_class_are_those_of_the_latest() -> None:
    debugger_of("L1")
    probe.PrecisionDebugger.start()
    torch.exp(torch.ones(2))
    probe.PrecisionDebugger.stop()
    probe.PrecisionDebugger.step()
    assert "Torch.exp.0.forward" in names(Path("dump/step0"))


def test_without_a_debugger_the_class_says_so() -> None:
    with pytest.raises(RuntimeError, match="make a PrecisionDebugger first"):
        probe.PrecisionDebugger.start()


def test_two_debuggers_dump_beside_each_other() -> None:
    first = probe.PrecisionDebugger(task="tensor", level="L0", dump_path="first")
    second = probe.PrecisionDebugger(task="tensor", level="L1", dump_path="second")
    model = Net()
    for debugger in (first, second):
        debugger.start(model)
    model(torch.ones(2, 4)).sum().backward()
    for debugger in (first, second):
        debugger.stop()
    assert set(entries(Path("first/step0/rank"))) == MODULES
    assert "Functional.softmax.0.forward" in entries(Path("second/step0/rank"))


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_modules_need_a_model(level: str) -> None:
    with pytest.raises(ValueError, match=f"level {level} needs a model"):
        debugger_of(level).start()


def test_modules_of_several_models_have_the_number_of_theirs() -> None:
    models = [nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.ReLU())]
    debugger = debugger_of("L0")
    debugger.start(models)
    models[1](models[0](torch.ones(1, 4)))
    debugger.stop()
    assert names(Path("dump/step0")) == {
        "Module.0.0.Linear.forward.0",
        "Module.1.0.ReLU.forward.0",
    }


def test_what_runs_outside_of_start_and_stop_is_not_dumped() -> None:
    model = Net()
    debugger = debugger_of("mix")
    model(torch.ones(2, 4))
    debugger.start(model)
    model(torch.ones(2, 4))
    debugger.stop()
    model(torch.ones(2, 4)).sum().backward()
    torch.exp(torch.ones(1))
    debugger.start()
    torch.abs(torch.ones(1))
    debugger.stop()
    found = names(Path("dump/step0"))
    assert {name for name in found if "Linear" in name} == {
        "Module.fc.Linear.forward.0",
        "Module.fc.Linear.forward.1",
    }
    assert "Torch.abs.0.forward" in found
    assert "Torch.exp.0.forward" not in found


def test_a_backward_behind_stop_is_in_the_step() -> None:
    model = Net()
    debugger = debugger_of("mix")
    debugger.start(model)
    loss = model(torch.ones(2, 4)).sum()
    debugger.stop()
    assert "Module.fc.Linear.forward.0" in names(Path("dump/step0"))
    loss.backward()
    debugger.step()
    assert names(Path("dump/step0")) >= MODULES
    assert "Functional.linear.0.backward" in names(Path("dump/step0"))
    tree = json.loads(Path("dump/step0/rank/construct.json").read_text())
    assert tree["Functional.linear.0.backward"] == "Module.fc.Linear.backward.0"


def test_forward_backward_dump_end_dumps_backwards_of_what_was_dumped() -> None:
    model = Net()
    debugger = debugger_of("L1")
    debugger.start(model)
    loss = model(torch.ones(2, 4)).sum()
    debugger.forward_backward_dump_end()
    torch.exp(loss).backward()
    debugger.stop()
    found = names(Path("dump/step0"))
    assert {"Functional.linear.0.backward", "Tensor.sum.0.backward"} <= found
    assert not any("exp" in name for name in found)


@pytest.mark.parametrize(
    "words, expected",
    [
        (["all"], {"forward": "input output", "backward": "input output"}),
        (["forward"], {"forward": "input output"}),
        (["backward"], {"backward": "input output"}),
        (["input"], {"forward": "input", "backward": "input"}),
        (["forward", "output"], {"forward": "output"}),
        (["backward", "input"], {"backward": "input"}),
    ],
)
def test_data_modes_are_combined(
    words: list[str], expected: dict[str, str], place: Path
) -> None:
    run(probe.PrecisionDebugger(str(config(place, block_data_mode=words)), level="L1"))
    found: dict[str, set[str]] = {}
    for entry, of in entries(Path("dump/step0/rank")).items():
        direction = entry.rpartition(".")[2]
        for leaf in of:
            side = leaf.partition("_")[0].partition(".")[0]
            found.setdefault(direction, set()).add(side)
    assert found == {key: set(value.split()) for key, value in expected.items()}


@pytest.mark.parametrize(
    "words", [["all", "forward"], ["sideways"], "all", [1]], ids=str
)
def test_bad_data_modes_are_refused(words: Any, place: Path) -> None:
    with pytest.raises(ValueError, match="data_mode"):
        probe.PrecisionDebugger(str(config(place, block_data_mode=words)))


def test_a_list_has_parts_of_names(place: Path) -> None:
    file = config(place, block_list=["linear.1", "name-regex(^Torch.*exp)"])
    model = Net()
    debugger = probe.PrecisionDebugger(str(file), level="L1")
    debugger.start(model)
    torch.exp(model(torch.ones(2, 4))).sum().backward()
    debugger.stop()
    assert names(Path("dump/step0")) == {
        "Functional.linear.1.forward",
        "Functional.linear.1.backward",
        "Torch.exp.0.forward",
        "Torch.exp.0.backward",
    }


def test_at_mix_a_list_takes_what_is_inside_of_its_modules(place: Path) -> None:
    run(
        probe.PrecisionDebugger(
            str(config(place, block_list=["act.ReLU"])), level="mix"
        )
    )
    assert names(Path("dump/step0")) == {
        "Module.act.ReLU.forward.0",
        "Module.act.ReLU.backward.0",
        "Functional.relu.0.forward",
        "Functional.relu.0.backward",
    }


@pytest.mark.parametrize(
    "level, scope, expected",
    [
        (
            "L1",
            ["Functional.linear.1.forward", "Functional.softmax.0.forward"],
            {
                "Functional.linear.1.forward",
                "Functional.relu.0.forward",
                "Functional.softmax.0.forward",
            },
        ),
        (
            "L1",
            ["Functional.relu.0.backward", "Functional.linear.1.backward"],
            {"Functional.relu.0.backward", "Functional.linear.1.backward"},
        ),
        (
            "L0",
            ["Module.fc.Linear.forward.1", "Module.act.ReLU.forward.0"],
            {"Module.fc.Linear.forward.1", "Module.act.ReLU.forward.0"},
        ),
        (
            "mix",
            ["Module.act.ReLU.forward.0", "Functional.softmax.0.forward"],
            {
                "Module.act.ReLU.forward.0",
                "Functional.relu.0.forward",
                "Functional.softmax.0.forward",
            },
        ),
    ],
)
def test_a_scope_goes_from_one_name_to_another(
    level: str, scope: list[str], expected: set[str], place: Path
) -> None:
    run(probe.PrecisionDebugger(str(config(place, block_scope=scope)), level=level))
    assert names(Path("dump/step0")) == expected


@pytest.mark.parametrize(
    "level, scope",
    [
        ("L0", ["Functional.linear.0.forward", "Functional.linear.1.forward"]),
        ("L1", ["Module.fc.Linear.forward.0", "Module.fc.Linear.forward.1"]),
        ("L1", ["Functional.linear.0.forward"]),
        ("L1", ["linear", "relu"]),
    ],
)
def test_bad_scopes_are_refused(level: str, scope: list[str], place: Path) -> None:
    with pytest.raises(ValueError, match="scope"):
        probe.PrecisionDebugger(str(config(place, block_scope=scope)), level=level)


@pytest.mark.parametrize(
    "risk, has, lacks",
    [
        (
            "ALL",
            {"Torch.zeros_like", "Tensor.reshape", "Torch.matmul", "Torch.exp"},
            set(),
        ),
        (
            "FOCUS",
            {"Torch.matmul", "Torch.exp"},
            {"Torch.zeros_like", "Tensor.reshape"},
        ),
        (
            "CORE",
            {"Torch.matmul", "Functional.linear"},
            {"Torch.exp", "Tensor.reshape"},
        ),
        (None, {"Tensor.reshape"}, set()),
    ],
)
def test_the_risk_level_chooses_functions(
    risk: str | None, has: set[str], lacks: set[str], place: Path
) -> None:
    debugger = probe.PrecisionDebugger(str(config(place, risk_level=risk)), level="L1")
    debugger.start()
    x = torch.zeros_like(torch.ones(2, 2)).reshape(2, 2)
    torch.exp(torch.matmul(functional.linear(x, x), x))
    debugger.stop()
    found = {name.rsplit(".", 2)[0] for name in names(Path("dump/step0"))}
    assert has <= found
    assert not lacks & found


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


def test_a_token_range_counts_forwards() -> None:
    model = Net()
    debugger = debugger_of("L0")
    debugger.start(model, token_range=[1, 2])
    with torch.no_grad():
        for number in range(5):
            model(torch.full((1, 4), float(number)))
    debugger.stop()
    data = Path("dump/step0/rank/dump_tensor_data")
    assert load(data / "Module.fc.Linear.forward.0.input.0.pt")[0, 0] == 1
    assert load(data / "Module.fc.Linear.forward.2.input.0.pt")[0, 0] == 2
    assert "Module.fc.Linear.forward.4" not in names(Path("dump/step0"))


@pytest.mark.parametrize("bad", [[2, 1], [1], ["a", "b"], [-1, 2]])
def test_bad_token_ranges_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="token_range"):
        debugger_of("L0").start(Net(), token_range=bad)


def test_without_extra_info_there_is_the_dump_alone(place: Path) -> None:
    run(probe.PrecisionDebugger(str(config(place, extra_info=False)), level="mix"))
    assert {path.name for path in Path("dump/step0/rank").iterdir()} == {
        "dump.json",
        "dump_tensor_data",
    }


def test_functions_of_the_program_are_dumped_when_registered() -> None:
    class Tools:
        @staticmethod
        def double(x: torch.Tensor) -> torch.Tensor:
            return torch.mul(x, 2)

    debugger = debugger_of("L1")
    debugger.register_custom_api(Tools, "double")
    debugger.register_custom_api(Tools, "double", "other")
    debugger.start()
    assert Tools.double(torch.ones(2)).tolist() == [2, 2]
    debugger.restore_custom_api(Tools, "double")
    Tools.double(torch.ones(2))
    debugger.stop()
    found = names(Path("dump/step0"))
    assert {"Tools.double.0.forward", "Torch.mul.0.forward"} <= found
    assert "Torch.mul.1.forward" not in found
    with pytest.raises(ValueError, match="no function 'triple'"):
        debugger.register_custom_api(Tools, "triple")


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
    assert "sparse.0.debug" in data
    assert "table_grad.0.debug" in data
    told = [each.getMessage() for each in caplog.records if "`meta`" in each.message]
    assert len(told) == 1


def test_a_backward_behind_the_end_of_a_debugger_runs() -> None:
    debugger = debugger_of("debug")
    x = torch.ones(2, requires_grad=True)
    debugger.save(x, "x")
    debugger.close()
    (x * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2]


def test_a_module_is_dumped_under_a_name_of_its_own() -> None:
    model = Net()
    debugger_of("L0")
    probe.module_dump(model.fc, "mine")
    model(torch.ones(2, 4))
    probe.module_dump_end()
    model(torch.ones(2, 4))
    probe.PrecisionDebugger.stop()
    assert names(Path("dump/step0")) == {
        "Module.mine.Linear.forward.0",
        "Module.mine.Linear.forward.1",
    }


def test_the_file_is_looked_at_while_the_program_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msitd.probe.reloading._ENABLED_S", 0.0)
    monkeypatch.setattr("msitd.probe.reloading._DISABLED_S", 0.0)
    file = config(place, level="L0", dump_enable=False)
    debugger = probe.PrecisionDebugger(str(file))
    model = Net()
    run(debugger, model)
    config(place, level="L0", dump_enable=True, block_data_mode=["forward"])
    run(debugger, model)
    # An invalid file changes nothing.
    file.write_text("{")
    run(debugger, model)
    config(place, level="L1", dump_enable=True)
    run(debugger, model)
    config(place, level="L1", dump_enable=False)
    run(debugger, model)
    assert steps_of(Path("dump")) == {"step1", "step2", "step3"}
    assert names(Path("dump/step1")) == names(Path("dump/step2"))
    assert all("forward" in name for name in names(Path("dump/step1")))
    assert "Functional.linear.0.forward" in names(Path("dump/step3"))


def test_without_dump_enable_the_file_is_not_looked_at(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msitd.probe.reloading._ENABLED_S", 0.0)
    debugger = probe.PrecisionDebugger(str(config(place, level="L0")))
    model = Net()
    run(debugger, model)
    config(place, level="L0", dump_enable=False)
    run(debugger, model)
    assert steps_of(Path("dump")) == {"step0", "step1"}


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


@pytest.mark.parametrize(
    "where, key, value",
    [
        ("block_", "file_format", "npy"),
        ("block_", "backward_input", ["a.pt"]),
        ("block_", "bench_path", "golden"),
        ("block_", "online_run_ut", True),
        ("block_", "check_mode", "aicore"),
        ("", "acl_config", "acl.json"),
        ("", "level", "L2"),
    ],
)
def test_keys_that_are_not_done_are_refused(
    where: str, key: str, value: Any, place: Path
) -> None:
    with pytest.raises(ValueError, match="is not done here: .{20}"):
        probe.PrecisionDebugger(str(config(place, **{where + key: value})))


def loaded(place: Path, begins_at: int = 0, **keys: Any) -> dict[str, torch.Tensor]:
    """Runs a step of a disturbed model with inputs of a dump. Returns its tensors."""
    run(debugger_of("L0"), steps=2)
    debuggers.forget_all()
    said = {"path": "dump", "modules": ["Module.act.ReLU.forward.0"], **keys}
    file = config(place, level="L0", dump_path="again", load=said)
    debugger = probe.PrecisionDebugger(str(file))
    torch.manual_seed(0)
    model = Net()
    with torch.no_grad():
        model.fc.weight.mul_(1.1)
    debugger.set_init_step(begins_at)
    debugger.start(model)
    result = model(torch.ones(2, 4))
    debugger.stop()
    result.square().sum().backward()
    debugger.step()
    gradient = model.fc.weight.grad
    return {
        "result": result.detach(),
        "gradient": torch.zeros(1) if gradient is None else gradient,
    }


def test_inputs_of_a_dump_take_the_place_of_others(place: Path) -> None:
    found = loaded(place)
    torch.manual_seed(0)
    # The disturbed layers have no effect any more, and get no gradients.
    assert found["result"].equal(Net()(torch.ones(2, 4)))
    assert not found["gradient"].any()
    assert not Path("again").exists()


def test_gradients_may_go_on_behind_a_loaded_input(place: Path) -> None:
    found = loaded(place, keep_gradients=True, dump_after_load=True)
    torch.manual_seed(0)
    assert found["result"].equal(Net()(torch.ones(2, 4)))
    assert found["gradient"].any()
    # The dump has the inputs that the module received.
    name = "dump_tensor_data/Module.act.ReLU.forward.0.input.0.pt"
    again, before = (
        load(Path(root) / "step0/rank" / name) for root in ("again", "dump")
    )
    assert again.equal(before)


@pytest.mark.parametrize("step, is_loaded", [(0, False), (1, True)])
def test_steps_of_a_load_are_chosen(step: int, is_loaded: bool, place: Path) -> None:
    found = loaded(place, step, step=[1])
    torch.manual_seed(0)
    assert found["result"].equal(Net()(torch.ones(2, 4))) == is_loaded


def test_what_cannot_be_loaded_is_told_and_stays(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = loaded(
        place, modules=["Module.act.ReLU.forward.3", "Module.no.X.forward.0"]
    )
    torch.manual_seed(0)
    assert not found["result"].equal(Net()(torch.ones(2, 4)))
    assert "step 0: Module.act.ReLU.forward.3 has not run" in caplog.text
    assert "step 0: Module.no.X.forward.0 has not run" in caplog.text
    debuggers.forget_all()
    # Another shape is refused.
    file = Path("dump/step0/rank/dump_tensor_data/Module.act.ReLU.forward.0.input.0.pt")
    torch.save(torch.ones(1, 4), file)
    said = {"path": "dump", "modules": ["Module.act.ReLU.forward.0"]}
    debugger = probe.PrecisionDebugger(str(config(place, level="L0", load=said)))
    model = Net()
    debugger.start(model)
    expected = model(torch.ones(2, 4))
    debugger.stop()
    assert "is not replaced: it was torch.float32 (1, 4)" in caplog.text
    assert model(torch.ones(2, 4)).equal(expected)


@pytest.mark.parametrize(
    "said",
    [
        None,
        {},
        {"path": "none", "modules": ["Module.a.B.forward.0"]},
        {"path": ".", "modules": ["fc"]},
        {"path": ".", "modules": ["Module.a.B.backward.0"]},
        {"path": ".", "modules": ["Module.a.B.forward.0"] * 2},
    ],
)
def test_bad_loads_are_refused(said: Any, place: Path) -> None:
    with pytest.raises(ValueError, match="load"):
        probe.PrecisionDebugger(str(config(place, load=said)))


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


def test_seeds_make_programs_alike() -> None:
    probe.seed_all(7, mode=True)
    first = torch.rand(3)
    probe.seed_all(7)
    assert torch.rand(3).equal(first)
    assert not torch.are_deterministic_algorithms_enabled()
    for bad in (-1, True, "1"):
        with pytest.raises(ValueError, match="seed"):
            probe.seed_all(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is_enhanced"):
        probe.seed_all(is_enhanced=True)


def test_a_seed_of_the_file_is_used(place: Path) -> None:
    file = str(config(place, seed=7, is_deterministic=True))
    probe.PrecisionDebugger(file)
    first = torch.rand(3)
    assert torch.are_deterministic_algorithms_enabled()
    probe.seed_all(7)
    assert torch.rand(3).equal(first)


def test_a_loader_steps(place: Path) -> None:
    file = config(place, level="L1", enable_dataloader=True)
    debugger = probe.PrecisionDebugger(str(file))
    original = torch.utils.data.dataloader._BaseDataLoaderIter.__next__
    loader = torch.utils.data.DataLoader(torch.arange(3.0))
    for batch in loader:
        torch.exp(batch)
    debugger.close()
    assert steps_of(Path("dump")) == {"step0", "step1", "step2"}
    for step in ("step0", "step2"):
        assert "Torch.exp.0.forward" in names(Path("dump") / step)
    assert torch.utils.data.dataloader._BaseDataLoaderIter.__next__ is not original


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("model", ["mlp", "conv", "transformer"])
def test_fifty_steps_have_the_same_bits(model: str, level: str) -> None:
    class Nothing:
        def start(self, *_: Any) -> None: ...

        stop = step = start

    plain = make(model)
    expected = train(Nothing(), plain, level, steps=50)
    dumped = make(model)
    debugger = debugger_of(level, "statistics", step=["3-5"])
    losses = train(debugger, dumped, level, steps=50)
    assert all(map(torch.equal, losses, expected))
    parameters = zip(dumped[0].parameters(), plain[0].parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in parameters)
    assert steps_of(Path("dump")) == {"step3", "step4", "step5"}


def test_nothing_is_left_when_it_is_closed() -> None:
    model = Net()
    exp = torch.exp
    debugger = debugger_of("mix")
    run(debugger, model)
    debugger.close()
    assert torch.exp is exp
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    for parameter in model.parameters():
        assert not parameter._backward_hooks


def test_a_folder_of_an_earlier_program_is_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    old = Path("dump/step0/rank/dump_tensor_data/old.pt")
    old.parent.mkdir(parents=True)
    old.touch()
    run(debugger_of("L0"))
    assert not old.exists()
    assert "dump/step0/rank is of an earlier program, and replaced" in caplog.text
    assert steps_of(Path("dump")) == {"step0"}


def test_a_folder_that_cannot_be_written_ends_no_program(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    debugger = debugger_of("L1")
    for step in range(3):
        debugger.start()
        torch.exp(torch.ones(2))
        # A file is where the folder of the second step should be.
        if step == 1:
            Path("dump/step1").write_text("")
        debugger.stop()
        debugger.step()
    assert names(Path("dump/step0")) == names(Path("dump/step2"))
    # It is retried at the end.
    Path("dump/step1").unlink()
    debugger.close()
    assert names(Path("dump/step0")) == names(Path("dump/step1"))
    assert (
        "dump/step1 lacks something; the run dump has what is recorded" in caplog.text
    )


def test_a_daemon_that_ends_ends_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("msitd.probe.step_writer._FLUSH_MAX_S", 0.5)
    other = Daemon(tmp_path)
    other.start()
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{other.socket_dir}")
    debugger = debugger_of("L1")
    debugger.start()
    torch.exp(torch.ones(2))
    debugger.stop()
    debugger.step()
    other.kill()
    debugger.start()
    torch.exp(torch.ones(2))
    debugger.stop()
    assert "dump/step1 lacks something" in caplog.text
    other.start()
    monkeypatch.setattr("msitd.probe.step_writer._FLUSH_MAX_S", 60.0)
    debugger.step()
    assert names(Path("dump/step1")) == {"Torch.exp.0.forward"}
    debuggers.forget_all()
    other.stop()


@pytest.mark.parametrize("level", ["L0", "debug"])
def test_a_daemon_that_is_gone_delays_the_program_once(
    level: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # A record waits longer than a step, so the two waits can be told apart by
    # time.
    monkeypatch.setattr("msitd._core.daemon.face_client.LONG_S", 20.0)
    monkeypatch.setattr("msitd.probe.step_writer._FLUSH_MAX_S", 1.5)
    other = Daemon(tmp_path)
    other.start()
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{other.socket_dir}")
    debugger = debugger_of(level)
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(8)])

    def seconds_of_a_step() -> float:
        begin = time.monotonic()
        debugger.start(model)
        result = model(torch.ones(2048, 512))
        if level == "debug":
            for number in range(8):
                debugger.save(result * number, "x", save_backward=False)
        debugger.stop()
        debugger.step()
        return time.monotonic() - begin

    with torch.no_grad():
        plain = seconds_of_a_step()
        other.kill()
        # 32 MB per step exceed the buffer.
        waits = [seconds_of_a_step() - plain for _ in range(12)]
        assert waits[0] > 1.0
        assert sum(waits[1:]) < 1.5
        assert "is not dumped" in caplog.text or "is not saved" in caplog.text
        # A daemon that is running again receives records again.
        other.start()
        deadline = time.monotonic() + 30
        last = ""
        while not last:
            assert time.monotonic() < deadline
            last = f"step{debugger._step}"
            seconds_of_a_step()
            last = last if (Path("dump") / last).exists() else ""
            time.sleep(0.1)
        debuggers.forget_all()
    made = [set(os.listdir(Path("dump") / step / "rank")) for step in ("step0", last)]
    assert made[0] == made[1]
    other.stop()


SCRIPT = """
import os, sys, signal, torch
from msitd.probe import PrecisionDebugger
debugger = PrecisionDebugger(task="tensor", level="L1", dump_path="dump")
for step in range(2):
    debugger.start()
    torch.exp(torch.ones(3))
    if step == 1:
        {end}
    debugger.stop()
    debugger.step()
"""


def script(end: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(end=end)],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
        timeout=60,
    )


def test_the_end_of_the_program_writes_what_is_dumped_by_then() -> None:
    done = script("raise ValueError")
    assert done.returncode == 1
    assert names(Path("dump/step1")) == {"Torch.exp.0.forward"}


def test_after_a_kill_the_step_is_made_of_the_run(daemon: Daemon) -> None:
    done = script(
        "debugger._recording.client.flush(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert done.returncode == -signal.SIGKILL
    assert steps_of(Path("dump")) == {"step0"}
    daemon.ctl("run", "export", "dump", "--format", "msprobe", "--out", "later")
    assert "Torch.exp.0.forward" in entries(Path("later/step1/rank0"))


def test_without_a_daemon_one_is_started(place: Path) -> None:
    variables = {"MSITD_ENDPOINT": "", "MSITCTL_ENDPOINT": ""}
    done = script("pass", **variables)
    if "no daemon of msitd runs here" not in done.stderr:
        pytest.skip("a daemon of the node is there")
    assert done.returncode == 0, done.stderr
    assert names(Path("dump/step1")) == {"Torch.exp.0.forward"}
    assert steps_of(Path("dump")) == {"step0", "step1"}


RANK = """
import sys, torch, torch.distributed as dist
from msitd.probe import PrecisionDebugger
early = sys.argv[1] == "early"
debugger = PrecisionDebugger(task="statistics", level="L1", dump_path="dump")
if early:
    debugger.start()
dist.init_process_group("gloo")
for step in range(2):
    debugger.start()
    x = torch.full((2,), float(dist.get_rank()))
    dist.all_reduce(x)
    debugger.stop()
    debugger.step()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("when", ["early", "late"])
def test_each_rank_has_its_folder(when: str, place: Path) -> None:
    (place / "rank.py").write_text(RANK)
    with_port = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*with_port, "--nproc-per-node=2", "rank.py", when],
        check=True,
        capture_output=True,
        timeout=120,
    )
    for step in ("step0", "step1"):
        assert steps_of(Path("dump") / step) == {"rank0", "rank1"}
        for rank in ("rank0", "rank1"):
            found = entries(Path("dump") / step / rank)
            assert "Distributed.all_reduce.0.forward" in found


def test_a_forked_child_dumps_nothing() -> None:
    debugger = debugger_of("L1")
    debugger.start()
    torch.exp(torch.ones(1))
    child = os.fork()
    if child == 0:
        try:
            torch.exp(torch.ones(1))
            debugger.stop()
            debugger.step()
            debugger.close()
        finally:
            os._exit(0)
    deadline = time.monotonic() + 30
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    debugger.stop()
    assert names(Path("dump/step0")) == {"Torch.exp.0.forward"}


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
