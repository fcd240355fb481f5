"""Records the tensors of a PyTorch program as a run of an msitd daemon.

    with msitd.Client(run="golden-fp32", rank=0, world_size=1) as client:
        with msitd.register_hook(model, client):
            model(batch)

`Client` connects this process to the daemon as one rank of a run.
`register_hook` records the inputs and outputs of a model's modules, and
`register_api` those of torch functions. `inject` and `teacher_forcing` make a
model run on the recorded values of another run, so that the two runs stay
comparable. The package `msitd.query` reads runs back and compares them.
"""

from msitd._core.api.handle import ApiHandle, register_api
from msitd._core.cache_places import CacheColumns, CachePages
from msitd._core.client import Client
from msitd._core.counters import Counters
from msitd._core.errors import DroppedError, MsitError
from msitd._core.module.hooks import HookHandle
from msitd._core.module.registration import register_hook
from msitd._core.requests import RequestRows
from msitd.forcing import teacher_forcing
from msitd.injection import Injection, inject

__all__ = [
    "ApiHandle",
    "CacheColumns",
    "CachePages",
    "Client",
    "Counters",
    "DroppedError",
    "HookHandle",
    "Injection",
    "MsitError",
    "RequestRows",
    "inject",
    "register_api",
    "register_hook",
    "teacher_forcing",
]


def __getattr__(name: str) -> str:
    """Returns the version of the installed package."""
    if name == "__version__":
        # Imported here, because this takes as long as the rest of the package.
        from importlib.metadata import version

        return version("msitd")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
