"""Keeps this package out of the graphs of torch.compile.

A record copies bytes at the moment when it is made. Python code that becomes
part of a graph runs only once, while Dynamo traces the graph, with tensors that
have no bytes. The functions here are therefore opaque to Dynamo: a graph ends
before them, and another graph begins after them. Only hooks are part of graphs,
in the form that `graphs` gives them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from types import ModuleType


_Function = TypeVar("_Function", bound=Callable[..., Any])

# Modules of the core whose functions receive tensors, and those that graphs
# also call.
_GET_TENSORS = (
    "api.calls",
    "api.collectives",
    "api.custom_functions",
    "api.handle",
    "cache_places",
    "call",
    "client",
    "devices.batch",
    "devices.copies",
    "devices.pins",
    "devices.reductions",
    "devices.streams",
    "devices.triton_kernel",
    "devices.underway",
    "documents",
    "gradient.backward",
    "gradient.gradients",
    "gradient.graph_gradients",
    "gradient.inputs",
    "gradient.node_gradients",
    "gradient.nulls",
    "gradient.parameters",
    "gradient.recomputation",
    "gradient.separation",
    "guard",
    "leaf.forms",
    "leaf.leaves",
    "leaf.memory",
    "leaf.objects",
    "leaf.parts",
    "leaf.placement",
    "leaf.small_elements",
    "leaf.stacks",
    "leaf.stand_ins",
    "leaf.statistics_text",
    "leaf.values",
    "listening",
    "losses",
    "module.automatic_requests",
    "module.batches",
    "module.call_hooks",
    "module.fast_paths",
    "module.forward_requests",
    "module.given_requests",
    "module.graph_hooks",
    "module.hooked_models",
    "module.hooks",
    "module.model_facts",
    "module.model_hooks",
    "module.module_tree",
    "module.native_calls",
    "module.optimizers",
    "module.pass_hooks",
    "module.phases",
    "module.placed_hooks",
    "module.sequence_caches",
    "module.sequence_states",
    "module.steps",
    "module.structure",
    "module.threads",
    "module.uncalled",
    "module.wrappers",
    "not_recorded",
    "requests",
    "skips",
    "statistics_records",
)
_ALSO_IN_GRAPHS = ("api.modes", "api.wrapper", "leaf.walk")

# The reason that Dynamo reports if fullgraph=True forbids this graph break.
_REASON = (
    "msitd records here, which no graph can hold: compile without "
    "fullgraph=True, or remove the hooks of msitd"
)

_FLAG = "_is_exporting_flag"


def is_loaded() -> bool:
    """Returns whether any code of this process may have been compiled."""
    return "torch._dynamo" in sys.modules


def make_opaque(function: _Function) -> _Function:
    """Prevents Dynamo from ever tracing `function`. Imports Dynamo.

    Returns the function itself, without a wrapper that would cost a frame.

    Raises:
        RuntimeError: This version of torch cannot do this.
    """
    try:
        from torch._dynamo.decorators import skip
    except ImportError as error:
        raise RuntimeError(
            "this version of torch cannot be told to leave functions out of its graphs"
        ) from error
    skip(function)
    _skip_inner(function)
    # Equivalent to torch.compiler.disable(reason=...).
    function._torchdynamo_disable_msg = _REASON  # type: ignore[attr-defined]
    return function


def _skip_inner(function: Callable[..., Any]) -> None:
    """Prevents Dynamo from starting at a generator expression or similar code
    inside.
    """
    from torch._dynamo.eval_frame import skip_code

    codes = [getattr(function, "__code__", None)]
    while codes:
        for constant in getattr(codes.pop(), "co_consts", ()):
            if isinstance(constant, CodeType):
                skip_code(constant)
                codes.append(constant)


def make_no_frame(function: Callable[..., Any]) -> None:
    """Lets Dynamo trace `function` only where compiled code calls it.

    Called from other code, the function is not compiled on its own.
    """
    from torch._dynamo.eval_frame import skip_code

    skip_code(function.__code__)


@functools.cache
def make_modes_transparent() -> None:
    """Makes Dynamo trace graphs as if modes with the attribute `is_transparent`
    were absent.

    Older versions of torch build no graphs while a mode is active.
    """
    try:
        from torch._dynamo.variables.torch_function import SymbolicTorchFunctionState
    except ImportError:
        return
    begin: Callable[..., None] = SymbolicTorchFunctionState.__init__

    def begin_without(state: Any, modes: Iterable[Any], *args: Any, **kw: Any) -> None:
        modes = list(modes)
        begin(state, modes, *args, **kw)
        known = state.mode_stack
        seen = [
            variable
            for variable, mode in zip(known, modes, strict=True)
            if not getattr(mode, "is_transparent", False)
        ]
        if len(seen) < len(modes):
            state.mode_stack = type(known)(seen)

    SymbolicTorchFunctionState.__init__ = begin_without  # type: ignore[method-assign]


def _learn_operators() -> None:
    """Lets Dynamo find out which torch functions the operators of Python call."""
    try:
        from torch._dynamo.variables.builtin import populate_builtin_to_tensor_fn_map
    except ImportError:
        return
    from torch import overrides
    from torch.utils._python_dispatch import _disable_current_modes

    # This calls all operators, with tensors that it creates.
    modes = overrides._get_current_function_mode_stack()
    with _disable_current_modes():
        for _ in modes:
            overrides._pop_mode()
        try:
            populate_builtin_to_tensor_fn_map()
        finally:
            for mode in modes:
                overrides._push_mode(mode)


def show_as(kind: type, original_of: Callable[[Any], Any]) -> None:
    """Makes Dynamo treat an object of class `kind` as another one, under modes
    of others.
    """
    with contextlib.suppress(ImportError, AttributeError):
        builder: Any = importlib.import_module("torch._dynamo.variables.builder")
        create = builder.SourcelessBuilder.create
        builder.SourcelessBuilder._type_handlers[kind] = lambda transaction, value: (
            create(transaction, original_of(value))
        )


def fill_tables() -> None:
    """Makes torch fill the tables now that it otherwise fills with functions on
    first use.

    torch fills them once and keeps the functions that it finds. No stand-in may
    be installed by then.
    """
    _learn_operators()
    for module, name in (
        # The functions that a default device affects.
        ("torch.utils._device", "_device_constructors"),
        # The functions that Dynamo supports.
        ("torch._dynamo.trace_rules", "get_tensor_method"),
        ("torch._dynamo.trace_rules", "get_torch_obj_rule_map"),
    ):
        with contextlib.suppress(ImportError, AttributeError):
            getattr(importlib.import_module(module), name)()
    with contextlib.suppress(ImportError), warnings.catch_warnings():
        # The warning that TorchScript is deprecated does not help the caller.
        warnings.simplefilter("ignore")
        importlib.import_module("torch._decomp.decompositions_for_jvp")


def tracing_test(is_possible: bool) -> Callable[[], bool]:
    """Returns a function that reports whether Dynamo is tracing it.

    Args:
        is_possible: Whether Dynamo can trace the caller at all.
    """
    import torch

    # Dynamo treats this function of torch as a constant.
    test = getattr(torch.compiler, "is_dynamo_compiling", None)
    return test if is_possible and test is not None else _no


class _NoExporter:
    """Stands in for torch.compiler in versions that do not report exports."""

    _is_exporting_flag = False


def exporter() -> Any:
    """Returns the object with `_is_exporting_flag`: whether torch.export runs a model.

    Calling torch's own function would cost another frame in each hook.
    """
    import torch

    return torch.compiler if hasattr(torch.compiler, _FLAG) else _NoExporter


def _no() -> bool:
    return False


@functools.cache
def make_package_opaque() -> None:
    """Makes all functions of the core that receive tensors opaque."""
    for name in _GET_TENSORS:
        module = sys.modules.get(f"msitd._core.{name}")
        if module is not None:
            for function in _functions_of(module):
                make_opaque(function)
    _leave_out_files()
    for name in _ALSO_IN_GRAPHS:
        module = sys.modules.get(f"msitd._core.{name}")
        if module is not None:
            for function in _functions_of(module):
                make_no_frame(function)


def _leave_out_files() -> None:
    """Makes all files of this package opaque where Dynamo traces hooks in any case.

    Up to torch 2.2, Dynamo traces hooks that are not plain functions.
    """
    try:
        from torch._dynamo import skipfiles
    except ImportError:
        return
    skipfiles.add("msitd")


def forget_graphs() -> None:
    """Makes Dynamo recompile all graphs of the process.

    Dynamo does not notice hooks that are added to, or removed from, a module
    whose graph is already compiled.
    """
    if is_loaded():
        sys.modules["torch"].compiler.reset()


def compiles_backwards() -> bool:
    """Returns whether torch compiles backwards as separate graphs.

    Inductor fails on operators with effects in such graphs.
    """
    config = sys.modules.get("torch._dynamo.config")
    return bool(getattr(config, "compiled_autograd", False))


def is_running() -> bool:
    """Returns whether the caller is part of compiled code."""
    native = sys.modules.get("torch._C._dynamo.eval_frame")
    callback = getattr(native, "get_eval_frame_callback", lambda: None)
    return callable(callback())


def _functions_of(module: ModuleType) -> Iterator[Callable[..., Any]]:
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value):
            yield value
        elif inspect.isclass(value):
            for member in vars(value).values():
                member = getattr(member, "__func__", member)
                member = getattr(member, "fget", member)
                if inspect.isfunction(member) and member.__module__ == value.__module__:
                    yield member
