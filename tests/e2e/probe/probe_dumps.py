"""A model, its dumps by PrecisionDebugger, and the files in them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from msitd import probe
from msitd.probe import debugger as debuggers
from probe_models import entries
from torch import nn
from torch.nn import functional


@pytest.fixture(name="place", autouse=True)
def probe_place(user_place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
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


def debugger_of(
    level: str, task: str = "tensor", **keys: Any
) -> probe.PrecisionDebugger:
    return probe.PrecisionDebugger(task=task, level=level, dump_path="dump", **keys)


def load(path: Path) -> torch.Tensor:
    tensor: torch.Tensor = torch.load(path, weights_only=True)
    return tensor
