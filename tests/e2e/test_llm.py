"""msitd.llm: the folders of a dump of a torch model, parameter by parameter."""

import csv
import doctest
import json
import os
import runpy
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from msit_command import msit
from msitd import llm, query
from msitd._core.daemon import face_client, msitctl, private_daemon
from msitd.llm import registration
from torch import nn
from torch.nn import functional

from daemon import ROOT, Daemon


class Block(nn.Module):
    """Calls one module twice, and takes a keyword argument."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return functional.softmax(self.act(self.fc(self.fc(x))) * scale, dim=-1)


class Model(nn.Module):
    """Returns named results, as models of Hugging Face do."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.head(self.block(x, scale=torch.ones(4) / 2))}


MODULES = {"root", "root.block", "root.block.act", "root.block.fc", "root.head"}
FOLDERS = MODULES | {"root.block.fc.1"}


@pytest.fixture(autouse=True)
def place(user_place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A daemon at its usual location, and no seeds of another test."""
    for name in ("PYTHONHASHSEED", *registration_variables()):
        monkeypatch.setenv(name, "5")
    yield user_place
    torch.use_deterministic_algorithms(False)


def registration_variables() -> list[str]:
    return [
        "LCCL_DETERMINISTIC",
        "HCCL_DETERMINISTIC",
        "ATB_MATMUL_SHUFFLE_K_ENABLE",
        "ATB_LLM_LCOC_ENABLE",
    ]


def batches(count: int = 3) -> torch.Tensor:
    return torch.randn(count, 2, 4, generator=torch.Generator().manual_seed(1))


def dump(model: nn.Module | None = None, **parameters: Any) -> Path:
    """Runs three forwards, and returns the folder of the device."""
    if model is None:
        torch.manual_seed(0)
        model = Model()
    with (
        torch.no_grad(),
        llm.register_hook(model, llm.DumpConfig(**parameters)) as handle,
    ):
        for batch in batches():
            model(batch)
    assert handle.folder is not None
    (device,) = (Path(handle.folder) / "torch_tensors").iterdir()
    assert device.name == f"cpu_{os.getpid()}"
    return device


def folders_of(device: Path, token: int = 0) -> set[str]:
    return {path.name for path in (device / str(token)).iterdir()}


def files_of(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def load(path: Path) -> torch.Tensor:
    tensor: torch.Tensor = torch.load(path, weights_only=True)
    return tensor


def tokens_of(device: Path) -> set[str]:
    return {path.name for path in device.iterdir() if path.name.isdigit()}


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


def test_several_dumps_of_a_process_are_apart(place: Path) -> None:
    model, other = Model(), nn.Sequential(nn.Linear(4, 2))
    first = llm.register_hook(model, llm.DumpConfig(dump_path="a", token_range=[0, 1]))
    second = llm.register_hook(other, llm.DumpConfig(dump_path="a"))
    model(batches()[0])
    other(batches()[0])
    second.remove()
    model(batches()[1])
    first.remove()
    first.remove()
    model(batches()[2])
    found = {}
    for handle in (first, second):
        assert handle.folder is not None
        (found[handle],) = (Path(handle.folder) / "torch_tensors").iterdir()
    assert first.run != second.run
    assert tokens_of(found[first]) == {"0", "1"}
    assert folders_of(found[second]) == {"root", "root.0"}


def test_functions_of_two_handles_are_refused_and_leave_nothing(place: Path) -> None:
    model, other = Model(), nn.Linear(4, 2)
    config = llm.DumpConfig(mode="api")
    with llm.register_hook(model, config):
        before = set(place.iterdir())
        with pytest.raises(RuntimeError, match="recorded already"):
            llm.register_hook(other, config)
        assert set(place.iterdir()) == before
        assert not other._forward_hooks


def test_what_could_not_be_written_is_written_at_the_end(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model()
    config = llm.DumpConfig(token_range=[0, 1], dump_weight=True)
    with llm.register_hook(model, config) as handle:
        assert handle.folder is not None
        folder = Path(handle.folder)
        # No export can create its folder here.
        hidden = folder.rename(folder.with_name("hidden"))
        model(batches()[0])
        deadline = time.monotonic() + 20
        while "lacks something" not in caplog.text:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        hidden.rename(folder)
        model(batches()[1])
    (device,) = (folder / "torch_tensors").iterdir()
    assert tokens_of(device) == {"0", "1"}
    assert folders_of(device) == FOLDERS
    assert len(files_of(device / "weights")) == 4


def test_a_removed_handle_leaves_nothing_behind() -> None:
    model = Model()
    relu = functional.relu
    dump(model, mode=["module", "api"])
    assert functional.relu is relu
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_token_appears_while_the_model_runs() -> None:
    model = Model()
    with llm.register_hook(model, llm.DumpConfig(token_range=[0, 1])) as handle:
        model(batches()[0])
        assert handle.folder is not None
        tensors = Path(handle.folder) / "torch_tensors"
        deadline = time.monotonic() + 20
        while not list(tensors.glob("*/0/root/output_logits.pth")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert not list(tensors.glob("*/1"))


@pytest.mark.parametrize("mode", [["module"], ["api"], ["module", "api"]])
def test_a_compiled_model_is_dumped_as_it_is(mode: list[str]) -> None:
    model = Model()
    handle = llm.register_hook(model, llm.DumpConfig(mode=mode))
    torch.compile(model, backend="aot_eager", fullgraph=True)(batches()[0])
    handle.remove()
    assert handle.folder is not None
    (device,) = (Path(handle.folder) / "torch_tensors").iterdir()
    found = folders_of(device)
    assert found & FOLDERS == (FOLDERS if "module" in mode else set())
    # A graph does not show which of its modules is running.
    functions = {"linear", "linear.1", "linear.2", "relu", "softmax"}
    in_graph = {f"root.{name}" for name in functions} if "api" in mode else set()
    assert found - FOLDERS == in_graph


def test_a_part_that_is_compiled_keeps_its_names() -> None:
    model = Model()
    model.block = torch.compile(model.block, backend="aot_eager")  # type: ignore[assignment]
    device = dump(model, dump_weight=True)
    assert folders_of(device) == FOLDERS
    assert "root.block.fc.weight.pth" in files_of(device / "weights")


def test_the_run_and_an_import_of_the_folder_have_the_same_tensors(
    daemon: Daemon,
) -> None:
    model = Model()
    config = llm.DumpConfig(
        token_range=[0, 1], dump_weight=True, mode=["module", "api"]
    )
    with llm.register_hook(model, config) as handle:
        for batch in batches():
            model(batch)
    assert handle.folder is not None
    daemon.ctl("run", "import", handle.folder, "--run", "imported")
    with query.connect() as connection:
        recorded, imported = (
            {
                key_of(tensor): connection.tensors.read(tensor).tobytes()
                for tensor in connection.tensors.list(run)
            }
            for run in (handle.run, "imported")
        )
    assert len(recorded) > 40
    assert imported == recorded


def key_of(tensor: query.Tensor) -> tuple[object, ...]:
    """Returns the identity of a tensor, independent of the way it was recorded."""
    op, call = tensor.op, tensor.call
    # A folder does not distinguish the second call of an op from another op.
    if call > 0:
        op, call = f"{op}.{call}", 0
    return tensor.token, op, call, tensor.io, tensor.index


def test_msit_compares_two_dumps(place: Path) -> None:
    torch.manual_seed(0)
    model = Model()
    golden = dump(model, dump_path="golden")
    with torch.no_grad():
        model.head.weight[0] *= 2
    mine = dump(model, dump_path="mine")
    msit(
        place,
        *("llm", "compare", "-gp", str(golden / "0"), "-mp", str(mine / "0")),
        *("-o", str(place / "report"), "-cl", "logits"),
    )
    (report,) = (place / "report").glob("*.csv")
    rows = list(csv.DictReader(report.read_text().splitlines()))
    wrong = {
        Path(row["golden_data_path"]).parent.name
        for row in rows
        if row["max_absolute_error"] not in ("0", "0.0", "")
    }
    assert len(rows) > 2
    assert wrong == {"root", "root.head"}


_RANK = """
import sys
import torch
from msitd.llm import DumpConfig, register_hook

torch.manual_seed(int(sys.argv[1]))
model = torch.nn.Linear(4, 4)
register_hook(model, DumpConfig("ranks", [0, 1], True))
for _ in range(2):
    model(torch.ones(1, 4))
"""


def test_ranks_share_a_folder_and_a_run(daemon: Daemon, place: Path) -> None:
    (place / "rank.py").write_text(_RANK)
    ranks = [
        subprocess.Popen(
            [sys.executable, "rank.py", str(rank)],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]
    assert [rank.wait(100) for rank in ranks] == [0, 0]
    (folder,) = (place / "ranks").iterdir()
    devices = {path.name: path for path in (folder / "torch_tensors").iterdir()}
    assert set(devices) == {f"cpu_{rank.pid}" for rank in ranks}
    for device in devices.values():
        assert tokens_of(device) == {"0", "1"}
        assert (device / "model_tree.json").exists()
    lines = (folder / "tensor_analyze.csv").read_text().splitlines()
    # A header, and one input and one output of each token and rank.
    assert len(lines) == 1 + 2 * 2 * 2
    with query.connect() as connection:
        (run,) = connection.runs.list()
        assert run.name == folder.name
        assert {t.rank for t in connection.tensors.list(folder.name)} == {0, 1}


_ENDLESS = """
import time
import torch
from msitd.llm import DumpConfig, register_hook

model = torch.nn.Linear(4, 4)
register_hook(model, DumpConfig("dump", [0, 1, 2]))
for number in range(10**9):
    model(torch.ones(1, 4))
    print(number, flush=True)
    if number == 1:
        time.sleep(1000)
"""


def test_ctrl_c_leaves_all_that_ran_by_then(place: Path) -> None:
    (place / "endless.py").write_text(_ENDLESS)
    program = subprocess.Popen(
        [sys.executable, "endless.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert program.stdout is not None
    while program.stdout.readline() != "1\n":
        assert program.poll() is None
    # Like a terminal, which signals all processes that the program has started.
    os.killpg(program.pid, signal.SIGINT)
    _, said = program.communicate(timeout=100)
    assert program.returncode != 0
    assert "KeyboardInterrupt" in said
    assert "lacks" not in said
    (device,) = (place / "dump").glob("msit_dump_*/torch_tensors/cpu_*")
    assert tokens_of(device) == {"0", "1"}
    for token in (0, 1):
        files = files_of(device / str(token) / "root")
        assert files == {"input_0.pth", "output.pth"}


def test_without_a_daemon_one_is_started_and_ends(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv("MSITD_ENDPOINT")
    monkeypatch.delenv("MSITCTL_ENDPOINT")
    monkeypatch.setattr(face_client, "is_daemon_there", lambda: False)
    started = []

    class Noted(private_daemon.PrivateDaemon):
        def __init__(self, folder: str) -> None:
            super().__init__(folder)
            started.append(self._process)

    monkeypatch.setattr(face_client, "PrivateDaemon", Noted)
    device = dump()
    assert folders_of(device) == FOLDERS
    assert "no daemon of msitd runs here" in caplog.text
    (process,) = started
    assert process is not None
    assert process.returncode is not None
    assert [path.name for path in place.iterdir()] == [device.parents[1].name]


def test_what_cannot_be_written_stays_in_the_store(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv("MSITD_ENDPOINT")
    monkeypatch.delenv("MSITCTL_ENDPOINT")
    monkeypatch.setattr(face_client, "is_daemon_there", lambda: False)
    monkeypatch.setattr(msitctl, "find_program", lambda _: "/bin/false")
    model = Model()
    with llm.register_hook(model, llm.DumpConfig()) as handle:
        model(torch.ones(2, 4))
    (store,) = place.glob(".msitd-*/data")
    assert f"--data-dir {store}" in caplog.text
    later = Daemon(tmp_path)
    later.data_dir = store
    later.start()
    try:
        assert handle.run is not None
        listed = later.ctl("tensor", "list", handle.run, "-o", "name").stdout
        assert "root.head" in listed
    finally:
        later.clean()


def test_a_missing_program_is_named_before_anything_is_hooked(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(place))
    model = Model()
    with pytest.raises(FileNotFoundError, match="there is no msitctl"):
        llm.register_hook(model, llm.DumpConfig())
    assert not any(m._forward_hooks for m in model.modules())
    assert not list(place.iterdir())


_SCRIPT = """
import torch
from transformers import AutoTokenizer, LlamaForCausalLM
from msitd.llm import DumpConfig, register_hook

config = DumpConfig(dump_path="./torch_dump/", token_range=[0, 1, 2, 3], seed=2345)
tokenizer = AutoTokenizer.from_pretrained("weights", trust_remote_code=True)
model = LlamaForCausalLM.from_pretrained("weights", trust_remote_code=True).to("cpu")

if __name__ == "__main__":
    register_hook(model, config)
    with torch.no_grad():
        inputs = tokenizer("What is it?", return_tensors="pt").to("cpu")
        model.generate(**inputs, do_sample=False, max_new_tokens=10)
"""


class Tokens(dict[str, torch.Tensor]):
    """The output of a tokenizer."""

    def to(self, _device: str) -> "Tokens":
        return self


class Llama(nn.Module):
    """A minimal language model with the names of a large one."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.ModuleDict({"embed_tokens": nn.Embedding(11, 4)})
        self.lm_head = nn.Linear(4, 11)

    @classmethod
    def from_pretrained(cls, _path: str, **_: object) -> "Llama":
        return cls()

    def forward(self, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.lm_head(self.model["embed_tokens"](input_ids))}

    def generate(
        self, input_ids: torch.Tensor, do_sample: bool, max_new_tokens: int
    ) -> torch.Tensor:
        assert not do_sample
        for _ in range(max_new_tokens):
            last = self(input_ids=input_ids)["logits"][:, -1].argmax(-1, keepdim=True)
            input_ids = torch.cat([input_ids, last], dim=1)
        return input_ids


class Tokenizer:
    """Returns the same tokens for every text."""

    @classmethod
    def from_pretrained(cls, _path: str, **_: object) -> "Tokenizer":
        return cls()

    def __call__(self, _text: str, return_tensors: str) -> Tokens:
        assert return_tensors == "pt"
        return Tokens(input_ids=torch.tensor([[1, 2, 3]]))


def test_a_script_of_msit_runs_with_another_import(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library: Any = types.ModuleType("transformers")
    library.AutoTokenizer, library.LlamaForCausalLM = Tokenizer, Llama
    monkeypatch.setitem(sys.modules, "transformers", library)
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(registration.atexit, "register", at_exit.append)
    (place / "script.py").write_text(_SCRIPT)
    runpy.run_path("script.py", run_name="__main__")
    (end,) = at_exit
    end()
    (device,) = (place / "torch_dump").glob("msit_dump_*/torch_tensors/cpu_*")
    assert tokens_of(device) == {"0", "1", "2", "3"}
    assert folders_of(device, 3) == {"root", "root.model.embed_tokens", "root.lm_head"}
    # The prompt of three tokens, and one more with each forward.
    logits = load(device / "3/root.lm_head/output.pth")
    assert logits.shape == (1, 6, 11)


def test_every_line_of_the_page_prints_what_it_says() -> None:
    page = ROOT / "docs" / "llm.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 15
    assert result.failed == 0
