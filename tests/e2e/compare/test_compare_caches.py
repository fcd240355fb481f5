"""Caches of runs that keep keys and values in different places."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from cached_model import (
    LAYERS,
    VOCABULARY,
    Batch,
    Columns,
    Fault,
    Model,
    Pages,
    Prompts,
    Store,
    chunked,
    packed,
    padded,
    record,
)
from msitd import query

from daemon import Daemon

FAILED, PARTIAL = 1, 4

Form = tuple[Callable[[Prompts, int], Store], Callable[[Prompts], Iterator[Batch]]]


def rows_of(prompts: Prompts, offset: int) -> Columns:
    """A row for each prompt; `offset` is the number of columns before them."""
    width = max(map(len, prompts.values()))
    offsets = {name: offset and width - len(prompts[name]) for name in prompts}
    return Columns(list(prompts), offsets)


FORMS: dict[str, Form] = {
    "whole": (lambda prompts, seed: rows_of(prompts, 0), lambda p: chunked(p, 64)),
    "left": (lambda prompts, seed: rows_of(prompts, 1), padded),
    "paged": (lambda prompts, seed: Pages(seed), lambda p: packed(p, 3)),
    "slots": (lambda prompts, seed: Pages(seed, 1), lambda p: packed(p, 2)),
    "chunks": (lambda prompts, seed: Pages(seed + 1), lambda p: chunked(p, 3)),
}
PAIRS = [
    ("whole", "left"),
    ("whole", "paged"),
    ("left", "slots"),
    ("paged", "slots"),
    ("chunks", "whole"),
    ("paged", "chunks"),
]


def prompts_of(seed: int) -> dict[str, list[int]]:
    rng = random.Random(seed)
    return {
        name: [rng.randrange(1, VOCABULARY) for _ in range(rng.randrange(6, 20))]
        for name in ("a", "b", "c")
    }


def record_form(
    daemon: Daemon, run: str, name: str, seed: int, fault: Fault | None = None
) -> None:
    prompts = prompts_of(seed)
    make_store, batches = FORMS[name]
    model = Model(seed, make_store(prompts, seed))
    record(str(daemon.socket_dir), run, model, batches(prompts), fault)


def compared(daemon: Daemon, golden: str, target: str) -> query.Comparison:
    with query.connect(daemon.endpoint) as asked:
        matching = query.Matching(by_request=True)
        return asked.comparisons.run(golden, target, matching=matching)


def rows_of_caches(
    daemon: Daemon, comparison: query.Comparison
) -> list[query.ComparisonRow]:
    with query.connect(daemon.endpoint) as asked:
        rows = asked.comparisons.rows(comparison)
        return [row for row in rows if row.op.endswith("_cache") and row.io == "output"]


@pytest.mark.parametrize("seed", range(4))
def test_healthy_pairs_pass(daemon: Daemon, seed: int) -> None:
    for name in FORMS:
        record_form(daemon, name, name, seed)
    for golden, target in PAIRS:
        found = compared(daemon, golden, target)
        assert found.first_divergence is None, (golden, target, found)
        assert found.fail_count == found.unmatched_count == 0, (golden, target)
        assert found.not_compared_count == 0, (golden, target, found)
        rows = rows_of_caches(daemon, found)
        assert len(rows) >= 2 * LAYERS * 3
        for row in rows:
            assert row.verdict == "pass", row
            assert row.golden.view.startswith("cached position"), row
            # Elements that are not filled are NaN.
            assert row.golden.nan_count == row.target.nan_count == 0


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_a_wrong_key_is_named(daemon: Daemon, number: int) -> None:
    golden, target = PAIRS[number]
    seed = 50 + number
    record_form(daemon, "g", golden, seed)
    fault = Fault("b", 4, layer=number % LAYERS)
    record_form(daemon, "t", target, seed, fault)
    found = compared(daemon, "g", "t")
    first = found.first_divergence
    assert first is not None
    assert (first.op, first.io) == (f"root.layers.{fault.layer}.k_cache", "output")
    assert first.request == "b"
    assert "at [4,1,3]" in first.reason
    # The keys of other requests and the values of this one are right.
    for row in rows_of_caches(daemon, found):
        if row.request != "b" or row.op.endswith(f"{fault.layer}.v_cache"):
            assert row.verdict == "pass", row


def test_shared_pages_and_pages_that_are_used_again(daemon: Daemon) -> None:
    endpoint = str(daemon.socket_dir)
    rng = random.Random(9)
    prefix = [rng.randrange(1, VOCABULARY) for _ in range(8)]
    prompts = {
        "a": [*prefix, 3, 4, 5],
        "b": [*prefix, 7, 8],
        "c": [rng.randrange(1, VOCABULARY) for _ in range(20)],
    }
    record(endpoint, "g", Model(9, rows_of(prompts, 0)), chunked(prompts, 64))
    store = Pages(9)
    model = Model(9, store)

    def batches() -> Iterator[Batch]:
        yield from packed({"a": prompts["a"]}, 4)
        # The first two pages of a have the prefix of b.
        store.tables["b"] = store.tables["a"][:2]
        yield from packed({"b": prompts["b"]}, 4, {"b": 8})
        # Only the pages of a that b does not use are free again.
        store.free += store.tables["a"][2:]
        yield from packed({"c": prompts["c"]}, 5)

    record(endpoint, "t", model, batches())
    found = compared(daemon, "g", "t")
    assert found.fail_count == found.unmatched_count == 0, found
    # The target run has not computed the prefix of b.
    assert found.not_compared_count == 1
    assert "lacks positions 0-7 of request b" in found.first_not_compared.reason
    rows = rows_of_caches(daemon, found)
    views = {(row.request, row.golden.view) for row in rows}
    # The cache has the prefix nevertheless.
    assert ("b", "cached positions 0-9") in views
    assert all(row.verdict == "pass" for row in rows)


def test_the_command_line_names_the_positions(daemon: Daemon) -> None:
    record_form(daemon, "g", "whole", 3)
    record_form(daemon, "t", "paged", 3, Fault("c", 2))
    plain = daemon.ctl("compare", "run", "g", "t", "--io", "output", expect=FAILED)
    assert "add\n  --by request\n" in plain.stderr
    flags = ("--by", "request", "--io", "output")
    done = daemon.ctl("compare", "run", "g", "t", *flags, expect=FAILED)
    assert "request c cached positions 0-" in done.stdout, done.stdout
