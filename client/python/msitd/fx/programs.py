"""Records the nodes of programs that torch.export has created."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msitd.fx.interpreter import recording_interpreter
from msitd.fx.node_recorder import NodeRecorder
from msitd.fx.provenance import record_graph

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client

_PACKAGE = (
    "a package of AOTInductor is machine code, which has no nodes that could be "
    "recorded: record the program that it was made of, and compare results with "
    "client.record"
)


def record_program(
    program: torch.export.ExportedProgram | torch.fx.GraphModule,
    client: Client,
    *,
    ops: str | Iterable[str] | None = None,
) -> torch.fx.GraphModule:
    """Returns a module that runs a program of torch.export and records each node.

    Ops are those of `backend`, as if the program were the first function. A
    token ends when the program runs again. Gradients flow through the module as
    through the module of the program; its backward is not recorded.

    Args:
        program: The result of `torch.export.export` or `torch.export.load`, the
            result of its `module()`, or any graph of torch.fx.
        client: The client that records. It must stay open as long as the module
            runs.
        ops: Patterns of ops, one of which must match the whole op. Default:
            all.

    Raises:
        TypeError: `program` has another type. Packages of AOTInductor are not
            supported, which the error states.
    """
    # torch is installed, since there is a program.
    import torch

    if type(program).__name__ == "AOTICompiledModel":
        raise TypeError(_PACKAGE)
    if isinstance(program, torch.export.ExportedProgram):
        module = program.module()
    else:
        module = program
    if not isinstance(module, torch.fx.GraphModule):
        raise TypeError(
            f"program is {type(program).__name__}, and neither an ExportedProgram nor "
            "a GraphModule"
        )
    _Program(module, NodeRecorder(client, ops)).take_over()
    return module


class _Program:
    """Runs a graph instead of the code that torch.fx generated from it."""

    def __init__(self, module: torch.fx.GraphModule, recorder: NodeRecorder) -> None:
        self._module = module
        self._recorder = recorder
        self._lock = threading.Lock()
        self._interpreters: list[torch.fx.Interpreter] = []
        record_graph(recorder, module.graph, number=0)

    def take_over(self) -> None:
        """Makes the module call this object when it is called; its hooks stay."""
        self._module.forward = self._run

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        self._recorder.begin_function(0)
        with self._lock:
            interpreter = (
                self._interpreters.pop()
                if self._interpreters
                else recording_interpreter(
                    self._recorder, self._module, number=0, is_backward=False
                )
            )
        try:
            codegen: Any = self._module.graph._codegen
            info = getattr(codegen, "pytree_info", None)
            if info is None:
                return interpreter.run(
                    *_bound(_placeholders(self._module), args, kwargs)
                )
            return _run_tree(interpreter, info, args, kwargs)
        finally:
            with self._lock:
                self._interpreters.append(interpreter)


def _placeholders(module: torch.fx.GraphModule) -> list[tuple[str, tuple[Any, ...]]]:
    """Returns the names of the inputs of a graph, with their defaults."""
    return [
        (str(node.target), node.args)
        for node in module.graph.nodes
        if node.op == "placeholder"
    ]


def _run_tree(
    interpreter: torch.fx.Interpreter,
    info: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Runs a graph whose arguments and results are structures."""
    from torch.fx import _pytree as fx_pytree
    from torch.utils import _pytree as pytree

    spec = info.in_spec
    names = [(name, ()) for name in info.orig_args if name != "self"]
    given = _bound(names, args, kwargs)
    positions = spec.children()[0].num_children if _has_kwargs(spec) else len(given)
    keys = spec.children()[1].context if _has_kwargs(spec) else ()
    tree: Any = tuple(given)
    if _has_kwargs(spec):
        tree = (
            tuple(given[:positions]),
            dict(zip(keys, given[positions:], strict=True)),
        )
    leaves = fx_pytree.tree_flatten_spec(tree, spec)
    results = interpreter.run(*leaves, enable_io_processing=False)
    if info.out_spec is None:
        return results
    return pytree.tree_unflatten(list(results), info.out_spec)


def _has_kwargs(spec: Any) -> bool:
    children = spec.children()
    return (
        spec.type is tuple
        and len(children) == 2
        and children[0].type is tuple
        and children[1].type is dict
    )


def _bound(
    names: list[tuple[str, tuple[Any, ...]]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> list[Any]:
    """Returns arguments in the order of their names, as Python binds them."""
    if len(args) > len(names):
        raise TypeError(
            f"the program takes {len(names)} arguments, and not {len(args)}"
        )
    given = dict(zip([name for name, _ in names], args, strict=False))
    for name, value in kwargs.items():
        if name in given or name not in dict(names):
            raise TypeError(f"the program got an unexpected argument {name!r}")
        given[name] = value
    for name, default in names:
        if name not in given and not default:
            raise TypeError(f"the program lacks the argument {name!r}")
    return [given.get(name, *default) for name, default in names]
