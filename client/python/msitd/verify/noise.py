"""Estimates how far a correct result may be from the exact one.

The error of a correct call depends on the function and on its inputs: a sum that cancels
has a larger relative error. This is measured, not derived for each function: the call is
made again with inputs that are off by one rounding in a random direction, and the change
of the result is the error that one rounding of each term makes. The growth of errors
along long sums is added by a factor. Roundings that no disturbance of the inputs shows,
such as those of a sum of exponentials, have terms of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msitd.verify import kernels, references, trees
from msitd.verify.arguments import Arguments
from msitd.verify.scores import roundoff, smallest_step
from msitd.verify.table import RECURRENT, STEPWISE, Kind, Spec
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch

    Tensors = Mapping[str, torch.Tensor]
    # Makes the call with arguments and gradients, which were disturbed if there is a
    # disturbance.
    Run = Callable[
        [Arguments, Tensors, trees.Disturbance | None], dict[str, torch.Tensor]
    ]

# Number of times that a call is made with disturbed inputs, at least and at most, and
# the number of samples from which the noise of an element is estimated.
_PROBES_MIN, _PROBES_MAX = 2, 16
_SAMPLES = 16
_FEW_ELEMENTS = 256
_SEED = 20240229

# Roundings inside of a function of one element.
_ELEMENTARY = 2.0
_ACTIVATION = 1.0
# The error function is a polynomial in some kernels.
_ERROR_FUNCTION = 3.0
# Growth of the error of a sum with the square root of its length.
_GROWTH = 0.3
# Functions that compute in several steps, with a rounding of each.
_STEPS = 1.5
_STEP_ROUNDINGS = 2.0
# Gradients are sums of several sums.
_BACKWARD = 2.0
# Elements that cancel completely keep the error of the others of their matrix.
_LEFT_OVER = 1.0
# Growth of the error of a sum of nearly equal terms that are added one by one: their
# roundings have the same direction.
_EQUAL_TERMS = 2.0
# Kernels add so many products one after the other, or a part of them if there are many,
# unless the result has few rows: those for vectors add all of them.
_PARTIAL_SUMS, _LANES, _FEW_ROWS = 128, 8, 4
# The absolute error of a polynomial that kernels for narrow types use for erf.
_FAST_ERF = 2e-7
# Kernels of attention use fast exponentials.
_FAST_EXPONENTIALS = 2.0
_STORED = 0.5

# Functions of single elements, whose errors have a bound.
_OF_ELEMENTS = (Kind.ROUNDED, Kind.ACTIVATION, Kind.MASKED)

_FLOAT32_ROUNDOFF = 2.0**-24
# Matrix units that add products of 8-bit numbers fast keep 14 bits of the sum.
_FAST_ROUNDOFF = 2.0**-14

# Results that change by a larger part if their arguments are rounded differently are
# not checked.
_AMPLIFIED_MAX = 0.1
_HUGE = 1e300
_ILL_CONDITIONED = "its arguments are too ill-conditioned for their type"


class Noise:
    """The noise of the results of one call, or of its gradients.

    Args:
        spec: The function.
        arguments: Its arguments with their recorded dtypes.
        wide: The same in float64.
        grads: The gradients of the results in their recorded dtypes. None if the
            results are checked.
    """

    def __init__(
        self,
        spec: Spec,
        arguments: Arguments,
        wide: Arguments,
        grads: Tensors | None = None,
    ) -> None:
        self._spec = spec
        self._arguments = arguments
        self._wide = wide
        self._grads = grads or {}
        self._is_backward = grads is not None
        self.wide_grads = {
            k: v.to(trees.wide_of(v.dtype)) for k, v in self._grads.items()
        }
        # Whether the noise is that of sums, so that it may be larger in some of many
        # elements. Otherwise it is a bound.
        self.has_sums = self._is_backward or spec.kind not in _OF_ELEMENTS
        # The noise of the terms, by the roundoff inside of the function.
        self._of_terms: dict[float, dict[str, torch.Tensor]] = {}

    def of(
        self,
        index: str,
        exact: dict[str, torch.Tensor],
        dtype: torch.dtype,
        run: Run,
    ) -> torch.Tensor:
        """Returns the standard deviation that is expected of each element of a result
        before the result is rounded.

        Args:
            index: Index of the result.
            exact: All exact results.
            dtype: Type of the recorded result.
            run: Makes the call again.

        Raises:
            Unchecked: The arguments are too ill-conditioned.
        """
        result = exact[index]
        inner = self._inner_roundoff(dtype)
        if inner not in self._of_terms:
            self._of_terms[inner] = self._probed(exact, run, inner)
        noise = self._of_terms[inner][index] + self._own(result, inner)
        if inner < roundoff(dtype) and not self._is_backward:
            count = kernels.narrow_roundings(self._spec, self._wide)
            # The noise of the terms without its growth, for another roundoff.
            ratio = roundoff(dtype) / (inner * self._growth(result))
            terms = self._of_terms[inner][index] * ratio
            noise = noise + terms * (_STORED * math.sqrt(count))
        noise = noise.maximum(self._equal_signs(result, inner))
        if self._spec.kind == Kind.ROUNDED and not self._is_backward:
            between = kernels.products_between(self._spec, self._wide, result)
            if between is not None:
                noise = noise + between * (roundoff(dtype) * _ELEMENTARY)
        if inner > roundoff(dtype):
            # A gradient of a narrower type, which is then converted.
            noise = noise + result.abs() * inner
        if self._spec.plain in references.EXPONENTIALS and not self._is_backward:
            # Exponentials, or their sum, are stored in the type of the result.
            stored = roundoff(dtype) + _ELEMENTARY * inner
            is_log = self._spec.plain in references.LOG_SOFTMAX
            noise = noise + (1 if is_log else result.abs()) * _STORED * stored
        if inner == roundoff(dtype):
            # Small terms are rounded to multiples of the smallest number.
            noise = noise + smallest_step(dtype) * math.sqrt(self._length(result))
        return noise

    def _inner_roundoff(self, dtype: torch.dtype) -> float:
        """Returns the unit roundoff of the roundings inside of the function.

        Functions on narrow types compute in float32, unless they consist of several
        functions. If the result is narrower than an argument, as under autocast,
        the arguments are rounded first.
        """
        own = roundoff(dtype)
        if self._spec.plain in references.SCALED_PRODUCTS:
            is_fast = references.is_fast(self._arguments)
            return _FAST_ROUNDOFF if is_fast else min(own, _FLOAT32_ROUNDOFF)
        given = [*trees.tensors_of(self._arguments), *self._grads.values()]
        roundoffs = [roundoff(each.dtype) for each in given if trees.is_real(each)]
        is_cast = any(each < own for each in roundoffs)
        has_steps = self._spec.kind in (Kind.COMPOSITE, Kind.ATTENTION, Kind.SOLVED)
        has_steps = has_steps or self._spec.plain in STEPWISE
        if self._is_backward and self._spec.kind != Kind.EXACT:
            # Under autocast, gradients are made in the type of the result.
            return max(own, *(roundoff(each.dtype) for each in self._grads.values()))
        if is_cast or has_steps or self._is_backward:
            return own
        return min(own, _FLOAT32_ROUNDOFF)

    def _own(self, result: torch.Tensor, inner: float) -> torch.Tensor:
        """Returns the noise of the function itself, apart from that of its terms.

        Args:
            result: The exact result.
            inner: See `_inner_roundoff`.
        """
        import torch

        size, kind, name = result.abs(), self._spec.kind, self._spec.plain
        if self._is_backward:
            sizes = (each.numel() for each in self._grads.values())
            rows = max(sizes, default=0) // max(1, size.numel())
            if rows > 1 and name in references.ADDED_ONE_BY_ONE:
                return size * inner * _EQUAL_TERMS * math.sqrt(rows)
            return torch.zeros_like(size)
        has_steps = name in references.REDUCTIONS | references.NORMALIZATIONS
        if kind == Kind.COMPOSITE or has_steps:
            return size * inner * _STEP_ROUNDINGS
        if kind == Kind.ROUNDED:
            is_plain = name in references.ARITHMETIC
            if result.dtype.is_complex:
                is_plain = name in references.BY_COMPONENT
            noise = size * inner * (0.0 if is_plain else _ELEMENTARY)
            dtype = self._number_dtype() if name == "erf" else None
            return noise if dtype is None or dtype.itemsize > 2 else noise + _FAST_ERF
        if kind != Kind.ACTIVATION:
            return torch.zeros_like(size)
        if name == "logit":
            return (1 + size) * inner * _STEP_ROUNDINGS
        noise = size * inner * _ELEMENTARY
        factor = _ERROR_FUNCTION if self._spec.plain == "gelu" else _ACTIVATION
        for each in trees.tensors_of(self._wide):
            if not trees.is_real(each) or each.numel() == 0:
                continue
            terms = each.abs() * inner * factor
            fits = each.dim() <= size.dim() and all(
                a in (1, b)
                for a, b in zip(
                    reversed(each.shape), reversed(size.shape), strict=False
                )
            )
            noise = noise + (terms if fits else terms.max())
        return noise

    def _probed(
        self, exact: dict[str, torch.Tensor], run: Run, inner: float
    ) -> dict[str, torch.Tensor]:
        """Returns the noise that roundings of the terms make in each result."""
        import torch

        squared = self._of_products(run, inner)
        if squared is not None:
            return squared
        is_of_elements = self._spec.kind in _OF_ELEMENTS
        tensors_too = self._is_backward or not is_of_elements
        number_dtype = self._number_dtype() if is_of_elements else None
        sums = {
            k: torch.zeros_like(v.abs()) for k, v in exact.items() if trees.is_real(v)
        }
        probes = max((_probes_for(each.shape) for each in sums.values()), default=1)
        if not tensors_too and not trees.has_floats(self._wide):
            return sums
        generator = torch.Generator().manual_seed(_SEED)
        growth = min((self._growth(exact[index]) for index in sums), default=1.0)
        for _ in range(probes):
            disturb = trees.Disturbance(inner, generator, tensors_too, number_dtype)
            disturb.shared = references.backward_error_dims(self._spec)
            disturb.growth = growth
            given = disturb.of(self._wide)
            grads = {k: disturb.tensor(v) for k, v in self.wide_grads.items()}
            try:
                moved = run(given, grads, disturb)
            except torch.linalg.LinAlgError as error:
                raise Unchecked(_ILL_CONDITIONED) from error
            for index, total in sums.items():
                change = (moved[index] - exact[index]).abs()
                if self._spec.plain in references.AMPLIFYING:
                    same = torch.isfinite(moved[index]) == torch.isfinite(exact[index])
                    change = torch.where(same, change, math.sqrt(_HUGE))
                total += torch.nan_to_num(change, 0.0, 0.0, 0.0).square()
        if self._spec.plain in references.AMPLIFYING:
            squares = {k: v / probes for k, v in sums.items()}
            _check_condition(self._spec, exact, squares)
        left_over = (
            self._is_backward
            or self._spec.kind in (Kind.ATTENTION, Kind.SOLVED)
            or self._spec.plain in references.TRANSFORMS | RECURRENT
        )
        return {
            index: _smoothed(total / probes, left_over) * self._growth(exact[index])
            for index, total in sums.items()
        }

    def _of_products(self, run: Run, inner: float) -> dict[str, torch.Tensor] | None:
        """Returns the noise of sums of products, which is known without disturbed calls:
        a rounding of each factor changes the result by the root of the sum of the
        squares of the products. None if the results are others.
        """
        squared = references.squared_terms(self._spec, self._wide)
        if self._is_backward or squared is None:
            return None
        factors = len(trees.tensors_of(self._wide))
        return {
            index: (each * factors).sqrt() * inner * self._growth(each)
            for index, each in run(squared, {}, None).items()
        }

    def _equal_signs(self, result: torch.Tensor, inner: float) -> torch.Tensor:
        """Returns the noise of a sum whose terms may all have one sign: the roundings of
        its partial sums grow with them. A root halves it.
        """
        import torch

        name, length = self._spec.plain, float(self._length(result))
        size = result.abs()
        if self._is_backward and name in references.LOGARITHMS:
            return torch.zeros_like(size)
        if name in references.PRODUCTS:
            if _rows_together(result.shape) >= _FEW_ROWS:
                length = min(length, max(_PARTIAL_SUMS, length / _LANES))
        elif name in references.LOGARITHMS:
            # The error of the sum is relative, and that of its logarithm absolute.
            size = torch.ones_like(size)
        elif name not in references.EXPONENTIALS:
            length *= 0.25 if name in references.ROOTS else 0
        return size * min(inner, _FLOAT32_ROUNDOFF) * math.sqrt(length) / 3

    def _number_dtype(self) -> torch.dtype | None:
        """Returns the type to which numbers among the arguments are rounded.

        Kernels of the CPU convert them to that of the tensor before they add them.
        """
        given = [
            each.dtype
            for each in trees.tensors_of(self._arguments)
            if trees.is_real(each)
        ]
        return max(given, key=roundoff, default=None)

    def _growth(self, result: torch.Tensor) -> float:
        """Returns the factor by which the roundings of sums grow."""
        if self._spec.kind in (Kind.ROUNDED, Kind.ACTIVATION) and not self._is_backward:
            return 1.0
        factor = 1 + _GROWTH * math.sqrt(self._length(result))
        if self._spec.kind == Kind.ATTENTION:
            factor *= _FAST_EXPONENTIALS
        if self._is_backward:
            return factor * _BACKWARD
        has_steps = self._spec.kind in (Kind.COMPOSITE, Kind.SOLVED)
        return factor * (_STEPS if has_steps else 1.0)

    def _length(self, result: torch.Tensor) -> int:
        """Returns the number of terms that an element of the result is the sum of,
        or more.
        """
        return references.sum_length(self._spec, self._wide, result, self.wide_grads)


def _check_condition(spec: Spec, exact: Tensors, squares: Tensors) -> None:
    """Refuses results that roundings of the arguments change so much that the change
    is not proportional to the roundings.

    Args:
        spec: The function.
        exact: The exact results.
        squares: The mean squares of the changes of each result.
    """
    for index, square in squares.items():
        result = exact[index].abs()
        # Logarithms may be 0.
        least = result.numel() if spec.plain in ("logdet", "slogdet") else 0
        limit = result.square().sum().clamp_min(least) * _AMPLIFIED_MAX**2
        if not bool(square.sum() <= limit):
            raise Unchecked(_ILL_CONDITIONED)


def _probes_for(shape: Any) -> int:
    """Returns how often a call must be made with disturbed inputs, so that `_smoothed`
    has enough samples for each element of a result.
    """
    if math.prod(shape) < _FEW_ELEMENTS:
        together = 2
    elif len(shape) < 2:
        # The mean of all elements is a lower bound.
        together = _SAMPLES
    else:
        together = _rows_together(shape)
    return min(_PROBES_MAX, max(_PROBES_MIN, math.ceil(_SAMPLES / together)))


def _rows_together(shape: Any) -> int:
    """Returns the number of rows or columns of a matrix, whichever is less."""
    if len(shape) < 2:
        return 1
    at = _split_of(shape)
    return max(1, min(math.prod(shape[:at]), math.prod(shape[at:])))


def _smoothed(squares: torch.Tensor, left_over: bool) -> torch.Tensor:
    """Returns standard deviations from squares of which there are few samples.

    Rows and columns of a result have their own magnitudes, so the square at a
    position is estimated by the means of its row and of its column.
    """
    import torch

    if squares.numel() < 2:
        return squares.sqrt()
    total = squares.mean()
    if float(total) == 0:
        return squares
    if squares.dim() < 2:
        return torch.maximum(squares, total.expand_as(squares)).sqrt()
    matrix = squares.flatten(_split_of(squares.shape)).flatten(0, -2)
    rows = matrix.mean(-1, keepdim=True)
    columns = matrix.mean(0)
    out = torch.maximum(matrix, rows * columns / total)
    if left_over:
        own = squares.mean((-2, -1), keepdim=True).expand_as(squares)
        is_large = squares.shape[-1] * squares.shape[-2] >= _FEW_ELEMENTS
        floor = (own if is_large else total.expand_as(squares)).reshape(matrix.shape)
        out = torch.maximum(out, floor * _LEFT_OVER)
    return out.reshape(squares.shape).sqrt()


def _split_of(shape: Any) -> int:
    """Returns the dimension from which on the others are the columns of a matrix: both
    rows and columns should have many elements to take a mean of.
    """
    splits = range(1, len(shape))
    return max(splits, key=lambda at: min(math.prod(shape[:at]), math.prod(shape[at:])))
