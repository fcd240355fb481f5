"""Stand-ins for a model of SGLang and its batches."""

import enum
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn


class Decoder(nn.Module):
    """Is called through its forward, like models of SGLang."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, forward_batch: Any
    ) -> Any:
        hidden = self.embed(input_ids) + positions[:, None]
        for layer in self.layers:
            hidden = layer(hidden)
        return SimpleNamespace(next_token_logits=hidden)


class Mode(enum.IntEnum):
    """Some modes of SGLang."""

    EXTEND = 1
    DECODE = 2
    TARGET_VERIFY = 5

    def is_decode(self) -> bool:
        return self == Mode.DECODE

    def is_target_verify(self) -> bool:
        return self == Mode.TARGET_VERIFY


def batch_of(rids: list[str], lengths: list[int] | None, prefixes: Any = ()) -> Any:
    """Returns a batch of an extension, or of a decode without `lengths`."""
    rows = sum(lengths) if lengths else len(rids)
    return SimpleNamespace(
        input_ids=torch.arange(rows),
        positions=torch.arange(rows),
        seq_lens=torch.tensor(lengths or [9] * len(rids)),
        req_pool_indices=torch.arange(len(rids)),
        extend_seq_lens_cpu=lengths,
        extend_prefix_lens_cpu=list(prefixes) or None,
        forward_mode=Mode.EXTEND if lengths else Mode.DECODE,
        rids=rids,
    )
