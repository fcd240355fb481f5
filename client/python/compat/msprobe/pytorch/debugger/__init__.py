"""See msprobe."""

from msitd._compat.msprobe import *
