"""Stands for the class of msprobe that dumps captured graphs of an NPU."""

from __future__ import annotations

from typing import Any


class AclGraphDumper:
    """Not supported: a captured graph runs no Python, so no hook sees its tensors.

    Engines import this class beside `PrecisionDebugger`, and create an object
    only if they capture graphs.

    Raises:
        ValueError: Always. The text names the alternatives.
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ValueError(
            "AclGraphDumper is not done here: run the engine without graphs, as with "
            "--enforce-eager, so that it uses PrecisionDebugger, or preload "
            "`libmsit_acl.so`, which records the dumps of kernels"
        )
