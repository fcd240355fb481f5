"""The interface of msprobe, implemented by msitd.probe."""

from msitd._compat.msprobe import *
