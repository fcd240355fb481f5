"""A small language model whose caches have several forms.

The keys and values of a request are in columns of a row, in pages that are shuffled,
or in slots of a pool. Elements that are not filled are NaN. Each form records where the
positions of a request are.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msitd
import torch
from torch import nn

WIDTH, HEADS, LAYERS, VOCABULARY, LENGTH = 16, 2, 2, 50, 40
SIZE = WIDTH // HEADS
PAGE = 4
Prompts = Mapping[str, list[int]]


@dataclass
class Fault:
    """One key of a request that a layer stores wrongly."""

    request: str = ""
    position: int = -1
    layer: int = 0


@dataclass
class Part:
    """A part of a request in a batch: its elements, from a position on."""

    request: str
    index: Any
    first: int
    count: int
    rows: msitd.RequestRows


@dataclass
class Batch:
    ids: torch.Tensor
    parts: list[Part] = field(default_factory=list)


class Store:
    """The places of requests in a cache, which has the same form in all layers."""

    shape: tuple[int, ...]

    def at(self, request: str, positions: range) -> tuple[Any, ...]:
        """Returns the index of positions in a cache."""
        raise NotImplementedError

    def places(self, request: str, count: int) -> Any:
        """Returns the places of the first positions of a request."""
        raise NotImplementedError


class Columns(Store):
    """[rows, heads, length, size], each request from another column on."""

    def __init__(self, requests: list[str], offsets: Mapping[str, int]) -> None:
        self.requests = requests
        self.offsets = offsets
        self.shape = (len(requests), HEADS, LENGTH, SIZE)

    def at(self, request: str, positions: range) -> tuple[Any, ...]:
        first = self.offsets.get(request, 0)
        columns = torch.tensor([first + each for each in positions])
        return (self.requests.index(request), slice(None), columns)

    def places(self, request: str, count: int) -> Any:
        first = self.offsets.get(request, 0)
        return msitd.CacheColumns(
            self.requests.index(request), [(first, first + count)], (0, 2)
        )


class Pages(Store):
    """[pages, page size, heads, size]; pages are taken at random."""

    def __init__(self, seed: int, page_size: int = PAGE) -> None:
        self.page_size = page_size
        self.free = list(range(96 // page_size))
        self.shape = (len(self.free), page_size, HEADS, SIZE)
        if page_size == 1:
            self.shape = (len(self.free), HEADS, SIZE)
        random.Random(seed).shuffle(self.free)
        self.tables: dict[str, list[int]] = {}

    def at(self, request: str, positions: range) -> tuple[Any, ...]:
        table = self.tables.setdefault(request, [])
        while len(table) * self.page_size < positions.stop:
            table.append(self.free.pop())
        pages = torch.tensor([table[each // self.page_size] for each in positions])
        if self.page_size == 1:
            return (pages,)
        return pages, torch.tensor([each % self.page_size for each in positions])

    def places(self, request: str, count: int) -> Any:
        dims = (0,) if self.page_size == 1 else (0, 1)
        return msitd.CachePages(self.tables.get(request, []), self.page_size, dims)

    def release(self, request: str) -> None:
        self.free += self.tables.pop(request)


class Cache(nn.Module):
    """Returns the cache after it has stored new keys or values."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.data = torch.full(shape, math.nan)

    def forward(
        self, new: torch.Tensor, parts: list[Part], store: Store, fault: Fault | None
    ) -> torch.Tensor:
        for part in parts:
            own = new[part.index].unflatten(-1, (HEADS, SIZE)).clone()
            if fault is not None and fault.request == part.request:
                wrong = fault.position - part.first
                if 0 <= wrong < part.count:
                    own[wrong, 1, 3] += 2
            where = store.at(part.request, range(part.first, part.first + part.count))
            if len(where) == 3:
                own = own.transpose(0, 1)
            self.data[where] = own
        return self.data

    def read(self, request: str, count: int, store: Store) -> torch.Tensor:
        """Returns [heads, positions, size]."""
        where = store.at(request, range(count))
        found = self.data[where]
        return found if len(where) == 3 else found.transpose(0, 1)


