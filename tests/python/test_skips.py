"""Every leaf of a call is recorded, or counted with a reason."""

import json
import threading
from collections import namedtuple
from collections.abc import Mapping

import msitd
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import _pytree
from torch.utils.checkpoint import checkpoint

X = torch.arange(6, dtype=torch.float32).reshape(2, 3)

Pair = namedtuple("Pair", ["left", "right"])


class Gives(nn.Module):
    """Returns the values that it was created with."""

    def __init__(self, result):
        super().__init__()
        self.result = result

    def forward(self, x):
        return self.result


class Cache:
    """Holds tensors as a cache of keys and values does."""

    def __init__(self):
        self.name = "cache"
        self.layers = [{"keys": X, "values": X + 1}]
        self.self = self


class Slots:
    __slots__ = ("missing", "tensor")

    def __init__(self):
        self.tensor = X


class Registered:
    def __init__(self, tensor):
        self.tensor = tensor
        self.hidden = X + 9


_pytree.register_pytree_node(
    Registered, lambda r: ([r.tensor], None), lambda c, _: Registered(*c)
)


class Wrapper(torch.Tensor):
    """Has no bytes of its own."""

    @staticmethod
    def __new__(cls, codes, scale):
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape)

    def __init__(self, codes, scale):
        self.codes, self.scale = codes, scale

    def __tensor_flatten__(self):
        return ["codes", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        assert func is torch.ops.aten.detach.default
        return Wrapper(args[0].codes, args[0].scale)


class Named(torch.Tensor):
    """Has its own bytes."""


@pytest.fixture
def outputs_of(client, daemon):
    """Records the result of a module; returns the records by index, and what
    was skipped.
    """

    def outputs_of(result, **options):
        handle = msitd.register_hook(Gives(result), client, inputs=False, **options)
        with handle:
            call = handle._hooks["root"]
            call.before(None, (), {})
            call.after(None, (), {}, result)
        client.flush()
        tensors = {
            r.index: np.frombuffer(r.data, r.dtype).reshape(r.shape).tolist()
            for r in daemon.records
        }
        values = {r.index: r.value for r in daemon.values}
        return tensors, values, handle.skipped

    return outputs_of


CONTAINERS = {
    "named tuple": (Pair(X, [X + 1]), {"0": X, "1.0": X + 1}),
    "set": ({"x": (X, (X + 1,))}, {"x.0": X, "x.1.0": X + 1}),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_known_containers_are_opened(outputs_of, name):
    result, expected = CONTAINERS[name]
    tensors, _, skipped = outputs_of(result)
    assert tensors == {index: t.tolist() for index, t in expected.items()}
    assert skipped == {}


def test_classes_of_attrs_are_opened(outputs_of):
    attrs = pytest.importorskip("attrs")

    @attrs.define
    class Held:
        tensor: torch.Tensor
        scale: float

    tensors, values, skipped = outputs_of(Held(X, 2.0))
    assert tensors == {"tensor": X.tolist()}
    assert values == {"scale": "2.0"}
    assert skipped == {}


OBJECTS = {
    "attributes": (Cache, {"layers.0.keys": X, "layers.0.values": X + 1}),
    "slots": (Slots, {"tensor": X}),
    "pytree": (lambda: Registered(X), {"0": X}),
    "set": (lambda: {Named(X)}, {"0": X}),
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("values", [True, False])
def test_tensors_in_objects_are_counted(outputs_of, name, values):
    result = OBJECTS[name][0]()
    kind = f"{type(result).__module__}.{type(result).__qualname__}"
    tensors, texts, skipped = outputs_of((X, result), values=values)
    assert tensors == {"0": X.tolist()}
    assert texts == ({"1": f"<{kind}>"} if values else {})
    assert skipped == {f"tensors in an object of class {kind}": 1}


@pytest.mark.parametrize("name", OBJECTS)
def test_tensors_in_objects_are_recorded_on_request(outputs_of, name):
    make, expected = OBJECTS[name]
    tensors, _, skipped = outputs_of((None, make()), objects=True)
    assert tensors == {f"1.{index}": t.tolist() for index, t in expected.items()}
    assert skipped == {}


def test_objects_without_tensors_are_no_loss(outputs_of):
    class Config:
        sizes = (1, 2)

        def __init__(self):
            self.module = nn.Linear(1, 1)

    tensors, _, skipped = outputs_of((X, Config(), torch.device("cpu"), slice(1)))
    assert list(tensors) == ["0"]
    assert skipped == {}


SPARSE = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
CSR = {"values": [2.0, 3.0]}
# How each tensor is recorded.
TENSORS = {
    "coo": (
        SPARSE.to_sparse,
        {"0.indices": [[0, 1], [1, 0]], "0.values": [2.0, 3.0]},
        {"0.is_coalesced": "True"},
    ),
    "csr": (
        SPARSE.to_sparse_csr,
        {
            "0.crow_indices": [0, 1, 2],
            "0.col_indices": [1, 0],
            "0.values": [2.0, 3.0],
        },
        {},
    ),
    "csc": (
        SPARSE.to_sparse_csc,
        {
            "0.ccol_indices": [0, 1, 2],
            "0.row_indices": [1, 0],
            "0.values": [3.0, 2.0],
        },
        {},
    ),
    "mkldnn": (SPARSE.to_mkldnn, {"0": SPARSE.tolist()}, {}),
    "nested": (
        lambda: torch.nested.nested_tensor([X, X[:1]]),
        {"0.0": X.tolist(), "0.1": X[:1].tolist()},
        {},
    ),
    "jagged": (
        lambda: torch.nested.nested_tensor([X, X[:1]], layout=torch.jagged),
        {"0.values": [*X.tolist(), X[0].tolist()], "0.offsets": [0, 2, 3]},
        {},
    ),
    "quantized": (
        lambda: torch.quantize_per_tensor(X, 0.5, 3, torch.quint8),
        {"0.codes": [[3, 5, 7], [9, 11, 13]]},
        {"0.scale": "0.5", "0.zero_point": "3"},
    ),
    "quantized by channel": (
        lambda: torch.quantize_per_channel(
            X, torch.tensor([1.0, 0.5]), torch.tensor([0, 1]), 0, torch.qint8
        ),
        {
            "0.codes": [[0, 1, 2], [7, 9, 11]],
            "0.scales": [1.0, 0.5],
            "0.zero_points": [0, 1],
        },
        {"0.axis": "0"},
    ),
    "wrapper": (
        lambda: Wrapper(X, torch.ones(1)),
        {"0.codes": X.tolist(), "0.scale": [1.0]},
        {},
    ),
    "wrapper of a wrapper": (
        lambda: Wrapper(Wrapper(X, X), SPARSE.to_sparse_csr()),
        {
            "0.codes.codes": X.tolist(),
            "0.codes.scale": X.tolist(),
            "0.scale.crow_indices": [0, 1, 2],
            "0.scale.col_indices": [1, 0],
            "0.scale.values": [2.0, 3.0],
        },
        {},
    ),
    "sub-class": (lambda: X.as_subclass(Named), {"0": X.tolist()}, {}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TENSORS)
def test_tensors_in_several_pieces_are_recorded(outputs_of, name):
    make, expected, expected_values = TENSORS[name]
    tensors, values, skipped = outputs_of(make())
    assert tensors == expected
    assert values == expected_values
    assert skipped == {}


def test_tensors_without_bytes_leave_a_value_and_are_counted(outputs_of, client):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(2)
    tensors, values, skipped = outputs_of((X.to("meta"), fake, X))
    assert list(tensors) == ["2"]
    assert values == {
        "0": "<torch.Tensor float32 (2, 3): not recorded, since a tensor on the "
        "device `meta` has no bytes>",
        "1": "<torch._subclasses.fake_tensor.FakeTensor float32 (2,): not recorded, "
        "since a fake tensor has no bytes>",
    }
    assert skipped == {
        "a tensor on the device `meta` has no bytes": 1,
        "a fake tensor has no bytes": 1,
    }
    assert client.counters().invalid_count == 0


def test_the_run_says_what_it_lacks(client, daemon, caplog):
    model = nn.Sequential(nn.Identity())
    with msitd.register_hook(model, client) as handle:
        for _ in range(2):
            model(X.to("meta"))
    assert handle.skipped_count == 8
    client.flush()
    assert told(daemon) == {
        "version": 1,
        "skipped": [
            {
                "reason": "a tensor on the device `meta` has no bytes",
                "count": 8,
                "op": "root",
                "index": "0",
                "is_harmless": False,
            }
        ],
        "uncalled": [],
        "uncalled_count": 0,
    }
    assert len([m for m in caplog.messages if "is not recorded" in m]) == 1


@pytest.mark.parametrize(
    "transform", [torch.vmap, torch.func.functionalize, torch.func.grad]
)
def test_transformed_tensors_are_the_ones_behind_them(client, daemon, transform):
    model = nn.Identity()
    with msitd.register_hook(model, client) as handle:
        transform(lambda x: model(x).sum())(X)
    client.flush()
    assert [(r.io, r.data) for r in daemon.records] == [
        ("input", X.numpy().tobytes()),
        ("output", X.numpy().tobytes()),
    ]
    assert handle.skipped == {}


def test_forward_called_directly_records_the_sub_modules(client, daemon):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    with msitd.register_hook(model, client):
        model.forward(X)
    client.flush()
    assert {r.place[1] for r in daemon.records} == {"root.0", "root.1"}
    assert told(daemon) == {
        "version": 1,
        "skipped": [],
        "uncalled": ["root"],
        "uncalled_count": 1,
    }


def test_all_called_modules_leave_no_document(client, daemon):
    model = nn.Sequential(nn.ModuleList([nn.Identity()])[0])
    with msitd.register_hook(model, client):
        model(X)
    client.flush()
    assert list(daemon.documents) == ["module_tree.json"]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointed_forwards_are_recorded_once(client, daemon, use_reentrant):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

        def forward(self, x):
            return checkpoint(self.block, x, use_reentrant=use_reentrant)

    model = Model()
    x = X.clone().requires_grad_()
    with msitd.register_hook(model, client, inputs=False) as handle:
        for _ in range(2):
            model(x).sum().backward()
    client.flush()
    ops = ["root.block.0", "root.block.1", "root.block", "root"]
    assert [r.place[:3] for r in daemon.records] == [
        (token, op, 0) for token in (0, 1) for op in ops
    ]
    assert handle.skipped_count == 0
    [(reason, count)] = handle.skipped.items()
    assert "checkpoint" in reason
    assert count >= 2 * 2


def test_checkpoints_in_a_graph_are_recorded_once(client, daemon):
    torch._dynamo.reset()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

        def forward(self, x):
            return checkpoint(self.block, x, use_reentrant=False)

    model = Model()
    whole = torch.compile(model, backend="aot_eager")
    with msitd.register_hook(model, client, inputs=False):
        for _ in range(2):
            whole(X.clone().requires_grad_()).sum().backward()
    client.flush()
    ops = ["root.block.0", "root.block.1", "root.block", "root"]
    assert [r.place[:3] for r in daemon.records] == [
        (token, op, 0) for token in (0, 1) for op in ops
    ]


def test_autocast_is_recorded_as_it_is(client, daemon):
    model = nn.Sequential(nn.Linear(3, 3))
    with (
        msitd.register_hook(model, client),
        torch.autocast("cpu", dtype=torch.bfloat16),
    ):
        expected = model(X)
    client.flush()
    records = {r.place[1:]: r for r in daemon.records}
    assert records["root.0", 0, "input", "0"].dtype == "float32"
    got = records["root.0", 0, "output", "0"]
    assert got.dtype == "bfloat16"
    assert got.data == expected.detach().view(torch.int16).numpy().tobytes()


@pytest.mark.parametrize("strict", [True, False])
def test_export_records_nothing_into_the_program(client, daemon, strict):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    with msitd.register_hook(model, client) as handle:
        program = torch.export.export(model, (X,), strict=strict)
        model(X)
    targets = [str(node.target) for node in program.graph.nodes]
    assert not [target for target in targets if "msitd" in target]
    client.flush()
    assert daemon.records
    assert all(r.kind == "tensor" for r in daemon.records)
    assert handle.skipped in ({}, {"a fake tensor has no bytes": 6})


def test_exported_modules_are_recorded(client, daemon):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    program = torch.export.export(model, (X,))
    unflattened = torch.export.unflatten(program)
    with msitd.register_hook(unflattened, client):
        expected = unflattened(X)
    client.flush()
    records = {r.place[1:]: r.data for r in daemon.records}
    assert {"root", "root.0", "root.1"} == {place[0] for place in records}
    assert records["root.1", 0, "output", "0"] == expected.detach().numpy().tobytes()


def run_replicas(model, x):
    """Like DataParallel: shallow copies, each in its own thread."""
    replicas = [model._replicate_for_data_parallel() for _ in range(2)]
    for replica in replicas:
        for name, child in model.named_children():
            setattr(replica, name, child)
    threads = [threading.Thread(target=replica, args=(x,)) for replica in replicas]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("is_inside", [True, False])
def test_replicas_record_beside_each_other(client, daemon, is_inside):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    outer = nn.ModuleList([model])
    outer.forward = lambda x: run_replicas(model, x)
    hooked = model if is_inside else outer
    with msitd.register_hook(hooked, client, inputs=False) as handle:
        for _ in range(2):
            outer(X)
            if is_inside:
                client.next_token()
    client.flush()
    top = "root" if is_inside else "root.0"
    assert sorted(r.place[:3] for r in daemon.records) == [
        (token, op, call)
        for token in (0, 1)
        for op in (top, f"{top}.0", f"{top}.1")
        for call in (0, 1)
    ]
    assert list(handle.skipped.values()) == ([4] if is_inside else [])
    assert client.token == 2
    assert handle.skipped_count == 0


class Lazy(Mapping):
    """Creates its elements when they are read, and may fail."""

    def __iter__(self):
        return iter(["first", "second", "third"])

    def __len__(self):
        return 3

    def __getitem__(self, key):
        if key == "second":
            raise KeyError("not made yet")
        return X


@pytest.mark.parametrize("gradients", [False, True])
def test_structure_that_raises_is_counted(client, daemon, gradients):
    model = Gives(Lazy())
    with msitd.register_hook(model, client, gradients=gradients) as handle:
        assert len(model(X)) == 3
    client.flush()
    assert [r.place[2:] for r in daemon.records] == [
        (0, "input", "0"),
        (0, "output", "first"),
    ]
    assert any("not made yet" in reason for reason in handle.skipped)


def told(daemon):
    [text] = [
        text
        for name, text in daemon.documents.items()
        if name.startswith("not_recorded/")
    ]
    return json.loads(text)


def versions(daemon):
    return [r.call for r in daemon.all_records if r.op.startswith("not_recorded/")]


def test_the_daemon_is_told_while_the_hooks_are_there(client, daemon):
    model = nn.Identity()
    handle = msitd.register_hook(model, client)
    for _ in range(1000):
        model(X.to("meta"))
    client.flush()
    [reason] = told(daemon)["skipped"]
    assert reason["count"] == 2000 == handle.skipped_count
    # About as many documents as it takes to grow by a quarter each time.
    assert versions(daemon) == list(range(len(versions(daemon))))
    assert len(versions(daemon)) < 40
    handle.remove()
    client.flush()
    assert len(versions(daemon)) < 40


def test_a_new_reason_is_told_at_once(client, daemon):
    model = nn.Identity()
    with msitd.register_hook(model, client, inputs=False):
        for _ in range(50):
            model(X.to("meta"))
        model(Cache())
        # `Client.flush` would also report the latest counts.
        client._native.flush(10_000_000)
        meta, other = told(daemon)["skipped"]
        assert meta["count"] == 50
        assert (other["count"], other["op"], other["index"]) == (1, "root", "0")
    assert not meta["is_harmless"]


def test_handles_of_one_client_are_told_together(client, daemon):
    model = nn.Identity()
    for _ in range(2):
        with msitd.register_hook(model, client, inputs=False):
            model(X.to("meta"))
    client.flush()
    [reason] = told(daemon)["skipped"]
    assert reason["count"] == 2


def test_reasons_are_bounded(client, daemon):
    with msitd.register_hook(nn.Identity(), client) as handle:
        for number in range(100):
            handle._skips.count("op", "0", f"{number} " + "x" * 1000)
        handle._skips.count("op", "0", "\ud800 is no character")
    assert len(handle.skipped) == 65
    assert handle.skipped["other reasons"] == 37
    assert all(len(reason) <= 256 for reason in handle.skipped)
    client.flush()
    assert len(told(daemon)["skipped"]) == 65
    assert len(json.dumps(told(daemon))) < 65 * 400


def test_a_full_client_is_told_of_later(client, daemon):
    daemon.hold()
    model = nn.Identity()
    with msitd.register_hook(model, client) as handle:
        for _ in range(10):
            model(X.to("meta"))
        assert handle.skipped_count == 20
    daemon.release()
    client.flush()
    assert told(daemon)["skipped"][0]["count"] == 20
