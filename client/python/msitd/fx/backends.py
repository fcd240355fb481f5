"""The backend, as torch.compile takes it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msitd._core.daemon.ranks import rank_of_process
from msitd._core.recorder import Client
from msitd.fx.node_recorder import NodeRecorder

if TYPE_CHECKING:
    import torch

_Compiled = Callable[..., Any]

_lock = threading.Lock()
# Of programs that name the backend only.
_default: NodeRecorder | None = None


def backend(
    client: Client,
    *,
    inner: str | Callable[..., Any] | None = None,
    ops: str | Iterable[str] | None = None,
) -> Callable[..., _Compiled]:
    """Returns a backend for `torch.compile` that records into `client`.

    Each node of a graph is an op, `<node>-<target>`, as in the files that TorchAir
    dumps: `mm-aten.mm.default`. Indexes are positions of arguments, and of tensors in
    those that are lists; of results, positions. Nodes of a backward begin with
    `backward/`, those of the second function that Dynamo compiles, as behind a graph
    break, with `graph_1/`, and so on. Graphs that are made again for other shapes have
    the names of the first one.

    A token ends when a function that has run in it runs again.

    Args:
        client: Where to record. It must stay open as long as the model runs.
        inner: None: graphs are those of ATen, and run node by node. Otherwise the
            name of a backend, such as "inductor", or a backend: then nodes are those
            that Dynamo finds, such as `linear-torch.nn.functional.linear`. They are
            recorded in the graph that this backend makes, and gradients are not.
        ops: Patterns of ops; one must match the whole op. Default: all.
    """
    return NodeRecorder(client, ops).backend(inner)


def compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    *,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> _Compiled:
    """Is the backend of the name `msitd`: `torch.compile(model, backend="msitd")`.

    It records into the run of MSITD_RUN, or `fx`, by a client of its own that
    `msitd.Client` finds a daemon for.

    Args:
        gm: The graph.
        example_inputs: As for every backend.
        options: `inner` and `ops`, as of `backend`.
        mode: Is not looked at.

    Raises:
        ValueError: There is no such option.
        MsitError: There is no daemon.
    """
    global _default
    given = dict(options or {})
    inner, ops = given.pop("inner", None), given.pop("ops", None)
    if given:
        raise ValueError(f"{min(given)} is no option of the backend msitd")
    with _lock:
        if _default is None or not _default.is_of(os.getpid(), ops):
            rank, world_size = rank_of_process()
            client = Client(
                os.environ.get("MSITD_RUN") or "fx",
                rank=rank,
                world_size=world_size,
                if_exists="new",
                on_drop="warn",
            )
            _default = NodeRecorder(client, ops)
        recorder = _default
    compiled: _Compiled = recorder.backend(inner)(gm, example_inputs)
    return compiled
