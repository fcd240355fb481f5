"""Replaces SGLang's dumper by that of msitd."""

from __future__ import annotations

import os
import sys
from typing import Any

from msitd.engines.sglang.dumper import dumper

_MODULE = "sglang.srt.debug_utils.dumper"


def register() -> None:
    """Installs the dumper in place of SGLang's own, if MSITD_RUN names a run.

    SGLang calls this in each of its processes, as the entry point `msitd` of
    `sglang.srt.plugins`. Modules that have already imported SGLang's dumper
    receive this one.
    """
    if not os.environ.get("MSITD_RUN"):
        return
    import importlib

    theirs: Any = importlib.import_module(_MODULE)
    old = theirs.dumper
    if old is dumper:
        return
    theirs.dumper = dumper
    for name, module in list(sys.modules.items()):
        if name.startswith("sglang.") and vars(module).get("dumper") is old:
            vars(module)["dumper"] = dumper
