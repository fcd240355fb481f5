"""The placement that is recorded with the local shard of a DTensor."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard
from torch.testing._internal.distributed.fake_pg import FakeStore

RANK, WORLD_SIZE = 5, 8


@pytest.fixture
def world() -> Iterator[None]:
    """Makes this process part of a world whose other processes do not exist."""
    dist.init_process_group("fake", rank=RANK, world_size=WORLD_SIZE, store=FakeStore())
    yield
    dist.destroy_process_group()


def dtensor(mesh, placements, shape=(4, 6)):
    return DTensor.from_local(
        torch.arange(24.0).reshape(shape), mesh, placements, run_check=False
    )


def test_placement_is_recorded_as_it_is_given(recorded):
    tensor = torch.ones(2)
    assert (
        recorded(tensor, placement="0+2x4/4x1:R,S(0)").placement == "0+2x4/4x1:R,S(0)"
    )
    assert recorded(tensor).placement == ""
    assert (
        recorded(tensor.numpy(), placement="0+2/1:P(sum)").placement == "0+2/1:P(sum)"
    )


@pytest.mark.parametrize(
    "bad", ["R", "0+2/1:S(-1)", "0+2/1:S(0) ", "0+2/1:" + "R" * 300]
)
def test_what_is_no_placement_is_refused(client, bad):
    with pytest.raises(ValueError, match="placement"):
        client.record(torch.ones(2), op="op", placement=bad)


@pytest.mark.usefixtures("world")
def test_placements_of_a_mesh_of_one_dimension(recorded):
    mesh = init_device_mesh("cpu", (WORLD_SIZE,))
    for placement, text in (
        (Shard(0), "S(0)"),
        (Shard(-1), "S(1)"),
        (Replicate(), "R"),
        (Partial(), "P(sum)"),
        (Partial("max"), "P(max)"),
    ):
        record = recorded(dtensor(mesh, [placement]))
        assert record.placement == f"0+8/1:{text}"
        assert record.shape == (4, 6)


@pytest.mark.usefixtures("world")
def test_placements_of_parts_of_a_mesh(recorded):
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    tensor = dtensor(mesh, [Replicate(), Shard(1)])
    assert recorded(tensor).placement == "0+2x4/4x1:R,S(1)"
    assert recorded(dtensor(mesh["tp"], [Shard(0)])).placement == "4+4/1:S(0)"
    assert recorded(dtensor(mesh["dp"], [Shard(0)])).placement == "1+2/4:S(0)"


@pytest.mark.usefixtures("world")
def test_strided_shards_are_cut_in_their_own_order(recorded):
    mesh = init_device_mesh("cpu", (2, 4))
    strided = _StridedShard(0, split_factor=4)
    tensor = dtensor(mesh, [strided, Shard(0)])
    assert recorded(tensor).placement == "0+4x2/1x4:S(0),S(0)"
    # No order of splits puts three rows on eight ranks.
    uneven = DTensor.from_local(
        torch.ones(1, 2),
        mesh,
        [strided, Shard(0)],
        run_check=False,
        shape=torch.Size((3, 2)),
        stride=(2, 1),
    )
    assert recorded(uneven).placement == ""


@pytest.mark.usefixtures("world")
def test_meshes_without_even_distances_are_left_out(recorded):
    for ranks in ([0, 5, 1], [5, 4, 3, 2], [[0, 1], [5, 7]]):
        mesh = DeviceMesh("cpu", ranks)
        placements = [Shard(0)] + [Replicate()] * (mesh.ndim - 1)
        assert recorded(dtensor(mesh, placements)).placement == ""


@pytest.mark.usefixtures("world")
def test_what_is_given_goes_before_what_the_tensor_says(recorded):
    mesh = init_device_mesh("cpu", (WORLD_SIZE,))
    record = recorded(dtensor(mesh, [Shard(0)]), placement="0+8/1:R")
    assert record.placement == "0+8/1:R"
