"""Stands in for msit_llm, and for those of its modules that scripts import."""

from msitd.llm import DumpConfig, register_hook, seed_all, torchair_dump
from msitd.llm.torchair_dump import get_fx_dump_config, get_ge_dump_config

__all__ = [
    "DumpConfig",
    "get_fx_dump_config",
    "get_ge_dump_config",
    "register_hook",
    "seed_all",
    "torchair_dump",
]
