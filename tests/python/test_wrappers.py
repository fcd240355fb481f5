"""Ops of a model are the same with and without torch's own wrappers around it."""

import functools

import msitd
import pytest
import torch
from torch import distributed, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,
)
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

X = torch.ones(2, 4)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        # A wrapper may have the same name.
        self.module = nn.Linear(4, 4)

    def forward(self, x):
        return self.module(x)


def new_model(wrap=lambda block: block):
    torch.manual_seed(0)
    return nn.Sequential(wrap(Block()), nn.ReLU(), wrap(Block()))


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    store = f"file://{tmp_path_factory.mktemp('group')}/store"
    distributed.init_process_group("gloo", store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def ops(client, daemon, model, **options):
    with msitd.register_hook(model, client, weights=True, **options):
        model(X).sum().backward()
    client.flush()
    return {(r.op, r.io, r.index) for r in daemon.records}


@pytest.fixture
def plain(client, daemon):
    found = ops(client, daemon, new_model(), gradients=True)
    count = len(daemon.all_records)
    assert ("root.0.module", "weight", "bias") in found
    return found, count


WRAPPED = {
    "ddp": lambda: DistributedDataParallel(new_model()),
    "ddp-compiled": lambda: torch.compile(
        DistributedDataParallel(new_model()), backend="eager"
    ),
    "data-parallel": lambda: DataParallel(new_model()),
    "averaged": lambda: AveragedModel(new_model()),
    "averaged-ddp": lambda: AveragedModel(DistributedDataParallel(new_model())),
    "data-parallel-averaged": lambda: DataParallel(AveragedModel(new_model())),
    "checkpoint": lambda: new_model(checkpoint_wrapper),
    "checkpoint-root": lambda: checkpoint_wrapper(new_model()),
    "ddp-checkpoint": lambda: DistributedDataParallel(new_model(checkpoint_wrapper)),
}


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("kind", WRAPPED)
def test_a_wrapper_changes_no_op(client, daemon, plain, kind):
    expected, count = plain
    model = WRAPPED[kind]()
    with msitd.register_hook(model, client, weights=True, gradients=True):
        model(X).sum().backward()
    client.flush()
    found = {
        (r.op, r.io, r.index) for r in daemon.all_records[count:] if r.kind == "tensor"
    }
    assert found == expected


@pytest.mark.usefixtures("group")
def test_fsdp_changes_no_op(client, daemon, plain):
    expected, _ = plain
    wrap = functools.partial(FullyShardedDataParallel, device_id=torch.device("cpu"))
    with msitd.register_hook(wrap(new_model(wrap)), client) as handle:
        assert set(handle._hooks) == {op for op, _, _ in expected}


def test_names_are_those_of_the_first_place(client):
    shared = Block()
    model = nn.ModuleDict({"a": shared, "b": DataParallel(shared)})
    with msitd.register_hook(model, client) as handle:
        assert {"root.a", "root.a.module", "root.b"} <= set(handle._hooks)
