"""Functions that a user's support_wrap_ops.yaml adds or removes.

msprobe has that file, with custom_wrap_ops.yaml next to it, in its own folder,
where its users edit it. The released version of the file lists what is dumped
here by default.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msitd._core.api.targets import Target, target_in
from msitd._core.not_recorded import reason_of
from msitd.probe.functions import is_beyond_msprobe

_logger = logging.getLogger("msitd")

# Locations of the file in releases of msprobe, relative to a folder of modules.
_PLACES = (
    "msprobe/pytorch/dump/api_dump/support_wrap_ops.yaml",
    "msprobe/pytorch/hook_module/support_wrap_ops.yaml",
)
_CUSTOM = "custom_wrap_ops.yaml"
_BYTES_MAX = 1 << 20

# Groups of functions in msitd, by key of the file. No release records the
# functions below `aten`, and those of mindspeed are unknown here.
_GROUPS = {
    "functional": "functional",
    "tensor": "tensor",
    "torch": "torch",
    "_VF": "vf",
    "distributed": "distributed",
    "torch_npu": "npu",
}
_OWNERS = {"tensor": "Tensor", "torch": "torch"}
_OTHER_KEYS = ("aten", "npu_distributed", "mindspeed")

# Functions in the released file that are not dumped here: torch has removed
# them, they return no tensor, or they only describe a tensor.
_LEFT_OUT = frozenset(
    [
        "Tensor.__nonzero__",
        "Tensor.__rdiv__",
        "Tensor.align_as",
        "Tensor.align_to",
        "Tensor.eig",
        "Tensor.lstsq",
        "Tensor.map2_",
        "Tensor.map_",
        "Tensor.q_zero_point",
        "Tensor.resize_",
        "Tensor.resize_as_",
        "Tensor.resolve_neg",
        "Tensor.solve",
        "Tensor.stride",
        "Tensor.symeig",
        "Tensor.view_as",
        "torch.align_tensors",
        "torch.eig",
        "torch.lstsq",
        "torch.matrix_rank",
        "torch.real",
        "torch.resolve_neg",
        "torch.solve",
        "torch.sparse_coo_tensor",
        "torch.symeig",
    ]
)
# Functions that the file does not name, but that share their names with some it
# does.
_NAMESAKES = frozenset(
    [
        "torch.lu",
        "torch.linalg.cholesky",
        "torch.linalg.eig",
        "torch.linalg.lu_solve",
    ]
)


class Custom(NamedTuple):
    """A function of a program, and the module that contains it."""

    module: str
    name: str


class FunctionsFile(NamedTuple):
    """The contents of a user's files."""

    path: str
    # Names, by the group of functions in msitd.
    names: Mapping[str, frozenset[str]]
    custom: tuple[Custom, ...] = ()

    def change(self, known: Iterable[Target]) -> tuple[list[Target], frozenset[str]]:
        """Returns the functions to dump, and the ops of those that were added.

        Args:
            known: The functions that are dumped without a file.
        """
        said: dict[str, Target] = {}
        for group, names in self.names.items():
            for name in sorted(names):
                found = target_in(group, name)
                if not found and f"{_OWNERS.get(group)}.{name}" not in _LEFT_OUT:
                    _logger.warning(
                        "%s: %s: there is no such function: %s", self.path, group, name
                    )
                said |= {_place_of(target): target for target in found}
        kept = {}
        added = set()
        before = {_place_of(target): target for target in known}
        for place, target in before.items():
            if _is_beyond(place, target) or place in said:
                kept[place] = target
        for place, target in said.items():
            if place in _LEFT_OUT:
                continue
            if place not in before or _is_beyond(place, target):
                added.add(target.op)
            kept[place] = target
        return list(kept.values()), frozenset(added)

    def custom_functions(self) -> list[tuple[Any, str, str]]:
        """Returns modules, names and prefixes of functions of the program."""
        found = []
        for module, name in self.custom:
            try:
                owner = sys.modules.get(module) or importlib.import_module(module)
                if not callable(getattr(owner, name, None)):
                    raise TypeError("there is no such function")
            except Exception as error:  # noqa: BLE001 - of a module of the user
                _logger.warning(
                    "%s: %s.%s is not dumped: %s",
                    os.path.join(os.path.dirname(self.path), _CUSTOM),
                    module,
                    name,
                    reason_of(error),
                )
            else:
                found.append((owner, name, module))
        return found


def functions_file(path: str | None) -> FunctionsFile | None:
    """Returns the contents of a user's files; None if there is no file.

    Args:
        path: None: the file of an installed msprobe.

    Raises:
        ValueError: The file is invalid, or PyYAML, which reads it, is not
            installed.
    """
    if path is not None:
        return read_functions(path)
    return _installed(tuple(sys.path))


def read_functions(path: str) -> FunctionsFile:
    """Reads support_wrap_ops.yaml, and custom_wrap_ops.yaml next to it.

    Raises:
        ValueError: See `functions_file`.
    """
    lists = _lists_of(path)
    for key in lists:
        if key not in _GROUPS and key not in _OTHER_KEYS:
            _logger.warning("%s: %s is no key that is known", path, key)
    names = {
        group: frozenset(lists.get(key, ()))
        for key, group in _GROUPS.items()
        # A file without the key leaves these functions unchanged.
        if key != "torch_npu" or key in lists
    }
    custom_path = os.path.join(os.path.dirname(path), _CUSTOM)
    custom = _lists_of(custom_path) if os.path.exists(custom_path) else {}
    return FunctionsFile(
        path,
        names,
        tuple(Custom(module, name) for module in custom for name in custom[module]),
    )


@functools.lru_cache(maxsize=1)
def _installed(folders: tuple[str, ...]) -> FunctionsFile | None:
    for folder in folders:
        for place in _PLACES:
            path = os.path.join(folder or ".", place)
            if not os.path.isfile(path):
                continue
            try:
                return read_functions(path)
            except ValueError as error:
                _logger.warning("%s; what it says is not looked at", error)
                return None
    return None


def _lists_of(path: str) -> dict[str, list[str]]:
    """Returns the lists of names in a YAML file, by their keys."""
    try:
        # PyYAML is installed wherever msprobe is.
        import yaml
    except ImportError:
        raise ValueError(
            f"{path} is read with PyYAML, which is not here: pip install pyyaml"
        ) from None
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_BYTES_MAX + 1)
        if len(text) > _BYTES_MAX:
            raise ValueError(f"{path} has more than {_BYTES_MAX} characters")
        # Nested aliases could expand to more than fits into memory.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise ValueError(f"{path} has an alias")
        said = yaml.safe_load(text)
    except (OSError, UnicodeError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if said is None:
        return {}
    if not isinstance(said, dict):
        raise ValueError(f"{path} is no mapping of lists of names")  # noqa: TRY004 - as settings
    found: dict[str, list[str]] = {}
    for key, value in said.items():
        names = [value] if isinstance(value, str) else value or []
        if not isinstance(key, str) or not isinstance(names, list):
            raise ValueError(f"{path}: {key!r} has no list of names")  # noqa: TRY004 - as settings
        for name in names:
            if not isinstance(name, str) or not name.replace(".", "_").isidentifier():
                raise ValueError(f"{path}: {key} has {name!r}, which is no name")
        found[key] = names
    return found


def _place_of(target: Target) -> str:
    return f"{target.owner.__name__}.{target.name}"


def _is_beyond(place: str, target: Target) -> bool:
    return place in _NAMESAKES or is_beyond_msprobe(target.op)
