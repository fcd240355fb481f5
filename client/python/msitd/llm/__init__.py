"""The Python interface of msit for large models.

from msitd.llm import DumpConfig, register_hook

register_hook(model, DumpConfig(dump_path="dump", token_range=[0, 1]))
"""

from msitd.llm import torchair_dump
from msitd.llm.dump_config import DumpConfig
from msitd.llm.registration import DumpHandle, register_hook
from msitd.llm.seeding import seed_all

__all__ = ["DumpConfig", "DumpHandle", "register_hook", "seed_all", "torchair_dump"]
