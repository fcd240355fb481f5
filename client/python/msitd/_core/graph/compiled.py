"""Keeps this package out of the graphs of torch.compile.

A record copies bytes at the moment it is made. Python code that becomes part of a
graph runs once, while the graph is made, with tensors that have no bytes. So the
functions here are opaque to Dynamo: a graph ends before them, and another begins
behind them. Hooks alone are in graphs, in the form that `graphs` gives them.
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

# Modules of the core whose functions get tensors, and those that graphs call, too.
_GET_TENSORS = (
    "api.calls",
    "api.collectives",
    "api.custom_functions",
    "api.handle",
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
    "gradient.parameters",
    "guard",
    "leaf.identities",
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
    "module.fast_paths",
    "module.graph_hooks",
    "module.hooked_models",
    "module.hooks",
    "module.model_facts",
    "module.module_tree",
    "module.native_calls",
    "module.optimizers",
    "module.phases",
    "module.placed_hooks",
    "module.recomputation",
    "module.steps",
    "module.structure",
    "module.threads",
    "module.uncalled",
    "module.wrappers",
    "not_recorded",
    "recorder",
    "requests",
    "skips",
    "statistics_records",
)
_ALSO_IN_GRAPHS = ("api.modes", "api.wrapper", "leaf.walk")

# What Dynamo shows if fullgraph=True forbids a graph to end here.
_REASON = (
    "msitd records here, which no graph can hold: compile without "
    "fullgraph=True, or remove the hooks of msitd"
)

_FLAG = "_is_exporting_flag"


def is_loaded() -> bool:
    """Returns whether anything can have been compiled yet."""
    return "torch._dynamo" in sys.modules


def make_opaque(function: _Function) -> _Function:
    """Keeps Dynamo from ever looking into `function`. Imports Dynamo.

    Returns the function itself, without a frame around it.

    Raises:
        RuntimeError: This version of torch has no means for it.
    """
    try:
        from torch._dynamo.decorators import skip
    except ImportError as error:
        raise RuntimeError(
            "this version of torch cannot be told to leave functions out of its graphs"
        ) from error
    skip(function)
    _skip_inner(function)
    # torch.compiler.disable(reason=...) does the same.
    function._torchdynamo_disable_msg = _REASON  # type: ignore[attr-defined]
    return function


def _skip_inner(function: Callable[..., Any]) -> None:
    """Does not let Dynamo begin with a generator expression or the like inside."""
    from torch._dynamo.eval_frame import skip_code

    codes = [getattr(function, "__code__", None)]
    while codes:
        for constant in getattr(codes.pop(), "co_consts", ()):
            if isinstance(constant, CodeType):
                skip_code(constant)
                codes.append(constant)


def make_no_frame(function: Callable[..., Any]) -> None:
    """Lets Dynamo look into `function` where it is called by what Dynamo compiles.

    Called by anything else, it is not compiled by itself.
    """
    from torch._dynamo.eval_frame import skip_code

    skip_code(function.__code__)


@functools.cache
def make_modes_transparent() -> None:
    """Makes graphs as if no mode with the attribute `is_transparent` was there.

    Older versions of torch make no graphs while a mode is active.
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
    """Lets Dynamo see which functions of torch the operators of Python call."""
    try:
        from torch._dynamo.variables.builtin import populate_builtin_to_tensor_fn_map
    except ImportError:
        return
    from torch import overrides
    from torch.utils._python_dispatch import _disable_current_modes

    # It calls all of them, with tensors that it makes.
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
    """Lets Dynamo take an object of class `kind` for another, under modes of others."""
    with contextlib.suppress(ImportError, AttributeError):
        builder: Any = importlib.import_module("torch._dynamo.variables.builder")
        create = builder.SourcelessBuilder.create
        builder.SourcelessBuilder._type_handlers[kind] = lambda transaction, value: (
            create(transaction, original_of(value))
        )


def fill_tables() -> None:
    """Makes torch fill now what it fills with its functions when that is first needed.

    It does so once, and keeps what it finds: no stand-in may be there by then.
    """
    _learn_operators()
    for module, name in (
        # What a default device is for.
        ("torch.utils._device", "_device_constructors"),
        # What Dynamo knows.
        ("torch._dynamo.trace_rules", "get_tensor_method"),
        ("torch._dynamo.trace_rules", "get_torch_obj_rule_map"),
    ):
        with contextlib.suppress(ImportError, AttributeError):
            getattr(importlib.import_module(module), name)()
    with contextlib.suppress(ImportError), warnings.catch_warnings():
        # TorchScript is deprecated, which is nothing that the caller can change.
        warnings.simplefilter("ignore")
        importlib.import_module("torch._decomp.decompositions_for_jvp")


def tracing_test(is_possible: bool) -> Callable[[], bool]:
    """Returns a function that says whether Dynamo runs it, to make a graph.

    Args:
        is_possible: Whether Dynamo may run what asks.
    """
    import torch

    # Dynamo knows this function of torch as a constant.
    test = getattr(torch.compiler, "is_dynamo_compiling", None)
    return test if is_possible and test is not None else _no


class _NoExporter:
    """Stands for torch.compiler where that does not tell."""

    _is_exporting_flag = False


def exporter() -> Any:
    """Returns what has `_is_exporting_flag`: whether torch.export runs a model.

    The function of torch for it would be a frame more in each hook.
    """
    import torch

    return torch.compiler if hasattr(torch.compiler, _FLAG) else _NoExporter


def _no() -> bool:
    return False


@functools.cache
def make_package_opaque() -> None:
    """Does the same for all functions of the core that get tensors."""
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
    """Does the same for all of this package, where Dynamo looks into hooks anyway.

    Up to torch 2.2 it does, if they are no functions of their own.
    """
    try:
        from torch._dynamo import skipfiles
    except ImportError:
        return
    skipfiles.add("msitd")


def forget_graphs() -> None:
    """Makes Dynamo compile all graphs of the process again.

    Dynamo does not notice hooks that are added to, or removed from, a module in
    a graph.
    """
    if is_loaded():
        sys.modules["torch"].compiler.reset()


def compiles_backwards() -> bool:
    """Returns whether torch compiles backwards as graphs of their own.

    Inductor fails at operators with effects in these.
    """
    config = sys.modules.get("torch._dynamo.config")
    return bool(getattr(config, "compiled_autograd", False))


def is_running() -> bool:
    """Returns whether the caller is part of something compiled."""
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
