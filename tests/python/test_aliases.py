"""Hooks record a tensor that has not changed as an alias."""

import gc
import sys

import msitd
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from msitd._core.leaf.memory import torch_reader
from msitd._msit import Identities
from torch import nn


@pytest.fixture
def run(client, daemon):
    """Runs a model under hooks and returns the records by op, io and index."""

    def run(model, *args, repeat=1, **options):
        with msitd.register_hook(model, client, **{"aliases": True, **options}):
            for _ in range(repeat):
                model(*args)
        client.flush()
        return {
            (r.token, r.op.removeprefix("root."), r.io): r
            for r in daemon.records
            if r.index == "0"
        }

    return run


@pytest.fixture(params=["reader", "attributes"])
def identities(request):
    """Identities of each way to read a tensor."""
    return Identities(torch_reader() if request.param == "reader" else None)


def floats(record):
    return torch.frombuffer(bytearray(record.data), dtype=torch.float32).tolist()


def test_output_of_one_module_is_the_input_of_the_next(run, client):
    records = run(nn.Sequential(nn.ReLU(), nn.Tanh()), torch.ones(2, 3), repeat=2)
    for token in (0, 1):
        originals = {
            (op, io): record.alias_of
            for (at, op, io), record in records.items()
            if at == token
        }
        assert originals == {
            ("root", "input"): None,
            ("0", "input"): ("root", 0, "input", "0"),
            ("0", "output"): None,
            ("1", "input"): ("root.0", 0, "output", "0"),
            ("1", "output"): None,
            ("root", "output"): ("root.1", 0, "output", "0"),
        }
    assert client.counters().aliased_count == 6
    assert records[0, "1", "input"].shape == (2, 3)


def test_aliases_are_off_by_default(run):
    records = run(nn.Sequential(nn.ReLU()), torch.ones(2), aliases=False)
    assert {record.alias_of for record in records.values()} == {None}


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.add_(1),
        lambda x: x.view(-1)[0].fill_(5),
        lambda x: x.detach().mul_(3),
        lambda x: torch.add(x, 1, out=x),
        lambda x: x.copy_(torch.ones(2, 2)),
        lambda x: x.set_(torch.ones(4).reshape(2, 2)),
        lambda x: x.untyped_storage().resize_(64),
        lambda x: x.t_(),
        lambda x: x.resize_(1, 2),
        lambda x: nn.init.ones_(x),
    ],
)
def test_changes_that_torch_counts_are_seen(change, identities):
    tensor = torch.arange(4.0).reshape(2, 2).clone()
    before = identities.of(tensor)
    assert identities.of(tensor) == before != 0
    with torch.no_grad():
        change(tensor)
    assert identities.of(tensor) not in (0, before)


def test_module_in_place_is_copied(run):
    records = run(
        nn.Sequential(nn.Identity(), nn.ReLU(inplace=True)), -torch.ones(1, 2)
    )
    assert records[0, "1", "input"].alias_of is not None
    assert records[0, "1", "output"].alias_of is None
    assert floats(records[0, "root", "input"]) == [-1, -1]
    assert floats(records[0, "1", "output"]) == [0, 0]


def test_views_have_numbers_of_their_own(identities):
    tensor = torch.arange(8.0).reshape(2, 4)
    views = [
        tensor,
        tensor.t(),
        tensor[1],
        tensor[:, :2],
        tensor[:, 2:],
        tensor.view(4, 2),
        tensor.view(torch.int32),
    ]
    numbers = [identities.of(view) for view in views]
    assert len(set(numbers)) == len(views)
    assert identities.of(tensor.view(2, 4)) == numbers[0]
    assert identities.of(tensor.detach()) == numbers[0]
    assert identities.of(nn.Parameter(tensor)) != 0


def test_tensors_whose_changes_nobody_counts_have_no_number(identities):
    with torch.inference_mode():
        inference = torch.zeros(2)

    class Own(torch.Tensor):
        pass

    tensors = [
        inference,
        torch.eye(2).to_sparse(),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.zeros(2).as_subclass(Own),
    ]
    assert [identities.of(tensor) for tensor in tensors] == [0] * len(tensors)


@pytest.mark.parametrize(
    "normalise",
    [
        lambda x, mean, var: F.batch_norm(x, mean, var, training=True),
        lambda x, mean, var: F.instance_norm(x, mean, var, use_input_stats=True),
        lambda x, mean, var: torch.native_batch_norm(
            x, None, None, mean, var, True, 0.1, 1e-5
        ),
    ],
)
def test_running_statistics_have_no_number(normalise, identities):
    """Not every change of running statistics increases their version."""
    mean, var = torch.zeros(3), torch.ones(3)
    before = mean.clone()
    normalise(torch.randn(2, 3, 4), mean, var)
    assert not torch.equal(mean, before)
    assert identities.of(mean) == identities.of(var) == 0
    assert identities.of(mean.view(1, 3, 1)) == 0
    assert identities.of(nn.Parameter(mean, requires_grad=False)) != 0
    assert identities.of(nn.Parameter(mean).view(1, 3)) != 0


def test_collectives_in_place_are_seen(identities):
    """torch does not count changes of the tensors that a collective receives."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        tensor = torch.ones(2, 2)
        before = identities.of(tensor)
        assert identities.of(tensor) == before != 0
        dist.all_reduce(tensor)
        assert identities.of(tensor) not in (0, before)
    finally:
        dist.destroy_process_group()


def test_address_of_a_dead_storage_stands_for_no_other(identities):
    numbers = set()
    for i in range(200):
        tensor = torch.full((8, 8), float(i))
        numbers.add(identities.of(tensor))
        del tensor
    assert len(numbers) == 200
    identities.clear()
    gc.collect()
    assert identities.of(torch.zeros(8, 8)) not in numbers


def test_only_some_tensors_are_remembered(identities):
    tensor = torch.zeros(20_000)
    numbers = [identities.of(tensor[i:]) for i in range(20_000)]
    # A view of one dimension may be of running statistics.
    assert set(numbers) == {0}
    tensor = torch.zeros(2, 20_000)
    numbers = [identities.of(tensor[:, i:]) for i in range(19_998)]
    assert len(set(numbers)) == len(numbers)
    assert 0 < len(identities) <= 16384
    assert identities.of(tensor[:, 19_997:]) == numbers[-1]


def test_storages_are_released(identities):
    memory = bytearray(64)
    tensor = torch.frombuffer(memory, dtype=torch.float32).reshape(4, 4)
    assert identities.of(tensor) != 0
    count = sys.getrefcount(memory)
    del tensor
    assert sys.getrefcount(memory) == count - 1


def test_tensors_of_a_token_are_forgotten_at_its_end(client):
    model = nn.Sequential(nn.Identity())
    with msitd.register_hook(model, client, aliases=True) as handle:
        model(torch.zeros(4))
        known = handle._thread.known
        assert known is not None
        assert len(known) == 0


def test_known_bytes_do_not_come_to_the_host(client, daemon):
    fetched = []

    class OnDevice(torch.Tensor):
        device = property(lambda self: torch.device("cuda:1"))

        def cpu(self):
            fetched.append(self)
            return self.as_subclass(torch.Tensor)

    tensor = torch.ones(3).as_subclass(OnDevice)
    for op in ("a", "b"):
        assert client.record(tensor, op=op, identity=7)
    assert client.record(tensor, op="c")
    client.flush()
    assert [r.alias_of for r in daemon.records] == [
        None,
        ("a", 0, "output", "0"),
        None,
    ]
    assert {r.device for r in daemon.records} == {"cuda:1"}
    assert len(fetched) == 2
