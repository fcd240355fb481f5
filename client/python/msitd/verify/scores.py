"""Measures a result in rounding units.

One unit is the error that a correct call may make. For an element with the exact
value r it consists of

- the rounding of the result: u |r|, where u is the unit roundoff of its dtype,
- the roundings inside of the function: an estimate for the element, which depends on
  the length of its sums and on the cancellation in them.

A result has two scores. `norm` compares the norm of all errors with the norm of the
units, so that it finds small errors that many elements have. `worst` is the largest
error of a single element in its unit. The largest of n independent errors is expected
to be sqrt(2 ln n) standard deviations, so `worst` multiplies the estimate by that.

Correct results have a norm of about 0.4, and their worst element is at most about 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

# A result with a score of this many units is wrong.
LIMIT = 2.0


class Score(NamedTuple):
    """How far a result is from the exact one."""

    # In units. Infinite if NaN or infinities are at other places.
    norm: float
    worst: float
    # Position of the worst element.
    place: tuple[int, ...] = ()
    # Condition that the result satisfies exactly if it is correct. Its names are
    # the metrics of comparisons.
    predicate: str = ""
    # A description of the fault, if it is not a large error of an element.
    problem: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether the result is farther from the exact one than rounding explains."""
        return not (self.norm < LIMIT and self.worst < LIMIT)

    @property
    def units(self) -> float:
        """The larger of both scores."""
        return max(self.norm, self.worst)


class Checked(NamedTuple):
    """The outcome for one tensor of a call."""

    # The exact result, as the golden run has it.
    golden: torch.Tensor
    score: Score


_SAME_PLACES = "nan_mismatch_count == 0 and inf_mismatch_count == 0"
EQUAL = "mismatch_count == 0"
# The problem of a result of another shape begins with this.
OTHER_SHAPE = "its shape is "


def roundoff(dtype: torch.dtype) -> float:
    """Returns the unit roundoff of a floating-point or complex dtype."""
    import torch

    return float(torch.finfo(dtype).eps) / 2


def smallest_step(dtype: torch.dtype) -> float:
    """Returns the distance of the smallest numbers: a result of that size may be
    flushed to zero.
    """
    import torch

    info = torch.finfo(dtype)
    # float16 has subnormal numbers everywhere. Kernels flush those of the others.
    return float(info.tiny * info.eps) if dtype == torch.float16 else float(info.tiny)


def score_equal(recorded: torch.Tensor, exact: torch.Tensor) -> Score:
    """Scores a result that must have the values of `exact`.

    Zeros of different sign are equal, and so are all NaN.
    """
    import torch

    same = (recorded == exact) | (_is_nan(recorded) & _is_nan(exact))
    count = int((~same).sum())
    if count == 0:
        return Score(0.0, 0.0, (), EQUAL)
    place = _place_of(int(torch.argmin(same.flatten().to(torch.uint8))), same.shape)
    problem = f"{count} of {same.numel()} elements differ from the exact result"
    return Score(math.inf, math.inf, place, EQUAL, problem)


