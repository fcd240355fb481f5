"""msitd.probe: which modules, functions and directions are dumped."""

import json
from pathlib import Path
from typing import Any

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
    run,
)
from probe_models import entries
from torch import nn
from torch.nn import functional


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
