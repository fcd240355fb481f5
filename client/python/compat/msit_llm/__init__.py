"""The interface of msit_llm, implemented by msitd.llm."""

from msitd._compat.msit_llm import *
