"""Names the op of a module, and the token at which it is recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msitd._core.module.native_calls import Progress
    from msitd._core.module.steps import Steps

_ROOT_OP = "root"


def default_op_of(module_name: str) -> str:
    """Returns the op for the dotted name of a module, which is empty for the model."""
    return op_under(_ROOT_OP, module_name)


def op_under(model_op: str, module_name: str) -> str:
    """Returns the op of a module within the model whose op is given."""
    return f"{model_op}.{module_name}" if module_name else model_op


def recorded_op(
    matches: Callable[[str], Any], op_of: Callable[[str], str], module_name: str
) -> str | None:
    """Returns the op of a module; None if it is not recorded."""
    op = op_of(module_name)
    return op if matches(op) else None


def recorded_token(
    steps: Steps, tokens: Collection[int] | None, progress: Progress
) -> int | None:
    """Returns the token of the last pass; None if it is not recorded."""
    if progress.is_paused:
        return None
    token = steps.token
    return token if tokens is None or token in tokens else None
