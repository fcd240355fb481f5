"""Hooks on a model whose `forward` SGLang calls directly."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from msitd._core.guard import Failures
from msitd._core.module.hooks import HookHandle
from msitd._core.module.registration import register_hook
from msitd._core.requests import RequestRows
from msitd.engines.sglang.names import module_name

if TYPE_CHECKING:
    import torch

    from msitd.engines.sglang.filters import Filter
    from msitd.engines.sglang.recording import Recording

_failures = Failures("a batch of SGLang is not recorded")

_ROOT = "root"
_LAYER = re.compile(r"(?:.+\.)?layers\.(\d+)(?:\..+)?")
# Fields of a batch that are dumped under their own names.
_BATCH_FIELDS = ("input_ids", "positions", "seq_lens", "req_pool_indices")


class BatchDumper(Protocol):
    """The methods of a Dumper that record the batches of a model."""

    @property
    def is_on(self) -> bool: ...

    @property
    def filter(self) -> Filter | None: ...

    @property
    def records_gradients(self) -> bool: ...

    def recording(self) -> Recording: ...

    def dump(self, name: str, value: Any) -> None: ...

    def record_side(self, op: str, io: str, value: Any) -> None: ...


class ModelDumper:
    """Records the inputs of a model, and optionally the inputs and outputs of
    its modules.

    SGLang calls the `forward` of a model and not the model, so `forward` is
    replaced.
    """

    def __init__(self, dumper: BatchDumper, model: torch.nn.Module, mode: str) -> None:
        self._dumper = dumper
        self._model = model
        self._mode = mode
        self._handle: HookHandle | None = None
        self._had_forward = "forward" in vars(model)
        self._forward = forward = model.forward

        see_arguments = _failures.guarded(self._see_arguments)
        keep_result = _failures.guarded(self._keep_result)

        @functools.wraps(forward)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            see_arguments(args, kwargs)
            result = forward(*args, **kwargs)
            if self._mode == "all" and self._dumper.is_on:
                keep_result(result)
            return result

        self._wrapped = wrapped
        model.forward = wrapped

    def turn_on(self) -> None:
        """Starts recording modules, if the mode includes them."""
        if self._mode != "all" or self._handle is not None:
            return
        ops = list(self._ops())
        if ops:
            self._handle = register_hook(
                self._model,
                self._dumper.recording().client,
                op_pattern=ops,
                gradients=self._dumper.records_gradients,
                time="step",
            )

    def turn_off(self) -> None:
        """Stops recording modules."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.remove()

    def remove(self) -> None:
        """Removes all hooks. Further calls have no effect."""
        self.turn_off()
        if vars(self._model).get("forward") is not self._wrapped:
            return
        if self._had_forward:
            self._model.forward = self._forward
        else:
            del self._model.forward

    def _ops(self) -> Iterator[str]:
        """Yields the modules that the filter accepts, except the model itself."""
        chosen = self._dumper.filter
        for name, _ in self._model.named_modules():
            if not name:
                continue
            layer = _LAYER.fullmatch(name)
            tags = {"layer_id": int(layer.group(1)) if layer else None}
            sides = (module_name(name, side) for side in ("inputs.0", "output"))
            if chosen is None or any(
                chosen.accepts({**tags, "name": side}) for side in sides
            ):
                yield f"{_ROOT}.{name}"

    def _see_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self._dumper.is_on:
            return
        # An engine may start recording between two forwards.
        self.turn_on()
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        batches = [each for each in given.values() if hasattr(each, "seq_lens")]
        named = {key: given[key] for key in _BATCH_FIELDS if key in given}
        for batch in batches:
            self._tell_requests(batch)
            for name in _BATCH_FIELDS:
                value = getattr(batch, name, None)
                if value is not None:
                    named.setdefault(name, value)
        for name, value in named.items():
            self._dumper.dump(name, value)
        if self._mode == "all":
            for key, value in given.items():
                if not any(value is each for each in batches):
                    self._keep(f"inputs.{key}", "input", str(key), value)

    def _keep_result(self, result: Any) -> None:
        # A result of SGLang's own class contains the logits.
        logits = getattr(result, "next_token_logits", None)
        if logits is None:
            self._keep("output", "output", "", result)
        else:
            self._keep("output", "output", "", {"next_token_logits": logits})

    def _keep(self, side: str, io: str, index: str, value: Any) -> None:
        chosen = self._dumper.filter
        if chosen is None or chosen.accepts({"name": module_name("", side)}):
            self._dumper.record_side(_ROOT, io, {index: value} if index else value)

    def _tell_requests(self, batch: Any) -> None:
        """Records which requests a step processes, and which rows belong to them."""
        ids = getattr(batch, "rids", None)
        if not ids:
            return
        self._dumper.recording().client.record_requests(rows_of(batch, ids))


def rows_of(batch: Any, ids: Any) -> dict[Any, RequestRows | None]:
    """Returns the part of a ForwardBatch that belongs to each request."""
    lengths = _lengths_of(batch, len(ids))
    if lengths is None:
        return dict.fromkeys(ids)
    positions = _positions_of(batch, lengths)
    tokens = getattr(batch, "input_ids", None)
    # The batch may have further rows.
    count = tokens.shape[0] if tokens is not None and tokens.dim() == 1 else None
    if count is not None and count < sum(lengths):
        return dict.fromkeys(ids)
    rows: dict[Any, RequestRows | None] = {}
    end = 0
    for request, length, position in zip(ids, lengths, positions, strict=True):
        rows[request] = RequestRows((end, end + length), position=position, batch=count)
        end += length
    return rows


def _lengths_of(batch: Any, count: int) -> list[int] | None:
    """Returns the number of rows of each request; None if it is unknown."""
    lengths = getattr(batch, "extend_seq_lens_cpu", None)
    if lengths and len(lengths) >= count:
        return [int(length) for length in lengths[:count]]
    mode = getattr(batch, "forward_mode", None)
    if _is(mode, "is_target_verify"):
        # The rows are drafts, which may form a tree.
        drafts = getattr(getattr(batch, "spec_info", None), "draft_token_num", None)
        return [drafts] * count if isinstance(drafts, int) else None
    if mode is None or _is(mode, "is_decode"):
        return [1] * count
    return None


def _positions_of(batch: Any, lengths: list[int]) -> list[int | None]:
    """Returns the number of tokens of each request before its rows, None where it
    is unknown or only known to the accelerator.
    """
    unknown: list[int | None] = [None] * len(lengths)
    if _is(getattr(batch, "forward_mode", None), "is_target_verify"):
        return unknown
    prefixes = getattr(batch, "extend_prefix_lens_cpu", None)
    if prefixes is not None and len(prefixes) >= len(lengths):
        return [int(prefix) for prefix in prefixes[: len(lengths)]]
    # The tokens of each request, including those of its rows.
    for name in ("seq_lens_cpu", "seq_lens"):
        ends = getattr(batch, name, None)
        if ends is None or getattr(ends, "is_cpu", True) is False:
            continue
        if len(ends) >= len(lengths):
            known = zip(map(int, ends), lengths, strict=False)
            return [end - length if end >= length else None for end, length in known]
    return unknown


def _is(mode: Any, name: str) -> bool:
    test = getattr(mode, name, None)
    return callable(test) and bool(test())
