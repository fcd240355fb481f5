"""The feature MsitdRecord, and its recording."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from msitd._core.call import Call
from msitd._core.client import Client
from msitd._core.daemon.lazy_opening import LazyOpening
from msitd._core.daemon.ranks import rank_of_process
from msitd._core.guard import Failures, report_safely
from msitd._core.leaf.leaves import LeafRecorder
from msitd._core.skips import Skips
from msitd._core.vocabulary import CALL_AUTO

if TYPE_CHECKING:
    import torch

# TransformerEngine's names for the tensors of a layer.
_PLACES = {
    "activation": ("input", "0"),
    "weight": ("weight", "weight"),
    "output": ("output", "0"),
    "gradient": ("grad_output", "0"),
    "dgrad": ("grad_input", "0"),
    "wgrad": ("grad_weight", "weight"),
}
_QUANTIZED = "quantized"

_failures = Failures("a tensor of TransformerEngine is not recorded")


class _Open:
    """The client of this process, and the objects that record with it."""

    def __init__(self, open_timeout: float) -> None:
        rank, world_size = rank_of_process()
        self.client = Client(
            rank=rank,
            world_size=world_size,
            if_exists="new",
            on_drop="warn",
            open_timeout=open_timeout,
        )
        self.leaves = LeafRecorder(
            self.client, Skips(self.client), values=False, objects=False
        )


class _Recording:
    """Records tensors with a client that the first tensor opens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opening = LazyOpening(_Open)

    def record(
        self, layer: str, name: str, part: str, tensor: torch.Tensor, iteration: int
    ) -> None:
        """Records one tensor.

        Raises nothing; tensors that cannot be recorded are counted.
        """
        try:
            self._record(layer, name, part, tensor, iteration)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            report_safely(_failures.count, error)

    def _record(
        self, layer: str, name: str, part: str, tensor: torch.Tensor, iteration: int
    ) -> None:
        opened = self._opening.get()
        client, leaves = opened.client, opened.leaves
        with self._lock:
            client.token = max(client.token, iteration)
        io, index = _PLACES.get(name, ("state", name))
        if client.selects(layer, io, iteration):
            index = f"{index}.{part}" if part else index
            call = Call(layer, iteration, CALL_AUTO, None)
            leaves.record([(index, tensor)], io, call, None)

    def close(self) -> None:
        """Closes the client."""
        opened = self._opening.take()
        if opened is not None:
            opened.client.close()


_recording = _Recording()


def close() -> None:
    """Ends the run of this process, as its exit does.

    A later tensor begins another run.
    """
    _recording.close()


def define() -> None:
    """Registers the feature again whenever nvdlfw_inspect has lost it."""
    from nvdlfw_inspect.registry import Registry, api_method
    from transformer_engine.debug.features.api import TEConfigAPIMapper

    class MsitdRecord(TEConfigAPIMapper):  # type: ignore[misc]
        """Records tensors of layers into the run that MSITD_RUN names.

        Keys of its configuration, in addition to `enabled` and `tensors` or
        `tensors_struct`: `high_precision_tensor` (default: true) and
        `quantized_tensor` (default: false) select the forms. `freq`,
        `start_step`, `end_step` and `start_end_list` select the iterations, as
        in DumpTensors.
        """

        @api_method  # type: ignore[untyped-decorator]
        def inspect_tensor_enabled(
            self,
            config: dict[str, Any],
            layer_name: str,
            tensor_name: str,
            iteration: int,
        ) -> tuple[bool, int | None]:
            """Returns whether this iteration is recorded, and the next one that is."""
            return is_recorded(config, iteration), next_recorded(config, iteration)

        @api_method  # type: ignore[untyped-decorator]
        def inspect_tensor(
            self,
            config: dict[str, Any],
            layer_name: str,
            tensor_name: str,
            iteration: int,
            tp_group: Any = None,
            tensor: torch.Tensor | None = None,
            rowwise_quantized_tensor: torch.Tensor | None = None,
            columnwise_quantized_tensor: torch.Tensor | None = None,
            quantizer: Any = None,
            **_: Any,
        ) -> None:
            """Records the selected forms of a tensor, as far as they exist."""
            if tensor is not None and config.get("high_precision_tensor", True):
                _recording.record(layer_name, tensor_name, "", tensor, iteration)
            if not config.get("quantized_tensor", False):
                return
            rows, columns = rowwise_quantized_tensor, columnwise_quantized_tensor
            if rows is not None:
                _recording.record(layer_name, tensor_name, _QUANTIZED, rows, iteration)
            if columns is not None and columns is not rows:
                part = f"{_QUANTIZED}_columnwise"
                _recording.record(layer_name, tensor_name, part, columns, iteration)

    Registry.register_feature(namespace="transformer_engine")(MsitdRecord)


def is_recorded(config: dict[str, Any], iteration: int) -> bool:
    """Returns whether a configuration selects an iteration."""
    ranges, every = _ranges_of(config)
    return (
        any(
            begin <= iteration and (end is None or iteration <= end)
            for begin, end in ranges
        )
        and iteration % every == 0
    )


def next_recorded(config: dict[str, Any], iteration: int) -> int | None:
    """Returns the first later iteration that is selected; None if there is none."""
    ranges, every = _ranges_of(config)
    found = []
    for begin, end in ranges:
        first = max(begin, iteration + 1)
        first += -first % every
        if end is None or first <= end:
            found.append(first)
    return min(found, default=None)


def _ranges_of(
    config: dict[str, Any],
) -> tuple[list[tuple[int, int | None]], int]:
    """Returns ranges of iterations with their ends, and the interval between
    selected ones.
    """
    every = max(1, int(config.get("freq") or 1))
    pairs = config.get("start_end_list") or [
        (config.get("start_step"), config.get("end_step"))
    ]
    ranges = []
    for begin, end in pairs:
        last = None if end is None or int(end) < 0 else int(end)
        ranges.append((int(begin or 0), last))
    return ranges, every
