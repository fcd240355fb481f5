"""Replaces the modules of other tools by those of msitd while a command runs."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType

# Modules of other tools that scripts import, and their replacements.
STAND_INS = {
    "msit_llm": "msitd._compat.msit_llm",
    "msit_llm.dump": "msitd._compat.msit_llm",
    "msit_llm.dump.torch_dump": "msitd._compat.msit_llm",
    "msit_llm.dump.torch_dump.dump": "msitd._compat.msit_llm",
    "msit_llm.dump.torch_dump.dump_config": "msitd._compat.msit_llm",
    "msit_llm.dump.torchair_dump": "msitd._compat.msit_llm",
    "msprobe": "msitd._compat.msprobe",
    "msprobe.pytorch": "msitd._compat.msprobe",
    "msprobe.pytorch.debugger": "msitd._compat.msprobe",
    "msprobe.pytorch.debugger.precision_debugger": "msitd._compat.msprobe",
    "msprobe.pytorch.common": "msitd._compat.msprobe",
    "msprobe.pytorch.common.utils": "msitd._compat.msprobe",
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
        if fullname not in STAND_INS:
            return None
        hidden = None
        if path is None:
            hidden = importlib.machinery.PathFinder.find_spec(fullname)
        if hidden is not None and not _is_ours(hidden):
            sys.stderr.write(
                f"msitctl exec: {fullname} is that of msitd, not {hidden.origin}\n"
            )
        spec = importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True)
        spec.submodule_search_locations = []
        return spec


def _is_ours(spec: importlib.machinery.ModuleSpec) -> bool:
    # The distribution msitd-compat marks its packages.
    folders = spec.submodule_search_locations or []
    return any(os.path.exists(os.path.join(each, "of_msitd.py")) for each in folders)


class _Loader(importlib.abc.Loader):
    def exec_module(self, module: ModuleType) -> None:
        stand_in = importlib.import_module(STAND_INS[module.__name__])
        for name in stand_in.__all__:
            setattr(module, name, getattr(stand_in, name))


def install() -> None:
    """Puts the finder of stand-ins before all others."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
