"""Runs that batch, pad or divide the same requests differently."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import msitd
import pytest
import torch
from msitd import query
from request_model import (
    LAYERS,
    VOCABULARY,
    Batch,
    Fault,
    Model,
    Prompts,
    chunked,
    packed,
    padded,
    record,
)

from daemon import Daemon

FAILED = 1
Form = Callable[[Prompts, Fault], Iterator[Batch | None]]


def whole(prompts: Prompts, fault: Fault) -> Iterator[Batch | None]:
    return chunked(prompts, 64, fault)


FORMS: dict[str, Form] = {
    "left": lambda prompts, fault: padded(prompts, "left", fault),
    "right": lambda prompts, fault: padded(prompts, "right", fault),
    "chunks": lambda prompts, fault: chunked(prompts, 3, fault),
    "packed": lambda prompts, fault: packed(prompts, 4, fault),
}
# Golden and target form.
PAIRS = [
    ("whole", "left"),
    ("whole", "right"),
    ("left", "right"),
    ("whole", "chunks"),
    ("whole", "packed"),
    ("packed", "left"),
    ("chunks", "packed"),
    ("right", "chunks"),
]


def prompts_of(seed: int) -> dict[str, list[int]]:
    rng = random.Random(seed)
    return {
        name: [rng.randrange(1, VOCABULARY) for _ in range(rng.randrange(4, 12))]
        for name in ("a", "b", "c")
    }


def form(name: str) -> Form:
    return whole if name == "whole" else FORMS[name]


def compared(daemon: Daemon, golden: str, target: str) -> query.Comparison:
    with query.connect(daemon.endpoint) as asked:
        matching = query.Matching(by_request=True)
        return asked.comparisons.run(golden, target, matching=matching)


@pytest.mark.parametrize("seed", range(5))
def test_healthy_pairs_pass(daemon: Daemon, seed: int) -> None:
    endpoint = str(daemon.socket_dir)
    prompts = prompts_of(seed)
    model = Model(seed)
    for name in ("whole", *FORMS):
        record(endpoint, name, model, form(name)(prompts, Fault()))
    for golden, target in PAIRS:
        found = compared(daemon, golden, target)
        assert found.first_divergence is None, (golden, target, found)
        assert found.fail_count == found.unmatched_count == 0, (golden, target)
        assert found.joined_request_count == 3
        # Masks and faults are not rows of requests in both runs.
        assert found.pass_count > 100


def named(found: query.Comparison, fault: Fault) -> bool:
    """Returns whether a comparison names what is wrong."""
    first = found.first_divergence
    if first is None:
        return False
    if fault.kind == "positions":
        return (first.op, first.io, first.index) == ("root", "input", "1")
    part = "mlp.0" if fault.kind == "weight" else "attn"
    op = f"root.layers.{fault.layer}.{part}"
    return bool(found.makers) and found.makers[0].op == op


def test_faults_are_named(daemon: Daemon) -> None:
    endpoint = str(daemon.socket_dir)
    wrong = []
    count = 0
    for seed in range(100, 105):
        prompts = prompts_of(seed)
        model = Model(seed)
        for name in ("whole", *FORMS):
            record(endpoint, f"{name}{seed}", model, form(name)(prompts, Fault()))
        for number, (golden, target) in enumerate(PAIRS):
            kinds = ("positions", "mask", "slot", "weight")
            fault = Fault(kinds[(number + seed) % 4], (number + seed) % LAYERS)
            broken = Model(seed)
            if fault.kind == "weight":
                with torch.no_grad():
                    broken.layers[fault.layer].mlp[0].weight[3] *= 1.5
            run = f"bad{seed}-{number}"
            record(endpoint, run, broken, form(target)(prompts, fault), fault)
            found = compared(daemon, f"{golden}{seed}", run)
            count += 1
            if not named(found, fault):
                wrong.append((golden, target, fault, found))
    assert count == 40
    assert len(wrong) <= 4, wrong


def test_one_request_of_a_batch_through_the_command_line(daemon: Daemon) -> None:
    endpoint = str(daemon.socket_dir)
    prompts = prompts_of(1)
    model = Model(1)
    record(endpoint, "one", model, whole({"b": prompts["b"]}, Fault()))
    record(endpoint, "many", model, padded(prompts, "left", Fault()))
    plain = daemon.ctl("compare", "run", "one", "many", "--io", "output", expect=FAILED)
    assert "add\n  --by request\n" in plain.stderr
    done = daemon.ctl(
        "compare", "run", "one", "many", "--by", "request", "--io", "output"
    )
    assert (
        "requests          1 in both runs; 2 only in target, not compared"
        in done.stdout
    )
    # The other way round, two requests could not be checked.
    done = daemon.ctl(
        *("compare", "run", "many", "one", "--by", "request", "--io", "output"),
        expect=None,
    )
    assert done.returncode != 0
    assert "2 only in golden" in done.stdout
    assert "PARTIAL" in done.stdout
    flags = ("--by", "request", "--request", "b", "--io", "output")
    daemon.ctl("compare", "run", "many", "one", *flags)
    refused = daemon.ctl("compare", "run", "many", "one", "--request", "b", expect=2)
    assert "--request requires --by request" in refused.stderr


def test_a_fault_is_named_with_its_request(daemon: Daemon) -> None:
    endpoint = str(daemon.socket_dir)
    prompts = prompts_of(2)
    record(endpoint, "g", Model(2), whole(prompts, Fault()))
    fault = Fault("positions")
    record(endpoint, "t", Model(2), padded(prompts, "left", fault))
    done = daemon.ctl(
        *("compare", "run", "g", "t", "--by", "request", "--io", "output"),
        expect=FAILED,
    )
    assert "root.wpe" in done.stdout.splitlines()[0], done.stdout
    assert ", request " in done.stdout.splitlines()[0]


def test_views_apply_before_rows_are_joined(daemon: Daemon) -> None:
    endpoint = str(daemon.socket_dir)
    torch.manual_seed(0)
    fused = torch.randn(5, 12)
    with msitd.Client("separate", endpoint=endpoint) as client:
        rows = msitd.RequestRows(0, position=0, batch=(1, 5))
        client.record_requests({"a": rows})
        for name, part in zip("qkv", fused.split([6, 3, 3], -1), strict=True):
            client.record(part[None], op=f"l.0.{name}_proj")
    for run, error in (("fused", 0.0), ("wrong", 0.5)):
        with msitd.Client(run, endpoint=endpoint) as client:
            for first, end in ((0, 2), (2, 5)):
                # The second row of a batch with one column of padding.
                batch = torch.full((2, 4, 12), 7.0)
                batch[1, 4 - (end - first) :] = fused[first:end]
                batch[1, -1, 7] += error
                span = (4 - (end - first), 4)
                rows = msitd.RequestRows(1, span, first, (2, 4))
                client.record_requests({"a": rows}, token=first)
                client.record(batch, op="l.0.qkv_proj", token=first)
    views = []
    for number, name in enumerate("qkv"):
        text = f"*.qkv_proj=split(-1,6:3:3,{number}) as *.{name}_proj"
        views += ["--target-view", text]
    flags = ("--by", "request", *views)
    done = daemon.ctl("compare", "run", "separate", "fused", *flags)
    assert "PASS" in done.stdout
    done = daemon.ctl("compare", "run", "separate", "wrong", *flags, expect=FAILED)
    assert (
        "l.0.k_proj output/0, request a positions 0-4, rank 0, token 0" in done.stdout
    )
    assert "at [1,1]" in done.stdout or "at [4,1]" in done.stdout, done.stdout
