"""The names of msit_llm, of msitd.llm."""

from msitd._compat.msit_llm import *
