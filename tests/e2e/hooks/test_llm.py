"""msitd.llm: the folders of a dump of a torch model, parameter by parameter."""

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from llm_dumps import (
    FOLDERS,
    Model,
    batches,
    dump,
    dump_place,  # noqa: F401
    files_of,
    folders_of,
    load,
    registration_variables,
    tokens_of,
)
from msitd import llm
from torch import nn
from torch.nn import functional


def test_by_default_the_first_forward_lies_in_the_current_folder(place: Path) -> None:
    model = Model()
    device = dump(model)
    assert device.parents[2] == place
    assert device.parents[1].name.startswith("msit_dump_20")
    assert tokens_of(device) == {"0"}
    assert folders_of(device) == FOLDERS
    batch = batches()[0]
    first = model.block.fc(batch)
    assert load(device / "0/root.block.fc/input_0.pth").equal(batch)
    assert load(device / "0/root.block.fc/output.pth").equal(first)
    # A repeated call has its own folder, and does not overwrite the first.
    assert load(device / "0/root.block.fc.1/input_0.pth").equal(first)
    # No intermediate files are left.
    assert files_of(device.parents[1]) == {"torch_tensors"}
    assert files_of(device) == {"0", "execution_order", "model_tree.json"}


def test_the_tree_has_shapes_and_dtypes() -> None:
    tree = json.loads((dump(Model()) / "model_tree.json").read_text())

    def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield node
        for child in node["children"]:
            yield from walk(child)

    nodes = {node["name"]: node for node in walk(tree)}
    shapes = {
        f"{op}.{name}": (parameter["dtype"], parameter["shape"])
        for op, node in nodes.items()
        for name, parameter in node.get("parameters", {}).items()
    }
    assert shapes == {
        f"root.{name}": ("float32", list(parameter.shape))
        for name, parameter in Model().named_parameters()
    }
    assert all({"name", "type", "children"} <= node.keys() for node in nodes.values())


def test_keywords_and_results_with_names_are_dumped() -> None:
    model = Model()
    device = dump(model)
    assert load(device / "0/root.block/input_scale.pth").equal(torch.ones(4) / 2)
    logits = model(batches()[0])["logits"]
    assert load(device / "0/root/output_logits.pth").equal(logits)


def test_dump_path(place: Path) -> None:
    device = dump(dump_path=str(place / "some" / "where"))
    assert device.parents[2] == place / "some" / "where"


@pytest.mark.parametrize(
    ("given", "there"),
    [
        ([2, 1], {"1", "2"}),
        ([], {"0"}),
        (list(range(100_000)), {"0", "1", "2"}),
    ],
)
def test_token_range(given: list[int], there: set[str]) -> None:
    model = Model()
    device = dump(model, token_range=given)
    assert tokens_of(device) == there
    for token in there:
        batch = load(device / token / "root" / "input_0.pth")
        assert batch.equal(batches()[int(token)])


def test_module_list() -> None:
    device = dump(module_list=[nn.Linear, nn.ReLU])
    assert folders_of(device) == FOLDERS - {"root", "root.block"}


@pytest.mark.parametrize(
    ("part", "files"),
    [(0, {"input_0.pth"}), (1, {"output.pth"}), (2, {"input_0.pth", "output.pth"})],
)
def test_tensor_part(part: int, files: set[str]) -> None:
    device = dump(tensor_part=part, mode=["module", "api"])
    assert files_of(device / "0/root.head") == files
    inputs = {"input_0.pth", "input_1.pth", "input_2.pth"}
    functions = {name for name in files if name == "output.pth"}
    if part != 1:
        functions |= inputs
    assert files_of(device / "0/root.head.linear") == functions


