"""Stands in for msprobe, and for those of its modules that scripts import."""

from msitd.probe import (
    PrecisionDebugger,
    module_dump,
    module_dump_end,
    random_save,
    seed_all,
)

__all__ = [
    "PrecisionDebugger",
    "module_dump",
    "module_dump_end",
    "random_save",
    "seed_all",
]
