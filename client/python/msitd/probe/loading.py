"""Replaces the inputs of modules by those of a dump."""

from __future__ import annotations

import glob
import logging
import os
from typing import TYPE_CHECKING, Any

from msitd._core.guard import Failures
from msitd._core.module.wrappers import AS_HELD
from msitd._core.replacing import UnfitError, replacement

if TYPE_CHECKING:
    import torch

    from msitd.probe.settings import Load

_logger = logging.getLogger("msitd")

_TENSORS = "dump_tensor_data"

_failures = Failures("inputs of a module are not replaced")


class Loading:
    """Intercepts calls of modules and replaces their arguments. Any thread may call.

    Args:
        load: The modules, and the location of the dump.
        folder_name: Name of the rank's folder in this program.
    """

    def __init__(self, load: Load, folder_name: str) -> None:
        self._load = load
        self._folder_name = folder_name
        self._handles: list[Any] = []
        self._seen: set[int] = set()
        self._step = 0
        self._is_on = False
        self._counts: dict[str, int] = {}
        self._missed: set[str] = set()
        # Tensors of one step, by file.
        self._tensors: dict[str, torch.Tensor | None] = {}

    def watch(self, model: torch.nn.Module, prefix: str) -> None:
        """Puts hooks on the modules of a model whose inputs are replaced.

        Args:
            prefix: First part of the names: `Module.`, or `Module.0.`.
        """
        if id(model) in self._seen:
            return
        self._seen.add(id(model))
        plain = AS_HELD.unwrap(model)
        for name, module in AS_HELD.named_modules(plain):
            op = f"{prefix}{name}.{type(module).__name__}"
            if name and any(each.startswith(op + ".") for each in self._load.modules):
                self._hook(module, op)

    def begin(self, step: int, rank: int) -> bool:
        """Begins a step. Returns whether inputs are replaced in it."""
        load = self._load
        self._step = step
        self._counts.clear()
        self._tensors.clear()
        self._is_on = (not load.steps or step in load.steps) and (
            not load.ranks or rank in load.ranks
        )
        self._missed = set(load.modules) if self._is_on else set()
        return self._is_on

    def end(self) -> None:
        """Stops replacing, and reports which inputs of the step were not used."""
        self._is_on = False
        for entry in sorted(self._missed):
            _logger.warning("step %d: %s has not run", self._step, entry)
        self._missed.clear()

    def remove(self) -> None:
        """Removes the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _hook(self, module: torch.nn.Module, op: str) -> None:
        def replace(
            _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            if not self._is_on:
                return None
            number = self._counts.get(op, 0)
            self._counts[op] = number + 1
            entry = f"{op}.forward.{number}"
            if entry not in self._load.modules:
                return None
            self._missed.discard(entry)
            given = tuple(
                self._replaced(each, f"{entry}.input.{index}")
                for index, each in enumerate(args)
            )
            named = {
                name: self._replaced(each, f"{entry}.kwargs.{name}")
                for name, each in kwargs.items()
            }
            return given, named

        # Runs before the hooks that record.
        self._handles.append(
            module.register_forward_pre_hook(
                _failures.guarded(replace), prepend=True, with_kwargs=True
            )
        )

    def _replaced(self, value: Any, leaf: str) -> Any:
        """Returns the dump's replacement for an argument, or the argument."""
        # torch is installed, since there is a module.
        import torch

        if not isinstance(value, torch.Tensor):
            return value
        loaded = self._tensor(leaf)
        if loaded is None:
            return value
        try:
            return replacement(value, loaded, self._load.keeps_gradients)
        except UnfitError as error:
            _logger.warning("%s is not replaced: %s", leaf, error)
            return value

    def _tensor(self, leaf: str) -> torch.Tensor | None:
        import torch

        if leaf not in self._tensors:
            path = self._path(leaf)
            try:
                loaded = torch.load(path, map_location="cpu", weights_only=True)
            except Exception as error:  # noqa: BLE001 - never the program's problem
                _logger.warning("%s is not replaced: %s", leaf, error)
                loaded = None
            self._tensors[leaf] = loaded
        return self._tensors[leaf]

    def _path(self, leaf: str) -> str:
        step = os.path.join(self._load.path, f"step{self._step}")
        folder = os.path.join(step, self._folder_name)
        if not os.path.isdir(folder):
            others = sorted(
                glob.glob(os.path.join(glob.escape(step), "proc*"))
                + glob.glob(os.path.join(glob.escape(step), "rank"))
                + glob.glob(os.path.join(glob.escape(step), "rank0"))
            )
            is_single = self._folder_name in ("rank", "rank0")
            folder = others[0] if others and is_single else folder
        return os.path.join(folder, _TENSORS, leaf + ".pt")
