"""The backend for torch.compile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msitd._core.client import Client
from msitd._core.daemon.ranks import rank_of_process
from msitd.fx.aten import compile_by_node
from msitd.fx.in_graph import compile_within
from msitd.fx.node_recorder import NodeRecorder

if TYPE_CHECKING:
    import torch

_Compiled = Callable[..., Any]

_lock = threading.Lock()
# The recorder of programs that only name the backend.
_default: NodeRecorder | None = None


def backend(
    client: Client,
    *,
    inner: str | Callable[..., Any] | None = None,
    ops: str | Iterable[str] | None = None,
) -> Callable[..., _Compiled]:
    """Returns a backend for `torch.compile` that records into `client`.

    Each node of a graph is an op, `<node>-<target>`, as in the files that
    TorchAir dumps: `mm-aten.mm.default`. Indexes are positions of arguments,
    and of tensors in arguments that are lists; for results, positions. Nodes of
    a backward start with `backward/`. Nodes of the second function that Dynamo
    compiles, for example after a graph break, start with `graph_1/`, and so on.
    Graphs that are recompiled for other shapes have the names of the first one.

    A token ends when a function that has already run in it runs again.

    Args:
        client: The client that records. It must stay open as long as the model
            runs.
        inner: None: graphs are ATen graphs, and run node by node. Otherwise the
            name of a backend, such as "inductor", or a backend: nodes are then
            those that Dynamo captures, such as
            `linear-torch.nn.functional.linear`. They are recorded in the graph
            that this backend compiles. Gradients are not recorded.
        ops: Patterns of ops, one of which must match the whole op. Default:
            all.
    """
    return _backend_of(NodeRecorder(client, ops), inner)


def compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    *,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> _Compiled:
    """The backend with the name `msitd`: `torch.compile(model, backend="msitd")`.

    Records into the run of MSITD_RUN, or `fx`, with its own `msitd.Client`,
    which finds a daemon in the usual way.

    Args:
        gm: The graph.
        example_inputs: As for every backend.
        options: `inner` and `ops`. See `backend`.
        mode: Ignored.

    Raises:
        ValueError: An option does not exist.
        MsitError: No daemon is running.
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
    compiled: _Compiled = _backend_of(recorder, inner)(gm, example_inputs)
    return compiled


def _backend_of(recorder: NodeRecorder, inner: Any) -> Callable[..., _Compiled]:
    """Returns the backend that records into `recorder`; see `backend`."""

    def compile_graph(gm: Any, example_inputs: Any, **_: Any) -> Any:
        if inner is None:
            return compile_by_node(recorder, gm, example_inputs)
        return compile_within(recorder, inner, gm, example_inputs)

    # The name that Dynamo and its logs show.
    compile_graph.__name__ = "msitd"
    return compile_graph
