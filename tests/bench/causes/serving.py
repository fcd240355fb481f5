"""A server with a paged cache: two requests, the second of which has a cached prefix.

The cache has slots of one position each, in blocks of four. The steps are the prompt
of the first request, the end of the prompt of the second one, whose beginning is that
of the first request, and two words of both requests at once.
"""

import dataclasses
from typing import Any

import torch
from subjects import WORDS, Setup
from torch import Tensor

SLOTS, PREFIX, PROMPT = 24, 4, 8
EMPTY_BLOCK = range(12, 16)
_FIRST, _SECOND = [*range(8)], [*range(4), *range(8, 12)]
_DECODED = (16, 20)


@dataclasses.dataclass
class Pool:
    """The keys and values of all requests in each layer."""

    keys: dict[int, Tensor] = dataclasses.field(default_factory=dict)
    values: dict[int, Tensor] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Batch:
    """The slots of one step, with the interface of a cache."""

    pool: Pool
    # Number of positions before this step.
    past: int
    # [requests, positions], and [requests * new positions].
    read: Tensor
    write: Tensor

    def length(self) -> int:
        return self.past

    def read_of(self, layer: int) -> Tensor:
        """Returns the slots that a layer reads."""
        return self.read

    def write_of(self, layer: int) -> Tensor:
        """Returns the slots that a layer writes."""
        return self.write

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Writes new keys and values, and returns those of all positions."""
        return (
            self._update(self.pool.keys, layer, k),
            self._update(self.pool.values, layer, v),
        )

    def _update(self, pools: dict[int, Tensor], layer: int, x: Tensor) -> Tensor:
        requests, heads, _, size = x.shape
        if layer not in pools:
            pools[layer] = torch.zeros(SLOTS, heads, size, dtype=x.dtype)
        flat = x.transpose(1, 2).reshape(-1, heads, size)
        pools[layer].index_copy_(0, self.write_of(layer), flat)
        read = self.read_of(layer)
        found = torch.index_select(pools[layer], 0, read.reshape(-1))
        return found.view(requests, read.shape[1], heads, size).transpose(1, 2)


def _table(*rows: list[int]) -> Tensor:
    return torch.tensor(rows)


def serve(setup: Setup) -> None:
    """Replaces the inputs of a Llama by the steps of a server."""
    for layer in setup.model.model.layers:
        layer.self_attn.is_fused = False
    words = torch.cat([step["input_ids"].flatten() for step in setup.inputs])
    more = (words * 7 + 3) % WORDS
    setup.uses_cache = False
    pool = Pool()
    steps: list[tuple[Tensor, int, Tensor, Tensor]] = [
        (words[None, :PROMPT], 0, _table(_FIRST), torch.tensor(_FIRST)),
        (more[None, :PREFIX], PREFIX, _table(_SECOND), torch.tensor(_SECOND[PREFIX:])),
    ]
    for step in range(2):
        first, second = ([at + i for i in range(step + 1)] for at in _DECODED)
        steps.append(
            (
                torch.stack((words[PROMPT + step], more[PREFIX + step]))[:, None],
                PROMPT + step,
                _table(_FIRST + first, _SECOND + second),
                torch.tensor([first[-1], second[-1]]),
            )
        )
    setup.inputs = [
        {"input_ids": ids, "past_key_values": Batch(pool, past, read, write)}
        for ids, past, read, write in steps
    ]


def batch(setup: Any, step: int) -> Batch:
    """Returns the slots of a step."""
    return setup.inputs[step]["past_key_values"]
