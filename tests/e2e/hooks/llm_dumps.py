"""A model, its dumps by msitd.llm, and the files in them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from msitd import llm
from torch import nn
from torch.nn import functional


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


@pytest.fixture(name="place", autouse=True)
def dump_place(user_place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
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
