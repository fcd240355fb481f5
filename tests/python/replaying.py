"""Makes calls of torch as a run has them, with correct and with wrong results."""

from typing import Any

import torch
from msitd.verify import table
from msitd.verify.arguments import Arguments
from msitd.verify.scores import LIMIT, Checked, roundoff

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
FLOATS = [str(dtype).removeprefix("torch.") for dtype in DTYPES]


def x(*shape: int, positive: bool = False) -> torch.Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))
    return made.abs() + 0.5 if positive else made


def ints(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(7))


def is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


def cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, tuple):
        return tuple(cast(each, dtype) for each in value)
    return value.to(dtype) if is_float(value) else value


def run(
    op: str, args: Any, kwargs: Any
) -> tuple[table.Spec, Arguments, dict[str, Any]]:
    """Returns a call with the results that torch computes."""
    spec = table.find(op)
    assert isinstance(spec, table.Spec)
    copies = tuple(v.clone() if isinstance(v, torch.Tensor) else v for v in args)
    result = spec.function(*copies, **kwargs)
    if result is None:
        result = copies
    results = result if isinstance(result, tuple) else (result,)
    outputs = {
        str(i): v.resolve_conj()
        for i, v in enumerate(results)
        if isinstance(v, torch.Tensor)
    }
    return spec, Arguments(args, kwargs), outputs


def worse(result: torch.Tensor, checked: Checked) -> torch.Tensor:
    """Returns a result whose largest element is off by a few units more than LIMIT."""
    bound = float(checked.score.predicate.rpartition("<")[2]) / LIMIT
    out = result.contiguous().clone()
    elements = torch.view_as_real(out) if out.is_complex() else out
    at = int(elements.abs().float().flatten().argmax())
    value = float(elements.flatten()[at])
    step = max(bound, roundoff(result.dtype) * abs(value))
    elements.view(-1)[at] = value + 4 * step * (1 if value >= 0 else -1)
    return out
