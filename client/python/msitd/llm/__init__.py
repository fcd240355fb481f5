"""The Python names of msit's part for large models.

from msitd.llm import torchair_dump

config = torchair_dump.get_ge_dump_config(dump_path="dump")
"""

from msitd.llm import torchair_dump

__all__ = ["torchair_dump"]