def score_rounded(
    recorded: torch.Tensor,
    exact: torch.Tensor,
    noise: torch.Tensor,
    has_sums: bool = True,
) -> tuple[Score, torch.Tensor]:
    """Scores a result that may be rounded.

    Args:
        recorded: The result, of any floating-point dtype.
        exact: The exact result in float64.
        noise: The standard deviation that is expected of each element before the
            result is rounded.
        has_sums: Whether the noise is that of sums, so that it may be larger in some
            of many elements. Otherwise it is a bound.

    Returns:
        The score, and the exact result with infinities where its elements exceed
        the dtype of the result.
    """
    import torch

    dtype = recorded.dtype
    if dtype.is_complex:
        score, _ = score_rounded(
            torch.view_as_real(recorded),
            torch.view_as_real(exact),
            noise.unsqueeze(-1).expand(*noise.shape, 2),
            has_sums,
        )
        return score, exact
    given = recorded.to(torch.float64)
    exact = _with_infinities(exact, given, dtype)
    is_finite = torch.isfinite(exact) & torch.isfinite(given)
    agrees = is_finite | (given == exact) | (_is_nan(given) & _is_nan(exact))
    if not bool(agrees.all()):
        place = _place_of(
            int(torch.argmin(agrees.flatten().to(torch.uint8))), given.shape
        )
        count = int((~agrees).sum())
        problem = f"{count} of {given.numel()} elements are NaN or infinite by mistake"
        return Score(math.inf, math.inf, place, _SAME_PLACES, problem), exact
    if given.numel() == 0:
        return Score(0.0, 0.0, (), EQUAL), exact
    if not bool(is_finite.any()):
        # Without finite elements, no other metric is defined.
        return Score(0.0, 0.0, (), _SAME_PLACES), exact
    zero = torch.zeros((), dtype=torch.float64)
    error = torch.where(is_finite, (given - exact).abs(), zero)
    noise = torch.where(is_finite & torch.isfinite(noise), noise, zero)
    rounding = torch.where(is_finite, exact.abs(), zero) * roundoff(dtype)
    step = smallest_step(dtype)
    unit = (rounding.square() + noise.square() + step * step).sqrt()
    spread = max(1.0, math.sqrt(2 * math.log(error.numel()))) if has_sums else 1.0
    bound = rounding + spread * noise + step
    # A unit of 0 is one of float64 numbers near 0, all of which are exact.
    shares = error / bound.clamp_min(5e-324)
    at = int(torch.argmax(shares.flatten()))
    score = Score(
        norm=float(error.norm() / unit.norm().clamp_min(5e-324)),
        worst=float(shares.flatten()[at]),
        place=_place_of(at, error.shape),
    )
    is_worst = score.worst >= LIMIT
    most = float(bound.flatten()[at] if is_worst else bound.max()) * LIMIT
    size = float(torch.where(is_finite, exact, zero).norm())
    return score._replace(predicate=_predicate(unit, size, most)), exact


def _predicate(unit: torch.Tensor, size: float, most: float) -> str:
    parts = [_SAME_PLACES]
    if size > 0:
        parts.append(f"nl2 < {LIMIT * float(unit.norm()) / size:.6g}")
    parts.append(f"max_abs < {most:.6g}")
    return " and ".join(parts)


def _with_infinities(
    exact: torch.Tensor, given: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """Returns `exact` with the infinities that a correct rounding to `dtype` makes.

    Close to the limit of the dtype, both roundings are correct.
    """
    import torch

    limit = float(torch.finfo(dtype).max) * (1 + roundoff(dtype))
    margin = 4 * roundoff(dtype)
    over = exact.abs() >= limit * (1 - margin)
    must = exact.abs() >= limit * (1 + margin)
    if not bool(over.any()):
        return exact
    infinite = torch.copysign(torch.full_like(exact, math.inf), exact)
    # Types without infinities saturate, or have NaN instead.
    most = torch.copysign(torch.full_like(exact, float(torch.finfo(dtype).max)), exact)
    saturates = (given == most) & (exact.abs() >= most.abs())
    took = (given == infinite) | (
        (saturates | (must & torch.isnan(given))) & (dtype.itemsize == 1)
    )
    chosen = torch.where(over & (took | must), infinite, exact)
    return torch.where((dtype.itemsize == 1) & over & took, given, chosen)


def _is_nan(tensor: torch.Tensor) -> torch.Tensor:
    """Returns which elements are NaN, for any dtype."""
    return tensor != tensor  # noqa: PLR0124 - isnan does not have all dtypes


def _place_of(flat: int, shape: Any) -> tuple[int, ...]:
    place = []
    for length in reversed(shape):
        flat, at = divmod(flat, max(int(length), 1))
        place.append(at)
    return tuple(reversed(place))
