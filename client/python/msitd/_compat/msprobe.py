"""Stands in for msprobe, and for those of its modules that scripts import."""

from msitd.probe import (
    AclGraphDumper,
    PrecisionDebugger,
    module_dump,
    module_dump_end,
    random_save,
    seed_all,
)

__all__ = [
    "AclGraphDumper",
    "PrecisionDebugger",
    "module_dump",
    "module_dump_end",
    "random_save",
    "seed_all",
]
