"""Runs a program twice, with plain torch hooks and with msitd, and compares the
results.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msitd
import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1] / "python"))

from fake_daemon import FakeDaemon

# Returns a model, and a function that runs it and returns losses or results.
Program = Callable[[], tuple[nn.Module, Callable[[], list[torch.Tensor]]]]
# Op, io and index.
Leaf = tuple[str, str, str]


def tensors_of(value: Any, path: str = "") -> Iterator[str]:
    """Yields the index of each tensor in the inputs or outputs of a module."""
    if isinstance(value, torch.Tensor):
        yield path or "0"
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from tensors_of(child, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (tuple, list)):
        yield from tensors_of(dict(enumerate(value)), path)


class Reference:
    """The tensors that plain torch hooks see in a model."""

    def __init__(self, model: nn.Module) -> None:
        self.passes = 0
        self.leaves: Counter[Leaf] = Counter()
        for name, module in model.named_modules():
            self._watch(module, f"root.{name}" if name else "root")

    def _watch(self, module: nn.Module, op: str) -> None:
        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.passes += op == "root"
            given = {**{str(i): arg for i, arg in enumerate(args)}, **kwargs}
            self.leaves.update((op, "input", index) for index in tensors_of(given))

        def after(*call: Any) -> None:
            self.leaves.update((op, "output", index) for index in tensors_of(call[-1]))

        module.register_forward_pre_hook(before, with_kwargs=True)
        module.register_forward_hook(after, with_kwargs=True)


def check(
    program: Program, steps: int | None = None, compiled: Program | None = None
) -> dict[str, int]:
    """Raises AssertionError if the program computes or records something else.

    Args:
        program: Returns the same model each time.
        steps: Number of tokens. Default: one per forward.
        compiled: The same program under torch.compile, which is recorded
            instead.

    Returns:
        Number of leaves and calls that were not recorded, by reason.
    """
    model, run = program()
    reference = Reference(model)
    run()
    assert len(reference.leaves) > 4
    # Without any hooks.
    model, run = (compiled or program)()
    plain = run()

    model, run = (compiled or program)()
    daemon = FakeDaemon()
    with (
        # Each rank has its own daemon.
        msitd.Client("run", 0, 1, daemon.endpoint) as client,
        msitd.register_hook(model, client) as handle,
    ):
        results = run()
        assert client.token == (reference.passes if steps is None else steps)
    daemon.stop()
    leaves = Counter(
        (record.op, record.io, record.index)
        for record in daemon.records
        if record.kind == "tensor"
        and record.part_offset == 0
        and record.io in ("input", "output")
    )
    assert leaves == reference.leaves, (
        leaves - reference.leaves,
        reference.leaves - leaves,
    )
    assert len(results) == len(plain) > 0
    for result, expected in zip(results, plain, strict=True):
        assert torch.equal(result, expected), (result, expected)
    return handle.skipped