def test_device_id_is_no_matter_on_a_cpu_and_else_has_to_be_that_of_the_model(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert folders_of(dump(device_id=3)) == FOLDERS
    config = llm.DumpConfig(dump_path=str(place / "other"), device_id=1)
    elsewhere = nn.Linear(2, 2, device="meta")
    with llm.register_hook(elsewhere, config) as handle:
        elsewhere(torch.ones(1, 2, device="meta"))
    assert handle.folder is None
    assert not (place / "other").exists()
    assert "not on device 1" in caplog.text


def test_dump_last_logits() -> None:
    device = dump(dump_last_logits=True, token_range=[0, 2])
    for token in (0, 2):
        assert folders_of(device, token) == {"root.head"}
        assert files_of(device / str(token) / "root.head") == {"output.pth"}


def test_dump_last_logits_leaves_functions_alone() -> None:
    device = dump(dump_last_logits=True, mode=["module", "api"], tensor_part=1)
    assert folders_of(device) == APIS | {"root.head"}


APIS = {
    "root.block.fc.linear",
    "root.block.fc.linear.1",
    "root.block.act.relu",
    "root.block.softmax",
    "root.head.linear",
}


def test_mode_api() -> None:
    model = Model()
    device = dump(model, mode="api", token_range=[1])
    assert tokens_of(device) == {"1"}
    assert folders_of(device, 1) == APIS
    folder = device / "1/root.block.fc.linear"
    assert load(folder / "input_0.pth").equal(batches()[1])
    assert load(folder / "input_1.pth").equal(model.block.fc.weight)


def test_mode_both() -> None:
    assert folders_of(dump(mode=["module", "api"])) == APIS | FOLDERS


def test_api_list() -> None:
    device = dump(mode="api", api_list=[functional.softmax, torch.matmul])
    assert folders_of(device) == {"root.block.softmax"}


def scaled(tensor: torch.Tensor, by: float) -> torch.Tensor:
    """A function of a user."""
    return tensor * by


class Outer:
    """A user's class."""

    class Inner:
        """A nested one."""

        def shift(self, tensor: torch.Tensor) -> torch.Tensor:
            """A method."""
            return tensor + 1

        @staticmethod
        def halved(tensor: torch.Tensor) -> torch.Tensor:
            """A method without an object."""
            return tensor / 2


class UsesOthers(nn.Module):
    """Calls functions of torch and of the user."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Calls each once."""
        x = scaled(self.fc(x), 2.0).add_(1.0)
        return Outer.Inner().shift(x)


def test_functions_of_tensors_and_users_are_found(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shift = Outer.Inner.shift
    wanted = [
        torch.nn.functional.linear,
        torch.Tensor.add_,
        scaled,
        Outer.Inner.shift,
    ]
    handle = llm.register_hook(
        model := UsesOthers(), llm.DumpConfig(mode="api", api_list=wanted)
    )
    x = batches()[0]
    with torch.no_grad():
        first = model(x)
    handle.remove()
    assert "not dumped" not in caplog.text
    assert handle.folder is not None
    (device,) = Path(handle.folder, "torch_tensors").iterdir()
    assert folders_of(device) == {
        "root.fc.linear",
        "root.add_",
        "root.scaled",
        "root.shift",
    }
    assert (load(device / "0/root.shift/input_1.pth") + 1).equal(first)
    assert load(device / "0/root.shift/output.pth").equal(first)
    # All functions are restored.
    assert vars(Outer.Inner)["shift"] is shift
    assert scaled.__name__ == "scaled" and type(scaled).__name__ == "function"
    with torch.no_grad():
        assert model(x).equal(first)


def test_functions_that_are_not_found_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def local(tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    unknown = [local, len, Outer.Inner.halved]
    device = dump(mode="api", api_list=[functional.softmax, *unknown])
    assert folders_of(device) == {"root.block.softmax"}
    (line,) = [r.getMessage() for r in caplog.records if "api_list" in r.getMessage()]
    assert f"{local.__module__}.{local.__qualname__}" in line
    assert "builtins.len" in line and "Outer.Inner.halved" in line


def test_a_list_of_which_no_function_is_found_is_refused() -> None:
    config = llm.DumpConfig(mode="api", api_list=[lambda: None])
    with pytest.raises(ValueError, match=r"api_list has .*<lambda>"):
        llm.register_hook(Model(), config)


def test_functions_outside_of_the_model_are_not_dumped() -> None:
    model = Model()
    config = llm.DumpConfig(mode="api", token_range=[0, 1])
    with llm.register_hook(model, config) as handle:
        for batch in batches(2):
            functional.relu(model(batch)["logits"])
    assert handle.folder is not None
    (device,) = (Path(handle.folder) / "torch_tensors").iterdir()
    assert folders_of(device, 0) == folders_of(device, 1) == APIS


def test_dump_weight() -> None:
    model = Model()
    device = dump(model, dump_weight=True, token_range=[1])
    assert files_of(device / "weights") == {
        f"root.{name}.pth" for name, _ in model.named_parameters()
    }
    weight = load(device / "weights/root.head.weight.pth")
    assert weight.equal(model.head.weight)
    assert tokens_of(device) == {"1"}


def test_layer_name_is_about_modules_functions_and_weights() -> None:
    device = dump(layer_name="root.*.fc*", mode=["module", "api"], dump_weight=True)
    assert folders_of(device) == {
        "root.block.fc",
        "root.block.fc.1",
        "root.block.fc.linear",
        "root.block.fc.linear.1",
    }
    assert files_of(device / "weights") == {
        "root.block.fc.weight.pth",
        "root.block.fc.bias.pth",
    }


@pytest.mark.parametrize("pattern", ["", "head", "root.hea", "root.[bh]ead"])
def test_layer_name_is_of_the_whole_name(pattern: str) -> None:
    with llm.register_hook(Model(), llm.DumpConfig(layer_name=pattern)) as handle:
        pass
    assert handle.folder is not None
    assert not list((Path(handle.folder) / "torch_tensors").iterdir())


@pytest.mark.parametrize(
    ("mode", "files"),
    [
        (0, {"input_0.pth", "output.pth"}),
        (1, {"statistics.csv"}),
        (2, {"input_0.pth", "output.pth", "statistics.csv"}),
    ],
)
def test_dump_statistics_mode(mode: int, files: set[str]) -> None:
    model = Model()
    device = dump(model, dump_statistics_mode=mode, dump_weight=True)
    assert files_of(device / "0/root.head") == files
    assert len(files_of(device / "weights")) == 4
    if mode == 0:
        return
    with open(device / "0/root.head/statistics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["NodeType"], row["InputOutput"]) for row in rows] == [
        ("Linear", "Input"),
        ("Linear", "Output"),
    ]
    logits = model(batches()[0])["logits"]
    assert float(rows[1]["Max"]) == pytest.approx(logits.max().item())
    assert float(rows[1]["L2Norm"]) == pytest.approx(logits.norm().item())


@pytest.mark.parametrize("statistics_mode", [0, 1])
def test_analyze(statistics_mode: int) -> None:
    model = Model()
    device = dump(
        model,
        analyze=True,
        mode=["module", "api"],
        token_range=[0, 1],
        dump_statistics_mode=statistics_mode,
    )
    text = (device.parents[1] / "tensor_analyze.csv").read_bytes().decode()
    assert text.startswith(
        "Node Name,Node Type,Tensor Path,dtype,shape,max,min,variance,mean\r\n"
    )
    rows = list(csv.DictReader(text.splitlines()))
    path = str(device / "1/root.head/output")
    path += ".pth" if statistics_mode == 0 else ""
    (row,) = (row for row in rows if row["Tensor Path"] == path)
    logits = model(batches()[1])["logits"]
    assert row["Node Name"] == "root.head"
    assert row["Node Type"] == "Linear"
    assert row["dtype"] == "torch.float32"
    assert row["shape"] == "torch.Size([2, 3])"
    assert float(row["max"]) == pytest.approx(logits.max().item())
    assert float(row["min"]) == pytest.approx(logits.min().item())
    assert float(row["variance"]) == pytest.approx(logits.var().item())
    assert float(row["mean"]) == pytest.approx(logits.mean().item(), abs=1e-6)
    kinds = {row["Node Name"]: row["Node Type"] for row in rows}
    assert kinds["root.block.fc.1"] == "Linear"
    assert kinds["root.block.act.relu"] == "Model"
    assert kinds["root.block.fc.linear.1"] == "Model"


def test_seed_makes_programs_deterministic() -> None:
    numbers = []
    for _ in range(2):
        llm.DumpConfig(seed=2345)
        numbers.append(torch.rand(3))
    assert numbers[0].equal(numbers[1])
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ["PYTHONHASHSEED"] == "2345"
    assert [os.environ[name] for name in registration_variables()] == [
        "1",
        "true",
        "0",
        "0",
    ]


def test_without_a_seed_nothing_is_set() -> None:
    llm.DumpConfig()
    assert not torch.are_deterministic_algorithms_enabled()
    assert os.environ["PYTHONHASHSEED"] == "5"


def test_seed_all_has_the_default_of_msit() -> None:
    llm.seed_all()
    first = torch.rand(3)
    torch.manual_seed(2024)
    assert torch.rand(3).equal(first)


def test_the_third_parameter_is_a_seed_or_analyze() -> None:
    config = llm.DumpConfig("./", [0], 7)
    assert (config.seed, config.analyze) == (7, False)
    config = llm.DumpConfig("./", [0], True)
    assert (config.seed, config.analyze) == (None, True)
    with pytest.raises(ValueError, match="and so is seed"):
        llm.DumpConfig("./", [0], 7, seed=8)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dump_path": 3}, "dump_path is 3"),
        ({"token_range": (0, 1)}, "token_range is .* no list"),
        ({"token_range": [0, -1]}, "token_range has -1"),
        ({"token_range": [True]}, "token_range has True"),
        ({"module_list": nn.Linear}, "module_list is .* no list"),
        ({"module_list": ["Linear"]}, "module_list has 'Linear'"),
        ({"api_list": ["relu"], "mode": "api"}, "api_list has 'relu'"),
        ({"api_list": [torch.relu]}, "api_list needs mode"),
        ({"tensor_part": 3}, "tensor_part is 3"),
        ({"tensor_part": True}, "tensor_part is True"),
        ({"device_id": "0"}, "device_id is '0'"),
        ({"dump_statistics_mode": -1}, "dump_statistics_mode is -1"),
        ({"dump_last_logits": 1}, "dump_last_logits is 1"),
        ({"mode": "layer"}, "mode is 'layer'"),
        ({"mode": []}, r"mode is \[\]"),
        ({"dump_weight": "yes"}, "dump_weight is 'yes'"),
        ({"layer_name": ["root"]}, "layer_name is"),
        ({"seed": "1"}, "seed is '1'"),
        ({"seed": 2**32}, "seed is 4294967296"),
        ({"analyze": "no"}, "analyze is 'no'"),
    ],
)
def test_a_wrong_parameter_is_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        llm.DumpConfig(**parameters)


def test_what_is_registered_is_checked_and_blocks_nothing() -> None:
    config = llm.DumpConfig()
    for wrong in (("model", config), (Model(), None), (Model(), config, "dump_grad")):
        with pytest.raises(ValueError, match="model is|config is|hook_type is"):
            llm.register_hook(*wrong)  # type: ignore[arg-type]
    assert folders_of(dump()) == FOLDERS


def test_dump_last_logits_of_a_model_that_returns_a_tensor() -> None:
    class Returning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.fc(x)) + 1

    device = dump(Returning(), dump_last_logits=True)
    assert folders_of(device) == {"root.head"}


def test_dump_last_logits_of_a_model_without_modules_is_its_result() -> None:
    device = dump(nn.Linear(4, 3), dump_last_logits=True)
    assert folders_of(device) == {"root"}