class Attention(nn.Module):
    def __init__(self, layer: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layer = layer
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.k_cache, self.v_cache = Cache(shape), Cache(shape)

    def forward(
        self, x: torch.Tensor, parts: list[Part], store: Store, fault: Fault
    ) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        own = fault if fault.layer == self.layer else None
        self.k_cache(k, parts, store, own)
        self.v_cache(v, parts, store, None)
        mixed = torch.zeros_like(x)
        for part in parts:
            end = part.first + part.count
            keys = self.k_cache.read(part.request, end, store)
            values = self.v_cache.read(part.request, end, store)
            query = q[part.index].unflatten(-1, (HEADS, SIZE)).transpose(0, 1)
            scores = query @ keys.transpose(-1, -2) / math.sqrt(SIZE)
            mask = torch.ones(part.count, end, dtype=torch.bool).tril(part.first)
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            found = scores.softmax(-1) @ values
            mixed[part.index] = found.transpose(0, 1).flatten(1)
        return self.out(mixed)


class Model(nn.Module):
    def __init__(self, seed: int, store: Store) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.store = store
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(
            Attention(layer, store.shape) for layer in range(LAYERS)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, batch: Batch, fault: Fault) -> torch.Tensor:
        x = self.embed(batch.ids)
        for layer in self.layers:
            x = x + layer(x, batch.parts, self.store, fault)
        return self.head(x)


def chunked(prompts: Prompts, size: int) -> Iterator[Batch]:
    """Yields one request after the other, in chunks, as (1, columns)."""
    for request, tokens in prompts.items():
        for first in range(0, len(tokens), size):
            ids = torch.tensor([tokens[first : first + size]])
            count = ids.shape[1]
            rows = msitd.RequestRows(0, position=first, batch=(1, count))
            yield Batch(ids, [Part(request, 0, first, count, rows)])


def padded(prompts: Prompts) -> Iterator[Batch]:
    """Yields all prompts as one batch, padded on the left, and then single tokens."""
    width = max(map(len, prompts.values())) - 2
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    batch = Batch(ids)
    for row, (request, tokens) in enumerate(prompts.items()):
        count = len(tokens) - 2
        span = (width - count, width)
        ids[row, slice(*span)] = torch.tensor(tokens[:-2])
        rows = msitd.RequestRows(row, span, 0, (len(prompts), width))
        batch.parts.append(Part(request, (row, slice(*span)), 0, count, rows))
    yield batch
    for left in (2, 1):
        ids = torch.tensor([[tokens[-left]] for tokens in prompts.values()])
        batch = Batch(ids)
        for row, (request, tokens) in enumerate(prompts.items()):
            first = len(tokens) - left
            rows = msitd.RequestRows(row, (0, 1), first, (len(prompts), 1))
            batch.parts.append(Part(request, (row, slice(0, 1)), first, 1, rows))
        yield batch


def packed(
    prompts: Prompts, size: int, done: dict[str, int] | None = None
) -> Iterator[Batch]:
    """Yields rows of all requests, a few of each at a time.

    Args:
        done: Number of tokens of each request that are in the cache already.
    """
    done = dict.fromkeys(prompts, 0) | (done or {})
    while any(done[request] < len(prompts[request]) for request in prompts):
        ids: list[int] = []
        parts = []
        for number, (request, tokens) in enumerate(prompts.items()):
            first = done[request]
            part = tokens[first : first + size + number]
            if not part:
                continue
            span = (len(ids), len(ids) + len(part))
            ids += part
            done[request] += len(part)
            rows = msitd.RequestRows(span, position=first)
            parts.append(Part(request, slice(*span), first, len(part), rows))
        yield Batch(torch.tensor(ids), parts)


def requests_of(batch: Batch, store: Store) -> dict[str, msitd.RequestRows]:
    """Returns the requests of a batch, which have their places from now on."""
    out = {}
    for part in batch.parts:
        end = part.first + part.count
        store.at(part.request, range(part.first, end))
        places = store.places(part.request, end)
        out[part.request] = replace(
            part.rows,
            batch=part.rows.batch or len(batch.ids),
            caches={"k_cache": places, "v_cache": places},
        )
    return out


def record(
    endpoint: str,
    run: str,
    model: Model,
    batches: Iterator[Batch],
    fault: Fault | None = None,
) -> None:
    current: dict[str, msitd.RequestRows] = {}
    with (
        msitd.Client(run, endpoint=endpoint) as client,
        msitd.register_hook(model, client, requests=lambda: dict(current)),
        torch.no_grad(),
    ):
        for batch in batches:
            current.clear()
            current.update(requests_of(batch, model.store))
            model(batch, fault or Fault())
