"""Names the modules of a model as if it had no torch wrappers.

`DistributedDataParallel`, `FullyShardedDataParallel`, `checkpoint_wrapper`, the
module that `torch.compile` returns and some others hold a module and call it.
Each of them adds a part to the dotted names of all modules inside, so a model
would have different ops with and without a wrapper. Here a wrapper has no name
of its own, and the module that it holds takes its place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


class _Wrapper(NamedTuple):
    # Module that defines the class, and the class. It is looked up only if that
    # module is loaded, because a program that has such a wrapper has loaded it.
    home: str
    kind: str
    # The name under which the wrapper holds the module.
    held: str

    def wraps(self, module: torch.nn.Module) -> bool:
        home = sys.modules.get(self.home)
        kind = None if home is None else getattr(home, self.kind, None)
        return kind is not None and isinstance(module, kind)


_COMPILED = _Wrapper("torch._dynamo.eval_frame", "OptimizedModule", "_orig_mod")
_OTHERS = (
    _Wrapper("torch.nn.parallel.distributed", "DistributedDataParallel", "module"),
    _Wrapper(
        "torch.distributed.fsdp.fully_sharded_data_parallel",
        "FullyShardedDataParallel",
        "_fsdp_wrapped_module",
    ),
    _Wrapper(
        "torch.distributed.algorithms._checkpoint.checkpoint_wrapper",
        "ActivationWrapper",
        "_checkpoint_wrapped_module",
    ),
    _Wrapper("torch.optim.swa_utils", "AveragedModel", "module"),
)
# These wrappers call copies of the module that they hold, one per device. Hooks
# therefore stay on the wrapper, and the module that it holds has no name.
_COPIERS = (_Wrapper("torch.nn.parallel.data_parallel", "DataParallel", "module"),)


class ModuleNames:
    """A scheme for naming modules.

    Args:
        wrappers: Wrappers that have no name of their own.
        copiers: Wrappers that take the name of the module that they hold.
    """

    def __init__(
        self, wrappers: tuple[_Wrapper, ...], copiers: tuple[_Wrapper, ...]
    ) -> None:
        self._wrappers = wrappers
        self._copiers = copiers

    def unwrap(self, module: torch.nn.Module) -> torch.nn.Module:
        """Returns the module inside all wrappers, or the module itself."""
        while held := _held_name(module, self._wrappers):
            module = getattr(module, held)
        return module

    def unwrap_copied(self, module: torch.nn.Module) -> torch.nn.Module:
        """Like `unwrap`, also inside a wrapper that calls copies of the module."""
        module = self.unwrap(module)
        while copied := _held_name(module, self._copiers):
            module = self.unwrap(getattr(module, copied))
        return module

    def children_of(self, module: torch.nn.Module) -> Iterator[torch.nn.Module]:
        """Yields the children of a module without their wrappers."""
        if copied := _held_name(module, self._copiers):
            module = self.unwrap(getattr(module, copied))
        for child in module.children():
            yield self.unwrap(child)

    def named_modules(
        self, model: torch.nn.Module
    ) -> Iterator[tuple[str, torch.nn.Module]]:
        """Yields each module except wrappers once, under its first name."""
        # By the name that torch uses: the name here, the name of the child that
        # takes its place, and whether a wrapper of that child already has the
        # name.
        known: dict[str, tuple[str, str, bool]] = {}
        for given, module in model.named_modules():
            name, is_taken = "", False
            if given:
                parent, _, last = given.rpartition(".")
                name, nameless, is_taken = known[parent]
                if last != nameless:
                    name, is_taken = f"{name}.{last}" if name else last, False
            held = _held_name(module, self._wrappers)
            copied = _held_name(module, self._copiers)
            known[given] = (
                name,
                held or copied,
                bool(copied) or (bool(held) and is_taken),
            )
            if not held and not is_taken:
                yield name, module

    def named_parameters(
        self, model: torch.nn.Module, *, has_ties: bool = False
    ) -> Iterator[tuple[str, str, torch.nn.Parameter]]:
        """Yields the module's name, the parameter's name in it, and the parameter.

        Args:
            has_ties: Whether a parameter that several modules share is yielded
                with each of them, not only with the first.
        """
        seen: set[int] = set()
        for name, module in self.named_modules(model):
            owners = [module]
            if copied := _held_name(module, self._copiers):
                owners.append(self.unwrap(getattr(module, copied)))
            for owner in owners:
                own = owner.named_parameters(
                    recurse=False, remove_duplicate=not has_ties
                )
                for index, parameter in own:
                    if has_ties or id(parameter) not in seen:
                        seen.add(id(parameter))
                        yield name, index, parameter


# Names of the model without torch's wrappers.
PLAIN = ModuleNames((_COMPILED, *_OTHERS), _COPIERS)
# Names that torch uses, without the part that torch.compile adds. Tools that
# know the other wrappers use these names.
AS_HELD = ModuleNames((_COMPILED,), ())


def _held_name(module: torch.nn.Module, wrappers: tuple[_Wrapper, ...]) -> str:
    for wrapper in wrappers:
        if wrapper.wraps(module):
            return wrapper.held
    return ""
