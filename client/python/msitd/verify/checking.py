"""Checks one recorded call: its results, and its gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msitd.query.errors import QueryError
from msitd.verify import modules, replay, table
from msitd.verify.arguments import Arguments, build
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch

    from msitd.verify.records import Call, TensorReader
    from msitd.verify.scores import Checked

    Outcomes = dict[str, Checked | Unchecked]

# All tensors of a call together may be this many times as large as one of them.
_CALL_FACTOR = 4
_FAILED = "its replay failed"
_NO_GRADIENT = "the gradients of its results were not recorded"


class Checker:
    """Checks the calls of a rank. A call that fails affects only itself."""

    def __init__(
        self, reader: TensorReader, known: modules.Modules, size_max: int
    ) -> None:
        self._reader = reader
        self._modules = known
        self._size_max = size_max

    def check(self, call: Call, token: int, io: str) -> Outcomes:
        """Returns the outcome for each tensor of a side of the call.

        Raises:
            QueryError: The daemon does not answer.
        """
        wanted = call.tensors(io)
        try:
            return self._check(call, token, io)
        except QueryError:
            raise
        except Unchecked as problem:
            return dict.fromkeys(wanted, problem)
        except Exception as error:  # noqa: BLE001 - a call of foreign data
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            return dict.fromkeys(wanted, Unchecked(_FAILED, text))

    def _check(self, call: Call, token: int, io: str) -> Outcomes:
        spec, arguments = self._call_of(call, token)
        sides = [io] if io == "output" else [io, "output", "grad_output"]
        sizes = [
            t.size_bytes for s in (*sides, "input") for t in call.tensors(s).values()
        ]
        if sum(sizes) > self._size_max * _CALL_FACTOR:
            raise Unchecked("a tensor is larger than --size-max")
        if io == "output":
            return replay.check_call(spec, arguments, self._read(call, "output"))
        grads = self._read(call, "grad_output")
        if not grads:
            raise Unchecked(_NO_GRADIENT)
        if any("again" in index for index in (*grads, *call.tensors(io))):
            raise Unchecked("a backward passed through it several times")
        outputs = self._outputs_of(call)
        wanted = self._read(call, io)
        if io == "grad_weight":
            return self._modules.check_weights(
                spec, arguments, outputs, grads, wanted, call, token
            )
        return replay.check_gradients(spec, arguments, outputs, grads, wanted)

    def _call_of(self, call: Call, token: int) -> tuple[Any, Arguments]:
        """Returns the function of a call, and its arguments."""
        op = call.key.op
        if not table.is_function(op) and self._modules.has(op):
            given = build(call.leaves.get("input", {}), self._load)
            return self._modules.call_of(op, token, given)
        spec = table.find(op)
        if isinstance(spec, table.Refusal):
            raise Unchecked(spec.reason)
        return spec, build(call.leaves.get("input", {}), self._load)

    def _load(self, leaf: Any) -> torch.Tensor:
        return self._reader.read(leaf.record)

    def _read(self, call: Call, io: str) -> dict[str, torch.Tensor]:
        return {i: self._reader.read(t) for i, t in call.tensors(io).items()}

    def _outputs_of(self, call: Call) -> dict[str, torch.Tensor]:
        """Returns the results, as far as they can be read: few gradients need them."""
        out = {}
        for index, record in call.tensors("output").items():
            try:
                out[index] = self._reader.read(record)
            except Unchecked:
                continue
        return out
