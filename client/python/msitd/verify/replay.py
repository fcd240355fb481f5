"""Makes a recorded call again, in float64, and says how far a correct result may be
from that.

The exact result is that of the same function on the same inputs in float64. The
error of a correct call depends on the function and on its inputs: a sum that cancels
has a larger relative error. This is measured, not derived for each function:
the call is made again with inputs that are off by one rounding in a random direction,
and the change of the result is the error that one rounding of each term makes. The
growth of errors along long sums is added by a factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msitd.verify import exactness, references, trees
from msitd.verify.arguments import Arguments
from msitd.verify.scores import (
    Checked,
    roundoff,
    score_equal,
    score_rounded,
    smallest_step,
)
from msitd.verify.table import CREATING, RECURRENT, STEPWISE, Kind, Spec
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch

    Tensors = Mapping[str, torch.Tensor]

# Number of times that a call is made with disturbed inputs.
_PROBES = 2
_PROBES_OF_FEW = 8
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
# Kernels add so many products one after the other, or a part of them if there are many.
_PARTIAL_SUMS, _LANES = 128, 8
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


def check_call(
    spec: Spec, arguments: Arguments, outputs: Tensors
) -> dict[str, Checked | Unchecked]:
    """Checks the results of a call.

    Args:
        spec: The function.
        arguments: Its arguments with their recorded dtypes.
        outputs: The recorded results by index.

    Returns:
        The outcome for each of `outputs`.

    Raises:
        Unchecked: The call cannot be made again.
        Exception: Any exception of torch.
    """
    if spec.is_foreach:
        return _check_foreach(spec, arguments, outputs)
    return _of_either(spec, lambda each: _check_call(each, arguments, outputs))


def _check_foreach(
    spec: Spec, arguments: Arguments, outputs: Tensors
) -> dict[str, Checked | Unchecked]:
    """Checks a function of lists as calls with lists of one element, so that the error
    of each depends only on its own arguments.
    """
    out: dict[str, Checked | Unchecked] = {}
    for index, recorded in outputs.items():
        before, _, position = index.rpartition(".")
        own = f"{before}.0" if before else "0"
        one = trees.picked(arguments, int(position))
        out[index] = _check_call(spec, one, {own: recorded})[own]
    return out


def _of_either(
    spec: Spec, check: Callable[[Spec], dict[str, Checked | Unchecked]]
) -> dict[str, Checked | Unchecked]:
    """Returns the outcomes of the function of an op. If another function has the same
    op, the results are correct if they are those of one of both.
    """
    if spec.alternative is None:
        return check(spec)
    failure: Exception | None = None
    kept: dict[str, Checked | Unchecked] = {}
    for each in (spec, spec.alternative):
        try:
            found = check(each)
        except Unchecked:
            if each is spec:
                raise
            continue
        except Exception as error:  # noqa: BLE001 - arguments of the other function
            failure = failure or error
            continue
        if all(map(_is_correct, found.values())):
            return found
        # A function whose results have other shapes was not the one.
        if not any(isinstance(outcome, Checked) for outcome in kept.values()):
            kept = found
    if not kept and failure is not None:
        raise failure
    return kept


def _is_correct(outcome: Checked | Unchecked) -> bool:
    return isinstance(outcome, Checked) and not outcome.score.is_wrong


def _check_call(
    spec: Spec, arguments: Arguments, outputs: Tensors
) -> dict[str, Checked | Unchecked]:
    import torch

    if spec.plain in CREATING:
        _check_size(arguments, outputs)
    with torch.no_grad():
        if spec.kind == Kind.CHOICE:
            return exactness.check_choice(spec, arguments, outputs)
        is_float = any(map(is_real, trees.tensors_of(arguments)))
        makes_float = any(map(is_real, outputs.values()))
        if spec.kind == Kind.EXACT or not (is_float or makes_float):
            return exactness.check_exact(spec, arguments, outputs)
        call = _Replay(spec, arguments, outputs)
        return call.check(outputs, call.run, is_backward=False)


def check_gradients(
    spec: Spec,
    arguments: Arguments,
    outputs: Tensors,
    grad_outputs: Tensors,
    grad_inputs: Tensors,
) -> dict[str, Checked | Unchecked]:
    """Checks the gradients of the arguments of a call, from those of its results.

    Args and raises: see `check_call`. The result has an entry for each of
    `grad_inputs`.
    """
    return _of_either(
        spec,
        lambda each: _check_gradients(
            each, arguments, outputs, grad_outputs, grad_inputs
        ),
    )


def _check_gradients(
    spec: Spec,
    arguments: Arguments,
    outputs: Tensors,
    grad_outputs: Tensors,
    grad_inputs: Tensors,
) -> dict[str, Checked | Unchecked]:
    if spec.kind == Kind.MASKED and "0" in outputs and "0" in grad_inputs:
        # An element of 0 shows by its gradient whether it was dropped.
        kept = (outputs["0"] != 0) | (grad_inputs["0"] != 0)
        outputs = {"0": kept}
    call = _Replay(spec, arguments, outputs)
    wanted = list(grad_inputs)

    def found(shared: Mapping[str, str]) -> dict[str, Checked | Unchecked]:
        def run(given: Arguments, grads: Tensors) -> dict[str, torch.Tensor]:
            return gradients(call.results, given, grads, wanted, shared)

        return call.check(grad_inputs, run, is_backward=True, grads=grad_outputs)

    own = found({})
    shared = _shared_of(arguments, grad_inputs)
    if not shared or all(map(_is_correct, own.values())):
        return own
    total = found(shared)
    return total if all(map(_is_correct, total.values())) else own


def _shared_of(arguments: Arguments, grads: Tensors) -> dict[str, str]:
    """Returns the arguments that may be one tensor, with the first of each. A tensor
    that a function is given several times has the total gradient at each position.
    """
    import torch

    first: list[tuple[str, torch.Tensor]] = []
    out: dict[str, str] = {}
    for path, value in trees.leaves_of(arguments):
        if path not in grads or not isinstance(value, torch.Tensor):
            continue
        for known, tensor in first:
            is_same = value.dtype == tensor.dtype and torch.equal(value, tensor)
            if is_same and torch.equal(grads[path], grads[known]):
                out[path] = known
                break
        else:
            first.append((path, value))
    return out


def is_real(value: Any) -> bool:
    """Returns whether a tensor has elements that are rounded."""
    return bool(value.dtype.is_floating_point or value.dtype.is_complex)


def gradients(
    results: Callable[[Arguments], dict[str, torch.Tensor]],
    given: Arguments,
    grads: Tensors,
    wanted: list[str],
    shared: Mapping[str, str],
) -> dict[str, torch.Tensor]:
    """Returns the gradients of the arguments at the indexes `wanted`, as autograd
    computes them in float64. Those in `shared` are the tensor at another index.

    Raises:
        Unchecked: The call has no such argument, or no gradient flows to it.
    """
    import torch

    with torch.enable_grad():
        leaves: dict[str, torch.Tensor] = {}

        def as_leaf(path: str, value: torch.Tensor) -> torch.Tensor:
            if path not in wanted or not is_real(value):
                return value
            first = shared.get(path, path)
            if first not in leaves:
                leaves[first] = value.detach().clone().requires_grad_(True)
            # A function that works in place must not change a leaf.
            return leaves[first].view_as(leaves[first]).clone()

        out = results(trees.replaced(given, as_leaf))
        pairs = [
            (out[index], grad.reshape(out[index].shape))
            for index, grad in grads.items()
            if index in out and out[index].requires_grad
        ]
        known = len(leaves) + len(shared)
        if known != len(wanted) or len(pairs) != len(grads) or not pairs:
            raise Unchecked("its gradients do not belong to its recorded arguments")
        found = torch.autograd.grad(
            [each for each, _ in pairs],
            list(leaves.values()),
            [grad.to(each.dtype) for each, grad in pairs],
            allow_unused=True,
        )
    by_leaf = {
        index: torch.zeros_like(leaf) if grad is None else grad.detach()
        for (index, leaf), grad in zip(leaves.items(), found, strict=True)
    }
    return {index: by_leaf[shared.get(index, index)] for index in wanted}


def _check_size(arguments: Arguments, outputs: Tensors) -> None:
    """Refuses to create a tensor that is larger than the recorded one."""
    most = max((each.numel() for each in outputs.values()), default=0)
    size = 1
    for value in trees.numbers_of(arguments):
        size = max(size, abs(value)) if len(outputs) else size
    product = math.prod(max(abs(value), 1) for value in trees.numbers_of(arguments))
    if min(size, product) > max(most, 1) * 64:
        raise Unchecked("it creates a tensor of another size than the recorded one")


class _Replay:
    """A call that is made again in float64."""

    def __init__(self, spec: Spec, arguments: Arguments, outputs: Tensors) -> None:
        spec = references.refined(spec, arguments)
        self._spec = spec
        self._arguments = arguments
        self._outputs = outputs
        self._wide = references.centered(spec, trees.widened(arguments))

    def results(self, given: Arguments) -> dict[str, torch.Tensor]:
        """Returns the results for arguments in float64 by index."""
        return references.exact(self._spec, given, self._outputs)

    def run(self, given: Arguments, _: Tensors) -> dict[str, torch.Tensor]:
        """The same, for `check`.

        Copies the arguments, because a function that works in place changes them, and
        the next call starts from them again.
        """
        return self.results(trees.replaced(given, lambda _, each: each.clone()))

    def check(
        self,
        recorded: Tensors,
        run: Callable[[Arguments, Tensors], dict[str, torch.Tensor]],
        *,
        is_backward: bool,
        grads: Tensors | None = None,
    ) -> dict[str, Checked | Unchecked]:
        """Checks what `run` computes from arguments and gradients in float64."""

        wide_grads = {k: v.to(trees.wide_of(v.dtype)) for k, v in (grads or {}).items()}
        exact = run(self._wide, wide_grads)
        out: dict[str, Checked | Unchecked] = {}
        noises: dict[float, dict[str, torch.Tensor]] = {}
        for index, given in recorded.items():
            result = exact.get(index)
            if result is None or result.shape != given.shape:
                out[index] = exactness.mismatch(result, given)
                continue
            if not is_real(given):
                out[index] = Checked(
                    result.to(given.dtype), score_equal(given, result.to(given.dtype))
                )
                continue
            inner = self._inner_roundoff(given.dtype, grads, is_backward)
            if self._spec.plain == "det" and not is_backward:
                _check_overflow(result, given.dtype)
            if inner not in noises:
                noises[inner] = self._noise(exact, run, wide_grads, inner, is_backward)
            noise = noises[inner][index] + self._own_noise(
                result, inner, wide_grads if is_backward else None
            )
            noise = noise.maximum(self._equal_signs(result, inner, wide_grads))
            if inner > roundoff(given.dtype):
                # A gradient of a narrower type, which is then converted.
                noise = noise + result.abs() * inner
            if self._spec.plain in references.EXPONENTIALS and not is_backward:
                # Exponentials, or their sum, are stored in the type of the result.
                stored = roundoff(given.dtype) + _ELEMENTARY * inner
                is_log = self._spec.plain in references.LOG_SOFTMAX
                noise = noise + (1 if is_log else result.abs()) * _STORED * stored
            if inner == roundoff(given.dtype):
                # Small terms are rounded to multiples of the smallest number.
                terms = self._length(result, wide_grads)
                noise = noise + smallest_step(given.dtype) * math.sqrt(terms)
            has_sums = is_backward or self._spec.kind not in _OF_ELEMENTS
            score, golden = score_rounded(given, result, noise, has_sums)
            out[index] = Checked(_stored(golden, given.dtype), score)
        return out

    def _inner_roundoff(
        self, dtype: torch.dtype, grads: Tensors | None, is_backward: bool
    ) -> float:
        """Returns the unit roundoff of the roundings inside of the function.

        Functions on narrow types compute in float32, unless they consist of several
        functions. If the result is narrower than an argument, as under autocast,
        the arguments are rounded first.
        """
        own = roundoff(dtype)
        if self._spec.plain in references.SCALED_PRODUCTS:
            is_fast = references.is_fast(self._arguments)
            return _FAST_ROUNDOFF if is_fast else min(own, _FLOAT32_ROUNDOFF)
        given = [*trees.tensors_of(self._arguments), *(grads or {}).values()]
        roundoffs = [roundoff(each.dtype) for each in given if is_real(each)]
        is_cast = any(each < own for each in roundoffs)
        has_steps = self._spec.kind in (Kind.COMPOSITE, Kind.ATTENTION, Kind.SOLVED)
        has_steps = has_steps or self._spec.plain in STEPWISE
        if is_backward and self._spec.kind != Kind.EXACT:
            # Under autocast, gradients are made in the type of the result.
            return max(own, *(roundoff(each.dtype) for each in (grads or {}).values()))
        if is_cast or has_steps or is_backward:
            return own
        return min(own, _FLOAT32_ROUNDOFF)

    def _own_noise(
        self, result: torch.Tensor, inner: float, grads: Tensors | None
    ) -> torch.Tensor:
        """Returns the noise of the function itself, apart from that of its terms.

        Args:
            result: The exact result.
            inner: See `_inner_roundoff`.
            grads: The gradients of the results, if `result` is a gradient.
        """
        import torch

        size, kind, name = result.abs(), self._spec.kind, self._spec.plain
        if grads is not None:
            rows = max(each.numel() for each in grads.values()) // max(1, size.numel())
            if rows > 1 and name in references.ADDED_ONE_BY_ONE:
                return size * inner * _EQUAL_TERMS * math.sqrt(rows)
            return torch.zeros_like(size)
        if kind == Kind.COMPOSITE or name in references.REDUCTIONS:
            return size * inner * _STEP_ROUNDINGS
        if kind == Kind.ROUNDED:
            is_plain = name in references.ARITHMETIC
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
            if not is_real(each) or each.numel() == 0:
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

    def _noise(
        self,
        exact: dict[str, torch.Tensor],
        run: Callable[[Arguments, Tensors], dict[str, torch.Tensor]],
        grads: Tensors,
        inner: float,
        is_backward: bool,
    ) -> dict[str, torch.Tensor]:
        """Returns the noise that roundings of the terms make in each result."""
        import torch

        is_of_elements = self._spec.kind in _OF_ELEMENTS
        tensors_too = is_backward or not is_of_elements
        number_dtype = self._number_dtype() if is_of_elements else None
        sums = {k: torch.zeros_like(v.abs()) for k, v in exact.items() if is_real(v)}
        few = all(each.numel() < _FEW_ELEMENTS for each in sums.values())
        probes = _PROBES_OF_FEW if few else _PROBES
        if not tensors_too and not trees.has_floats(self._wide):
            return sums
        generator = torch.Generator().manual_seed(_SEED)
        for _ in range(probes):
            disturb = trees.Disturbance(inner, generator, tensors_too, number_dtype)
            disturb.shared = references.backward_error_dims(self._spec)
            given = disturb.of(self._wide)
            try:
                moved = run(given, {k: disturb.tensor(v) for k, v in grads.items()})
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
            is_backward
            or self._spec.kind in (Kind.ATTENTION, Kind.SOLVED)
            or self._spec.plain in references.TRANSFORMS | RECURRENT
        )
        return {
            index: _smoothed(total / probes, left_over)
            * self._growth(exact[index], grads, is_backward)
            for index, total in sums.items()
        }

    def _equal_signs(
        self, result: torch.Tensor, inner: float, grads: Tensors
    ) -> torch.Tensor:
        """Returns the noise of a sum whose terms may all have one sign: the roundings of
        its partial sums grow with them. A root halves it.
        """
        name, length = self._spec.plain, float(self._length(result, grads))
        if name in references.PRODUCTS:
            length = min(length, max(_PARTIAL_SUMS, length / _LANES))
        else:
            length *= 0.25 if name in references.ROOTS else 0
        return result.abs() * min(inner, _FLOAT32_ROUNDOFF) * math.sqrt(length) / 3

    def _number_dtype(self) -> torch.dtype | None:
        """Returns the type to which numbers among the arguments are rounded.

        Kernels of the CPU convert them to that of the tensor before they add them.
        """
        given = [
            each.dtype for each in trees.tensors_of(self._arguments) if is_real(each)
        ]
        return max(given, key=roundoff, default=None)

    def _growth(self, result: torch.Tensor, grads: Tensors, is_backward: bool) -> float:
        """Returns the factor by which the roundings of sums grow."""
        if self._spec.kind in (Kind.ROUNDED, Kind.ACTIVATION) and not is_backward:
            return 1.0
        factor = 1 + _GROWTH * math.sqrt(self._length(result, grads))
        if self._spec.kind == Kind.ATTENTION:
            factor *= _FAST_EXPONENTIALS
        if is_backward:
            return factor * _BACKWARD
        has_steps = self._spec.kind in (Kind.COMPOSITE, Kind.SOLVED)
        return factor * (_STEPS if has_steps else 1.0)

    def _length(self, result: torch.Tensor, grads: Tensors) -> int:
        """Returns the number of terms that an element of the result is the sum of,
        or more.
        """
        return references.sum_length(self._spec, self._wide, result, grads)


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


def _check_overflow(exact: torch.Tensor, dtype: torch.dtype) -> None:
    """Refuses products of many factors that may be infinite before the last factor."""
    import torch

    limit = float(torch.finfo(dtype).max) * roundoff(dtype)
    if bool((exact.abs() > limit).any()):
        raise Unchecked("its result nearly overflows")


def _stored(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns the exact result in the narrowest dtype whose roundings do not count."""
    import torch

    return exact.to(torch.float32) if dtype.itemsize < 4 else exact


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
