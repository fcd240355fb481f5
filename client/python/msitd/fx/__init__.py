"""A backend of torch.compile that records each node of the graphs.

import torch
import msitd
from msitd import fx

with msitd.Client("aten") as client:
    compiled = torch.compile(model, backend=fx.backend(client))
    compiled(batch)
"""

from msitd.fx.backends import backend, compile_graph

__all__ = ["backend", "compile_graph"]
