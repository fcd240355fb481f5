"""Replaces the modules of other tools by those of msitd while a command runs.

Only the modules and names that scripts for dumps use are replaced. All others are
those of the tool, if it is installed: the stand-in of a package has the folders of
the installed package, so its other modules are found there, and a name that the
stand-in lacks is read from the module that it hides. If the tool is not installed,
the error says what to use.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import opcode
import os
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from types import ModuleType
from typing import Any

from msitd._exec.missing_names import DISTRIBUTIONS, text_of

_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]

_LLM = "msitd._compat.msit_llm"
_PROBE = "msitd._compat.msprobe"

# Modules of other tools that scripts import, and their replacements. The tools
# were ait_llm and atat in early releases.
STAND_INS = {
    **{
        f"{package}{module}": _LLM
        for package in ("msit_llm", "ait_llm")
        for module in (
            "",
            ".dump",
            ".dump.torch_dump",
            ".dump.torch_dump.dump",
            ".dump.torch_dump.dump_config",
            ".dump.torchair_dump",
        )
    },
    **{
        f"{package}{module}": _PROBE
        for package in ("msprobe", "atat")
        for module in (
            "",
            ".pytorch",
            ".pytorch.debugger",
            ".pytorch.debugger.precision_debugger",
            ".pytorch.common",
            ".pytorch.common.utils",
        )
    },
}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds stand-ins before installed modules, and reports which modules are
    hidden.
    """

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        package = fullname.partition(".")[0]
        if package not in DISTRIBUTIONS:
            return None
        hidden = importlib.machinery.PathFinder.find_spec(fullname, path)
        if hidden is not None and _is_ours(hidden):
            hidden = None
        if fullname not in STAND_INS:
            if hidden is None:
                raise ModuleNotFoundError(text_of(fullname), name=fullname)
            return hidden
        if path is None and hidden is not None:
            sys.stderr.write(
                f"msitctl exec: {fullname} is that of msitd, not {hidden.origin}\n"
            )
        spec = importlib.machinery.ModuleSpec(
            fullname, _Loader(hidden), is_package=True
        )
        folders = None if hidden is None else hidden.submodule_search_locations
        spec.submodule_search_locations = list(folders or [])
        return spec


def _is_ours(spec: importlib.machinery.ModuleSpec) -> bool:
    # The distribution msitd-compat marks its packages.
    folders = spec.submodule_search_locations or []
    return any(os.path.exists(os.path.join(each, "of_msitd.py")) for each in folders)


class _Loader(importlib.abc.Loader):
    """Loads a stand-in.

    Args:
        hidden: The installed module of that name, or None.
    """

    def __init__(self, hidden: importlib.machinery.ModuleSpec | None) -> None:
        self._hidden = hidden

    def exec_module(self, module: ModuleType) -> None:
        stand_in = importlib.import_module(STAND_INS[module.__name__])
        for name in stand_in.__all__:
            setattr(module, name, getattr(stand_in, name))
        vars(module)["__getattr__"] = _missing(module.__name__, self._hidden)


def _missing(
    module_name: str, hidden: importlib.machinery.ModuleSpec | None
) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a stand-in."""
    loaded: list[ModuleType] = []

    def get(name: str) -> Any:
        if name == "__version__":
            return _version_of(module_name)
        if name.startswith("__"):
            raise AttributeError(f"{module_name} has no {name}")
        if hidden is not None:
            if not loaded:
                _load(hidden, loaded)
            if hasattr(loaded[0], name):
                return getattr(loaded[0], name)
        text = text_of(f"{module_name}.{name}")
        # Python replaces the text of an AttributeError while it imports a name.
        if _imports_a_name():
            raise ImportError(text, name=module_name)
        raise AttributeError(text)

    return get


def _load(hidden: importlib.machinery.ModuleSpec, loaded: list[ModuleType]) -> None:
    """Runs an installed module beside its stand-in, which keeps the name.

    The module is in `loaded` before it runs, because modules that it imports may
    read its names from the stand-in.
    """
    assert hidden.loader is not None
    module = importlib.util.module_from_spec(hidden)
    loaded.append(module)
    try:
        hidden.loader.exec_module(module)
    except BaseException:
        loaded.clear()
        raise


def _imports_a_name() -> bool:
    """Returns whether `from module import name` has called `__getattr__`."""
    frame = sys._getframe(2)
    code = frame.f_code.co_code
    return code[frame.f_lasti] == _IMPORT_FROM


def _version_of(module_name: str) -> str:
    package = module_name.partition(".")[0]
    try:
        return metadata.version(DISTRIBUTIONS[package])
    except metadata.PackageNotFoundError:
        raise AttributeError(
            f"{module_name} is that of msitd, and has no version"
        ) from None


def install() -> None:
    """Puts the finder of stand-ins before all others."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
