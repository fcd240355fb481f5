"""See msit_llm."""

from msitd._compat.msit_llm import *
