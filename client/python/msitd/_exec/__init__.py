"""What `msitctl exec` has every Python of a command do: record its models.

`begin` is called before the program. Nothing here imports torch before the program
does.
"""

from msitd._exec.beginning import begin

__all__ = ["begin"]
