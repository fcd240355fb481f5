"""Results of dropout: the elements that it kept, and whether their number is plausible."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msitd.verify import trees
from msitd.verify.arguments import Arguments
from msitd.verify.scores import EQUAL, Checked, Score
from msitd.verify.table import RANDOM_REASON, Spec
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch

    Tensors = Mapping[str, torch.Tensor]
    Outcomes = dict[str, Checked | Unchecked]

# Functions that drop whole channels, with the number of dimensions of an argument
# without a batch.
_OF_CHANNELS = {"dropout1d": 2, "dropout2d": 0, "dropout3d": 4, "feature_dropout": 0}
# A number of kept elements is wrong if its probability is less than exp(-32), about
# 1e-14. Kernels may draw with a probability of 8 bits.
_IMPROBABLE = 32.0
_PROBABILITY_STEP = 1 / 256
_SEED = 20240301


def _probability(given: Arguments) -> tuple[torch.Tensor, float]:
    """Returns the argument of a dropout, and the probability with which it drops."""
    at = trees.named(given, "input p train inplace")
    is_on = at.get("training", at.get("train", True))
    return at["input"], at.get("p", 0.5) if is_on else 0.0


def results(given: Arguments, recorded: Tensors) -> dict[str, torch.Tensor]:
    """Returns the result of a dropout that keeps the elements that the recorded result
    has kept.

    Raises:
        Unchecked: It is not known which elements were kept.
    """
    import torch

    x, p = _probability(given)
    if p == 0:
        return {"0": x * 1.0}
    if "0" not in recorded or not 0 < p <= 1:
        raise Unchecked(RANDOM_REASON)
    # An element of 0 does not show whether it was dropped.
    kept = (recorded["0"] != 0) & torch.ones((), dtype=torch.bool)
    return {"0": x * kept * _scale(p)}


def _scale(p: float) -> float:
    return 0.0 if p == 1 else 1 / (1 - p)


def check_kept(
    spec: Spec, given: Arguments, recorded: Tensors, found: Outcomes
) -> Outcomes:
    """Checks which elements a dropout has kept.

    Args:
        spec: The function.
        given: Its arguments with their recorded dtypes.
        recorded: The recorded results.
        found: The outcomes for the values of the elements.

    Returns:
        The outcomes. If the elements are not a random choice, the golden result is
        another correct one.
    """
    import torch

    outcome = found.get("0")
    if not isinstance(outcome, Checked) or outcome.score.is_wrong:
        return found
    x, p = _probability(given)
    if not 0 < p < 1 or x.numel() == 0:
        return found
    units = x.reshape(_unit_count(spec, x), -1)
    # Elements of 0 and those that may be flushed to 0 do not show that they were kept.
    shows = torch.isfinite(units) & (units.abs() > torch.finfo(x.dtype).tiny)
    kept = (recorded["0"].reshape(units.shape) != 0) & shows
    is_kept = kept.any(1)
    partly = int((is_kept & (shows & ~kept).any(1)).sum())
    total, count = int(shows.any(1).sum()), int(is_kept.sum())
    if partly:
        problem = f"{partly} of {total} channels were dropped in part"
    elif _is_improbable(count, total, 1 - p):
        problem = f"it kept {count} of {total} random elements, with p = {p:g}"
    else:
        return found
    generator = torch.Generator().manual_seed(_SEED)
    other = torch.rand(len(units), 1, generator=generator, dtype=torch.float64) >= p
    golden = (units.to(torch.float64) * other * _scale(p)).reshape(x.shape)
    score = Score(math.inf, math.inf, (), EQUAL, problem)
    return {**found, "0": Checked(golden.to(outcome.golden.dtype), score)}


def _unit_count(spec: Spec, x: torch.Tensor) -> int:
    """Returns the number of parts of a tensor that are each dropped or kept."""
    without_batch = _OF_CHANNELS.get(spec.plain)
    if without_batch is None:
        return x.numel()
    return math.prod(x.shape[: 1 if x.dim() == without_batch else 2])


def _is_improbable(count: int, total: int, probability: float) -> bool:
    """Returns whether so many of all elements are hardly ever kept: a bound of the
    binomial distribution by Chernoff.
    """
    if total == 0:
        return False
    share = count / total
    expected = min(
        max(share, probability - _PROBABILITY_STEP), probability + _PROBABILITY_STEP
    )
    divergence = 0.0
    for part, whole in ((share, expected), (1 - share, 1 - expected)):
        if part > 0 and part != whole:
            divergence += part * math.log(part / whole) if whole > 0 else math.inf
    return total * divergence > _IMPROBABLE
