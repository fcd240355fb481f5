"""Records of calls, in the order in which hooks would write them."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msitd.query import Summary, Tensor
from msitd.verify.modules import Module


class Content:
    """A tensor with a content: those of the same name have equal bytes."""

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...] = (1, 8),
        dtype: str = "float32",
        bounds: tuple[float, float] = (-1.0, 1.0),
        nan_count: int = 0,
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.bounds = bounds
        self.nan_count = nan_count


class Recording:
    """The records of one rank and token."""

    def __init__(self) -> None:
        self.records: list[Tensor] = []
        self._calls: dict[str, int] = {}

    def _add(self, op: str, call: int, io: str, index: str, value: Any) -> None:
        facts: dict[str, Any] = {"shape": (), "dtype": "", "hash": ""}
        if isinstance(value, Content):
            facts = {
                "shape": value.shape,
                "dtype": value.dtype,
                "hash": hashlib.sha256(value.name.encode()).hexdigest()[:32],
                "summary": Summary(
                    nan_count=value.nan_count, min=value.bounds[0], max=value.bounds[1]
                ),
            }
        else:
            facts["kind"] = "none" if value is None else "number"
            facts["value"] = str(value)
        self.records.append(
            Tensor(
                **{
                    "name": f"{op}/{call}/{io}/{index}",
                    "run": "r",
                    "rank": 0,
                    "device": "cpu:0",
                    "token": 0,
                    "op": op,
                    "call": call,
                    "io": io,
                    "index": index,
                    "size_bytes": 4,
                    "sequence": len(self.records) + 1,
                    "summary": None,
                    "has_bytes": True,
                    "placement": "",
                    "has_sample": False,
                    **facts,
                }
            )
        )

    def _begin(self, op: str, inputs: dict[str, Any]) -> int:
        call = self._calls[op] = self._calls.get(op, -1) + 1
        for index, value in inputs.items():
            self._add(op, call, "input", index, value)
        return call

    def function(self, op: str, result: Any, *args: Any, **kwargs: Any) -> None:
        """Records the call of a function."""
        call = self._begin(op, {**{str(i): a for i, a in enumerate(args)}, **kwargs})
        self._add(op, call, "output", "0", result)

    @contextmanager
    def module(self, op: str, result: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Records the call of a module around the calls that are made in it."""
        call = self._begin(op, {**{str(i): a for i, a in enumerate(args)}, **kwargs})
        yield
        if result is not None:
            self._add(op, call, "output", "0", result)


def module(
    kind: str, shapes: dict[str, str] | None = None, **attributes: Any
) -> Module:
    """Returns the description of a module."""
    shapes = shapes or {}
    return Module(kind, False, frozenset(shapes), attributes, shapes)
