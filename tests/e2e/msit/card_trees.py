"""Dumps of a model on several cards: those of torch, and of the acceleration
library.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

LAYERS = 11
# The parts of each layer: the torch module, and the matching operation.
PARTS = (("", ""), (".mlp", "/0_Mlp"), (".mlp.fc", "/0_Mlp/0_LinearOperation"))
FC = PARTS[2][0]

# Returns the share of a card in the output of a module; None: no output.
Share = Callable[[str, torch.Tensor, int], torch.Tensor | None]


def column_parallel(count: int) -> Share:
    """Linear modules are split along their last dimension, all other tensors
    are copied.
    """

    def share(part: str, whole: torch.Tensor, card: int) -> torch.Tensor:
        return whole.chunk(count, -1)[card] if part == FC else whole

    return share


def copied(_part: str, whole: torch.Tensor, _card: int) -> torch.Tensor:
    return whole


def output_of(layer: int, part: str, token: int) -> torch.Tensor:
    """Sizes differ between modules, whatever the shares of the cards."""
    generator = torch.Generator().manual_seed(1000 * token + 10 * layer + len(part))
    return torch.randn({"": 2, ".mlp": 3, FC: 5}[part], 12, generator=generator)


def write_torch(
    dump: Path,
    cards: Sequence[str] = ("cpu_99",),
    share: Share = copied,
    tokens: Sequence[int] = (0,),
) -> Path:
    """Writes msit's dump of a torch model. Returns the folder of the first card."""

    def module(name: str, kind: str, *children: object) -> dict[str, object]:
        return {"name": name, "type": kind, "children": list(children)}

    layers = []
    for i in range(LAYERS):
        name = f"root.layers.{i}"
        fc = module(f"{name}.mlp.fc", "Linear")
        layers.append(module(name, "Layer", module(f"{name}.mlp", "MLP", fc)))
    tree = module("root", "Model", module("root.layers", "ModuleList", *layers))
    folders = [dump / "torch_tensors" / card for card in cards]
    for card, process in enumerate(folders):
        for token in tokens:
            for i in range(LAYERS):
                for part, _ in PARTS:
                    value = share(part, output_of(i, part, token), card)
                    if value is None:
                        continue
                    folder = process / str(token) / f"root.layers.{i}{part}"
                    folder.mkdir(parents=True)
                    torch.save(value.clone(), folder / "output.pth")
        process.mkdir(parents=True, exist_ok=True)
        (process / "model_tree.json").write_text(json.dumps(tree))
    return folders[0]


def write_library(
    dump: Path,
    cards: Sequence[str] = ("0_4242",),
    share: Share = copied,
    tokens: Sequence[int] = (0,),
) -> Path:
    """Writes the acceleration library's dump of the same model."""
    for card, name in enumerate(cards):
        nodes = []
        for i in range(LAYERS):
            linear = {"opName": f"LinearOperation_{i}_0_0", "opType": "LinearOperation"}
            mlp = {"opName": f"Mlp_{i}_0", "opType": "Mlp", "nodes": [linear]}
            # Each card has its own rank.
            nodes.append(
                {
                    "opName": f"Layer_{i}",
                    "opType": "Layer",
                    "param": {"rank": card},
                    "nodes": [mlp],
                }
            )
        process = dump / "model" / name.split("_")[1]
        process.mkdir(parents=True)
        text = json.dumps({"modelName": "M", "nodes": nodes})
        (process / "M.json").write_text(text)
        for token in tokens:
            for i in range(LAYERS):
                for part, path in PARTS:
                    value = share(part, output_of(i, part, token), card)
                    if value is None:
                        continue
                    folder = dump / "tensors" / name / str(token) / f"{i}_Layer{path}"
                    (folder / "after").mkdir(parents=True)
                    dims = ",".join(str(dim) for dim in value.shape)
                    head = f"format=2\ndtype=0\ndims={dims}\n$End=1\n".encode()
                    data = value.contiguous().numpy().tobytes()
                    (folder / "after" / "outtensor0.bin").write_bytes(head + data)
    return dump
