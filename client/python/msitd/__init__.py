"""Records tensors of this process into a run of an msitd daemon.

with msitd.Client(run="golden-fp32", rank=0, world_size=1) as client:
    with msitd.register_hook(model, client):
        model(batch)
"""

from msitd._recorder import Client, Counters, DroppedError, MsitError
from msitd.forcing import teacher_forcing
from msitd.hooks import HookHandle, register_hook

__all__ = [
    "Client",
    "Counters",
    "DroppedError",
    "HookHandle",
    "MsitError",
    "register_hook",
    "teacher_forcing",
]
