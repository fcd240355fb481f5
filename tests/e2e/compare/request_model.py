"""A small language model that is run with batches of several forms.

Its attention keeps keys and values in a cache, so that a prompt can be processed in
chunks. Each form records which rows belong to which request.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msitd
import torch
from torch import nn

WIDTH, HEADS, LAYERS, VOCABULARY, LENGTH = 16, 2, 3, 50, 64
Prompts = Mapping[str, list[int]]


@dataclass
class Fault:
    """A mistake of a run."""

    kind: str = ""
    layer: int = 0

    def at(self, kind: str, layer: int | None = None) -> bool:
        return self.kind == kind and layer in (None, self.layer)


@dataclass
class Batch:
    """One forward: tokens of shape (rows, columns) or (rows,)."""

    ids: torch.Tensor
    positions: torch.Tensor
    # For each query, which keys of the cache and of this batch it may see.
    mask: torch.Tensor
    requests: dict[str, Any] = field(default_factory=dict)


class Attention(nn.Module):
    def __init__(self, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.cache: list[torch.Tensor] = []

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor, fault: Fault
    ) -> torch.Tensor:
        # (rows, heads, columns, size of a head); packed rows are one batch of one.
        packed = x.dim() == 2
        q, k, v = self.qkv(x[None] if packed else x).chunk(3, -1)
        q, k, v = (
            t.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2) for t in (q, k, v)
        )
        if self.cache:
            k = torch.cat([self.cache[0], k], 2)
            v = torch.cat([self.cache[1], v], 2)
        self.cache = [k, v]
        if fault.at("slot", self.layer):
            # The values of another place of the cache.
            v = v.roll(1, 2)
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        if not fault.at("mask", self.layer):
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.out(mixed[0] if packed else mixed)


class Layer(nn.Module):
    def __init__(self, layer: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = Attention(layer)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor, fault: Fault
    ) -> torch.Tensor:
        x = x + self.attn(self.ln1(x), mask, fault)
        return x + self.mlp(self.ln2(x))


class Model(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer(i) for i in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor,
        fault: Fault,
    ) -> torch.Tensor:
        x = self.wte(ids) + self.wpe(positions)
        for layer in self.layers:
            x = layer(x, mask, fault)
        return self.head(self.norm(x))

    def forget(self) -> None:
        for layer in self.layers:
            layer.attn.cache = []


def causal(count: int, past: int = 0) -> torch.Tensor:
    return torch.ones(count, past + count, dtype=torch.bool).tril(past)


def chunked(prompts: Prompts, size: int, fault: Fault) -> Iterator[Batch | None]:
    """Yields one request after the other, in chunks. None: the cache is emptied."""
    for request, tokens in prompts.items():
        yield None
        for first in range(0, len(tokens), size):
            ids = torch.tensor([tokens[first : first + size]])
            count = ids.shape[1]
            positions = torch.arange(first, first + count)[None]
            if fault.at("positions"):
                positions = torch.arange(count)[None]
            rows = msitd.RequestRows((0, 1), position=first, batch=(1, count))
            yield Batch(ids, positions, causal(count, first), {request: rows})


def padded(prompts: Prompts, side: str, fault: Fault) -> Iterator[Batch | None]:
    """Yields all prompts as one batch, padded on the left or the right."""
    width = max(map(len, prompts.values()))
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    positions = torch.zeros_like(ids)
    mask = torch.zeros(len(prompts), 1, width, width, dtype=torch.bool)
    requests = {}
    for row, (request, tokens) in enumerate(prompts.items()):
        first = width - len(tokens) if side == "left" else 0
        end = first + len(tokens)
        ids[row, first:end] = torch.tensor(tokens)
        positions[row, first:end] = torch.arange(len(tokens))
        mask[row, 0, first:end, first:end] = causal(len(tokens))
        requests[request] = msitd.RequestRows(
            (row, row + 1),
            columns=(first, end),
            position=0,
            batch=(len(prompts), width),
        )
    # Every query attends to an element, so that padding has no NaN.
    mask |= torch.eye(width, dtype=torch.bool)
    if fault.at("positions"):
        positions = (torch.arange(width) + (side == "right")).expand_as(positions)
    yield None
    yield Batch(ids, positions, mask, requests)


def packed(prompts: Prompts, size: int, fault: Fault) -> Iterator[Batch | None]:
    """Yields rows of all requests, at most `size` of each at a time."""
    yield None
    owners: list[int] = []
    done = dict.fromkeys(prompts, 0)
    while any(done[request] < len(prompts[request]) for request in prompts):
        ids: list[int] = []
        positions: list[int] = []
        requests = {}
        past = len(owners)
        for number, (request, tokens) in enumerate(prompts.items()):
            first = done[request]
            part = tokens[first : first + size + number]
            done[request] += len(part)
            if not part:
                continue
            rows = (len(ids), len(ids) + len(part))
            requests[request] = msitd.RequestRows(rows, position=first)
            ids += part
            start = 0 if fault.at("positions") else first
            positions += range(start, start + len(part))
            owners += [number] * len(part)
        own = torch.tensor(owners)
        mask = (own[past:, None] == own) & causal(len(ids), past)
        requests = {
            request: msitd.RequestRows(
                rows.rows, position=rows.position, batch=(len(ids),)
            )
            for request, rows in requests.items()
        }
        yield Batch(torch.tensor(ids), torch.tensor(positions), mask, requests)


def record(
    endpoint: str,
    run: str,
    model: Model,
    batches: Iterator[Batch | None],
    fault: Fault | None = None,
) -> None:
    current: dict[str, Any] = {}
    with (
        msitd.Client(run, endpoint=endpoint) as client,
        msitd.register_hook(model, client, requests=lambda: dict(current)),
        torch.no_grad(),
    ):
        for batch in batches:
            if batch is None:
                model.forget()
                continue
            current.clear()
            current.update(batch.requests)
            model(batch.ids, batch.positions, batch.mask, fault or Fault())
