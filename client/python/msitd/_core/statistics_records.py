"""The part of a client that records statistics of tensors without bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msitd import _msit
from msitd._core.arguments import place_of, problem_of
from msitd._core.leaf import statistics_text
from msitd._core.vocabulary import REQUIRES_GRAD_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class StatisticsRecords:
    """Records of kind `statistics`. `Client` derives from this class."""

    _native: _msit.Client

    def record_statistics(
        self,
        shape: Sequence[int],
        dtype: str,
        statistics: Mapping[str, float | bool | str],
        *,
        op: str,
        io: str = "output",
        index: str = "0",
        token: int | None = None,
        call: int | None = None,
        device: str | None = None,
        placement: str | None = None,
        requires_grad: bool | None = None,
        stack: str | None = None,
    ) -> bool:
        """Records statistics of a tensor whose bytes are not available.

        Comparisons can pair such records with each other, and with tensors.

        Args:
            shape: Dimensions of the tensor.
            dtype: Dtype of the tensor, such as `bfloat16`.
            statistics: Numbers by name, and bools for a tensor of bools. Known
                names are `max`, `min`, `mean`, `l2_norm`, `count`, `nan_count`,
                `pos_inf_count`, `neg_inf_count`, and the checksums `crc32` and
                `xor`, which may be texts. Other names start with a lowercase
                letter and consist of lowercase letters, digits and `_`. All of
                them together may take 1024 bytes.
            op: See `record`, as for all other arguments.

        Returns:
            See `record`; also False if the daemon is too old for statistics.

        Raises:
            TypeError: A value of `statistics` is not a number, bool or str.
            ValueError: An argument is out of its range.
            MsitError: The client is closed.
        """
        self._check_open()
        place = place_of(op, io, index, token, call, device, placement)
        facts = (REQUIRES_GRAD_NUMBERS[requires_grad], stack, 0)
        text = statistics_text.text_of(statistics)
        try:
            number = _msit.dtype_from_name(dtype)
            if number == 0:
                raise ValueError(f"dtype {dtype!r} is unknown")
            code = self._native.record_statistics(number, shape, text, place, facts)
        except TypeError as error:
            texts: dict[str, str | None] = {"op": op, "index": index, "stack": stack}
            texts |= {"device": device, "placement": placement, "dtype": dtype}
            raise problem_of(error, texts, {"token": token, "call": call}) from None
        return code == _msit.OK or self._is_recorded(code)

    def _check_open(self) -> None:
        raise NotImplementedError

    def _is_recorded(self, code: int) -> bool:
        raise NotImplementedError
