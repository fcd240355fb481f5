"""Records the models of every Python process that `msitctl exec` starts.

`begin` is called before the program. Nothing here imports torch before the
program does.
"""

from msitd._exec.beginning import begin

__all__ = ["begin"]
