"""The names of msprobe, of msitd.probe."""

from msitd._compat.msprobe import *
