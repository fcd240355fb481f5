"""Records each node of the graphs that torch builds from a program.

import torch
import msitd
from msitd import fx

with msitd.Client("aten") as client:
    compiled = torch.compile(model, backend=fx.backend(client))
    compiled(batch)
"""

from msitd.fx.backends import backend, compile_graph
from msitd.fx.pairing import pair_runs
from msitd.fx.programs import record_program

__all__ = ["backend", "compile_graph", "pair_runs", "record_program"]
