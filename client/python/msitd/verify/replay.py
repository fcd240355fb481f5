"""Makes a recorded call again, in float64, and says how far a correct result may be
from that.

The exact result is that of the same function on the same inputs in float64. `noise`
estimates the error of a correct call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msitd.verify import dropout, exactness, references, trees
from msitd.verify.arguments import Arguments
from msitd.verify.noise import Noise
from msitd.verify.scores import (
    OTHER_SHAPE,
    Checked,
    roundoff,
    score_equal,
    score_rounded,
)
from msitd.verify.table import CREATING, Kind, Spec
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch

    Tensors = Mapping[str, torch.Tensor]


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
        if not kept or any(map(_has_shape, found.values())) > any(
            map(_has_shape, kept.values())
        ):
            kept = found
    if not kept and failure is not None:
        raise failure
    return kept


def _is_correct(outcome: Checked | Unchecked) -> bool:
    return isinstance(outcome, Checked) and not outcome.score.is_wrong


def _has_shape(outcome: Checked | Unchecked) -> bool:
    if not isinstance(outcome, Checked):
        return False
    return not outcome.score.problem.startswith(OTHER_SHAPE)


def _check_call(
    spec: Spec, arguments: Arguments, outputs: Tensors
) -> dict[str, Checked | Unchecked]:
    import torch

    spec = references.refined(spec, arguments)
    if spec.plain in CREATING:
        _check_size(arguments, outputs)
    with torch.no_grad():
        if spec.kind == Kind.CHOICE:
            return exactness.check_choice(spec, arguments, outputs)
        is_float = any(map(trees.is_real, trees.tensors_of(arguments)))
        makes_float = any(map(trees.is_real, outputs.values()))
        if spec.kind == Kind.EXACT or not (is_float or makes_float):
            return exactness.check_exact(spec, arguments, outputs)
        call = _Replay(spec, arguments, outputs)
        found = call.check(outputs, call.run)
        if spec.kind == Kind.MASKED:
            return dropout.check_kept(spec, arguments, outputs, found)
        return found


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

        return call.check(grad_inputs, run, grad_outputs)

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
            if path not in wanted or not trees.is_real(value):
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
        # Not None while the call is made with disturbed arguments.
        self._steps: trees.Disturbance | None = None

    def results(self, given: Arguments) -> dict[str, torch.Tensor]:
        """Returns the results for arguments in float64 by index."""
        return references.exact(self._spec, given, self._outputs, self._steps)

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
        grads: Tensors | None = None,
    ) -> dict[str, Checked | Unchecked]:
        """Checks what `run` computes from arguments and gradients in float64.

        Args:
            recorded: The recorded results, or gradients of arguments, by index.
            run: Makes the call.
            grads: The gradients of the results. None if the results are checked.
        """
        noise = Noise(self._spec, self._arguments, self._wide, grads)
        exact = run(self._wide, noise.wide_grads)

        def disturbed(
            given: Arguments, grads: Tensors, steps: trees.Disturbance | None
        ) -> dict[str, torch.Tensor]:
            self._steps = steps
            try:
                return run(given, grads)
            finally:
                self._steps = None

        out: dict[str, Checked | Unchecked] = {}
        for index, given in recorded.items():
            result = exact.get(index)
            if result is None or result.shape != given.shape:
                is_fixed = exactness.has_fixed_shape(self._spec, index)
                is_fixed = is_fixed and grads is None
                out[index] = exactness.mismatch(result, given, is_fixed)
                continue
            if not trees.is_real(given):
                out[index] = Checked(
                    result.to(given.dtype), score_equal(given, result.to(given.dtype))
                )
                continue
            if self._spec.plain == "det" and grads is None:
                _check_overflow(result, given.dtype)
            expected = noise.of(index, exact, given.dtype, disturbed)
            score, golden = score_rounded(given, result, expected, noise.has_sums)
            out[index] = Checked(_stored(golden, given.dtype), score)
        return out


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
