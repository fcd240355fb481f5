"""Correct results of all functions of the table are found to be correct."""

import warnings
from collections.abc import Iterator

import pytest
import torch
from msitd.verify import replay, table
from msitd.verify.arguments import Arguments
from msitd.verify.scores import Checked
from msitd.verify.unchecked import Unchecked

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Shift and scale of normal numbers.
INPUTS = ((0, 1), (0.5, 0.2), (1.5, 0.3), (0, 30), (0, 1e-3))
KINDS = ("rounded", "activation", "sums", "composite")
ROWS, COLUMNS = 24, 40


def specs() -> Iterator[table.Spec]:
    for kind, text in table.KINDS.items():
        if kind.value not in KINDS:
            continue
        for name in text.split():
            for owner in ("Torch", "Functional", "Tensor"):
                spec = table.find(f"{owner}.{name}")
                if isinstance(spec, table.Spec):
                    yield spec


def calls(spec: table.Spec, dtype: torch.dtype) -> Iterator[tuple[object, ...]]:
    generator = torch.Generator().manual_seed(len(spec.name))
    for shift, scale in INPUTS:
        x, y = (
            (torch.randn(ROWS, COLUMNS, generator=generator) * scale + shift).to(dtype)
            for _ in range(2)
        )
        yield from ((x,), (x, y), (x, 0.37))


def wrong(spec: table.Spec, args: tuple[object, ...]) -> list[str]:
    """Returns the results of a call that are called wrong; none if torch rejects it.

    A step of some functions overflows although the exact result would not. Their
    results are rightly called infinite by mistake.
    """
    copies = [v.clone() if isinstance(v, torch.Tensor) else v for v in args]
    try:
        result = spec.function(*copies)
    except (AttributeError, TypeError, RuntimeError, ValueError, IndexError):
        return []
    results = result if isinstance(result, tuple) else (result,)
    outputs = {str(i): v for i, v in enumerate(results) if isinstance(v, torch.Tensor)}
    try:
        found = replay.check_call(spec, Arguments(args, {}), outputs)
    except (Unchecked, RuntimeError):
        return []
    return [
        f"{spec.owner}.{spec.name} {index} {each.score}"
        for index, each in found.items()
        if isinstance(each, Checked) and each.score.is_wrong and not each.score.problem
    ]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_are_correct(dtype: torch.dtype) -> None:
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for spec in specs():
            try:
                callable(spec.function)
            except AttributeError:
                continue
            for args in calls(spec, dtype):
                count += 1
                assert not wrong(spec, args), args
    assert count > 1000


def test_sums_of_many_terms_are_correct() -> None:
    x, y = torch.randn(2, 300_000, generator=torch.Generator().manual_seed(3)) + 1.5
    rows, row = x.view(4, -1), y[:75_000]
    calls: list[tuple[str, tuple[object, ...]]] = [
        ("Torch.norm", (x,)),
        ("Torch.frobenius_norm", (rows,)),
        ("Torch.inner", (rows, row)),
        ("Torch.mv", (rows, row)),
        ("Torch.dot", (x, y)),
        ("Torch.cosine_similarity", (rows, row)),
        ("Functional.mse_loss", (x, y)),
    ]
    for op, args in calls:
        spec = table.find(op)
        assert isinstance(spec, table.Spec)
        assert not wrong(spec, args)
