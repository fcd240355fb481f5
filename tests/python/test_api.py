"""register_api records the functions of torch itself."""

import copy
import pickle
import threading
import types

import msitd
import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from msitd._core.api import names, targets
from msitd._core.api.wrapper import Wrapped
from torch import fx, nn
from torch import relu as early_relu
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import gelu as early_gelu
from torch.utils import _python_dispatch
from torch.utils.checkpoint import checkpoint

X = torch.tensor([[-1.0, 2.0], [3.0, -4.0]])


def array(record):
    return np.frombuffer(record.data, record.dtype).reshape(record.shape).tolist()


@pytest.fixture
def calls_of(client, daemon):
    """Runs a function while torch functions are recorded; returns all places."""

    def calls_of(function, **options):
        with msitd.register_api(client, **options) as handle:
            calls_of.result = function()
        calls_of.handle = handle
        client.flush()
        calls_of.records = {r.place[1:]: r for r in daemon.records}
        return [r.place[1:] for r in daemon.records]

    return calls_of


def ops(places):
    return list(dict.fromkeys((op, call) for op, call, _, _ in places))


def test_calls_are_named_as_msprobe_names_them(calls_of):
    def run():
        a = torch.matmul(X, X)
        F.linear(a, X, bias=X[0])
        a.add(1).add_(X)
        a + 1
        a @ X
        torch.linalg.norm(a)
        torch.norm(a)
        torch.max(a, 0)
        torch.cat([a, X])

    assert calls_of(run) == [
        ("Torch.matmul", 0, "input", "0"),
        ("Torch.matmul", 0, "input", "1"),
        ("Torch.matmul", 0, "output", "0"),
        ("Functional.linear", 0, "input", "0"),
        ("Functional.linear", 0, "input", "1"),
        ("Functional.linear", 0, "input", "bias"),
        ("Functional.linear", 0, "output", "0"),
        ("Tensor.add", 0, "input", "0"),
        ("Tensor.add", 0, "output", "0"),
        ("Tensor.add_", 0, "input", "0"),
        ("Tensor.add_", 0, "input", "1"),
        ("Tensor.add_", 0, "output", "0"),
        ("Tensor.__add__", 0, "input", "0"),
        ("Tensor.__add__", 0, "output", "0"),
        ("Tensor.__matmul__", 0, "input", "0"),
        ("Tensor.__matmul__", 0, "input", "1"),
        ("Tensor.__matmul__", 0, "output", "0"),
        ("Torch.norm", 0, "input", "0"),
        ("Torch.norm", 0, "output", "0"),
        ("Torch.norm", 1, "input", "0"),
        ("Torch.norm", 1, "output", "0"),
        ("Torch.max", 0, "input", "0"),
        ("Torch.max", 0, "output", "0"),
        ("Torch.max", 0, "output", "1"),
        ("Torch.cat", 0, "input", "0.0"),
        ("Torch.cat", 0, "input", "0.1"),
        ("Torch.cat", 0, "output", "0"),
    ]
    assert calls_of.handle.skipped == {}


def test_what_is_done_in_place_is_recorded_before_and_behind(calls_of):
    def run():
        a = X.clone()
        F.relu(a, inplace=True)
        out = torch.zeros(2, 2)
        torch.add(a, 1, out=out)
        out[0] = 7
        torch._foreach_add_([out], 1)

    calls_of(run)
    shown = {place: array(record) for place, record in calls_of.records.items()}
    relu = [[0.0, 2.0], [3.0, 0.0]]
    assert shown["Functional.relu", 0, "input", "0"] == X.tolist()
    assert shown["Functional.relu", 0, "output", "0"] == relu
    assert shown["Torch.add", 0, "input", "out"] == [[0.0, 0.0], [0.0, 0.0]]
    assert shown["Torch.add", 0, "output", "0"] == [[1.0, 3.0], [4.0, 1.0]]
    assert shown["Tensor.__setitem__", 0, "input", "0"] == [[1.0, 3.0], [4.0, 1.0]]
    assert shown["Tensor.__setitem__", 0, "output", "0"] == [[7.0, 7.0], [4.0, 1.0]]
    assert shown["Torch._foreach_add_", 0, "output", "0"] == [[8.0, 8.0], [5.0, 2.0]]


@pytest.mark.parametrize("nested", [False, True])
def test_what_a_function_calls_is_a_part_of_it(calls_of, nested):
    attention = nn.MultiheadAttention(4, 2)
    x = torch.ones(3, 1, 4)
    found = ops(calls_of(lambda: attention(x, x, x), nested=nested))
    assert found[0] == ("Functional.multi_head_attention_forward", 0)
    assert (("Functional.linear", 0) in found) == nested
    assert (len(found) > 1) == nested


def test_functions_that_were_imported_before_are_recorded_once(calls_of):
    def run():
        early_relu(X)
        early_gelu(X)
        torch.relu(X)
        F.gelu(X)
        torch.ops.aten.relu(X)
        torch.ops.aten.add.Tensor(X, X)

    assert ops(calls_of(run, imported=True)) == [
        ("Torch.relu", 0),
        ("Functional.gelu", 0),
        ("Torch.relu", 1),
        ("Functional.gelu", 1),
        ("Aten.relu", 0),
        ("Aten.add", 0),
    ]


def test_groups_say_which_functions(calls_of):
    def run():
        early_relu(X)
        torch.relu(X)
        F.relu(X)
        X.relu()
        torch.ops.aten.relu(X)

    found = ops(calls_of(run, groups=["functional"]))
    assert found == [("Functional.relu", 0)]
    with pytest.raises(ValueError, match="group 'all'"):
        calls_of(run, groups=["all"])
    assert not isinstance(torch.relu, Wrapped)


def test_the_caller_names_calls(calls_of):
    def run():
        torch.matmul(X, X)
        F.linear(X, X)
        F.linear(X, X)
        X.abs()

    given = []

    def name_of(op):
        given.append(op)
        return None if op == "Torch.matmul" else f"here.{op.lower()}"

    pattern = ["Functional.*", "Torch.*"]
    places = calls_of(run, name_of=name_of, op_pattern=pattern, inputs=False)
    assert places == [
        ("here.functional.linear", 0, "output", "0"),
        ("here.functional.linear", 1, "output", "0"),
    ]
    assert given == ["Torch.matmul", "Functional.linear", "Functional.linear"]


def test_a_name_that_cannot_be_made_is_counted(calls_of):
    def run():
        return torch.matmul(X, X)

    def name_of(op):
        raise KeyError(op)

    assert calls_of(run, name_of=name_of) == []
    assert calls_of.result.equal(X @ X)
    assert sum(calls_of.handle.skipped.values()) == 1


def test_pattern_and_tokens_choose(calls_of, client):
    def run():
        for _ in range(3):
            torch.relu(X)
            torch.abs(X)
            client.next_token()

    assert calls_of(run, op_pattern="*.abs", tokens=[1], inputs=False) == [
        ("Torch.abs", 0, "output", "0")
    ]


def test_only_what_may_be_recorded_has_a_stand_in(client):
    def stand_ins(**options):
        with msitd.register_api(client, **options):
            found = targets.targets(targets.GROUPS)
            return {t.op for t in found if isinstance(t.original, Wrapped)}

    everything = stand_ins()
    assert stand_ins(op_pattern="none") == set()
    linear = stand_ins(op_pattern="Functional.linear")
    # `multi_head_attention_forward` is written in Python and may call `linear`,
    # which is then a part of it.
    assert "Functional.multi_head_attention_forward" in linear
    assert "Tensor.__add__" not in linear
    assert stand_ins(op_pattern="*.linear", nested=True) == {"Functional.linear"}
    assert stand_ins(op_pattern="none", operators=True) == everything


def test_pattern_alters_no_number_of_a_call(calls_of):
    attention = nn.MultiheadAttention(4, 2)
    x = torch.ones(3, 1, 4)

    def run():
        attention(x, x, x)
        F.linear(x, torch.ones(2, 4))

    assert ops(calls_of(run, op_pattern="*.linear")) == [("Functional.linear", 0)]


def test_operators_of_forward_and_backward(calls_of):
    x = X.clone().requires_grad_()
    found = ops(
        calls_of(
            lambda: torch.relu(x).sum().backward(),
            groups=["functional"],
            operators=True,
        )
    )
    names_found = [op for op, _ in found]
    assert names_found[:2] == ["Aten.relu", "Aten.sum"]
    assert "Aten.threshold_backward" in names_found


def test_operators_of_recorded_functions_are_parts_of_them(calls_of):
    found = ops(calls_of(lambda: torch.relu(X), operators=True))
    assert found == [("Torch.relu", 0)]


def test_what_msitd_calls_is_not_recorded(calls_of, client):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def run():
        with msitd.register_hook(model, client, aliases=True):
            model(X.to_sparse().to_dense())
        client.record(X, op="mine")

    found = ops(calls_of(run, op_pattern="Tensor.*", operators=True))
    assert found == [
        ("Tensor.to_sparse", 0),
        ("Tensor.to_dense", 0),
        ("root", 0),
        ("root.0", 0),
        ("root.1", 0),
        ("mine", 0),
    ]


@pytest.mark.filterwarnings("ignore")
def test_every_function_is_replaced_and_put_back(client):
    """Checks those of our names that the installed torch has."""
    found = targets.targets(targets.GROUPS)
    assert len(found) > 1300
    before = {
        (id(t.owner), t.name): (t.owner, t.original, vars(t.owner).get(t.name))
        for t in found
    }
    assert len(before) == len(found)
    with msitd.register_api(client):
        for t in found:
            wrapped = vars(t.owner)[t.name]
            assert isinstance(wrapped, Wrapped)
            assert wrapped == t.original
            assert t.original == wrapped
            assert hash(wrapped) == hash(t.original)
            assert wrapped.__name__ == t.original.__name__
    for owner, original, own in before.values():
        name = next(
            t.name for t in found if t.owner is owner and t.original is original
        )
        assert vars(owner).get(name) is own
        assert getattr(owner, name) is original


@pytest.mark.parametrize(
    ("place", "count"),
    [("TORCH", 0.97), ("FUNCTIONAL", 0.97), ("TENSOR", 0.97), ("VF", 1), ("LINALG", 1)],
)
def test_names_are_those_of_torch(place, count):
    """Nearly all are in the installed torch; the others belong to newer or
    older ones.
    """
    owner = {
        "TORCH": torch,
        "FUNCTIONAL": F,
        "TENSOR": torch.Tensor,
        "VF": torch._VF,
        "LINALG": torch.linalg,
    }[place]
    known = getattr(names, place).split()
    assert len(set(known)) == len(known)
    assert sum(hasattr(owner, name) for name in known) >= count * len(known)


def test_functions_that_torch_runs_for_the_caller_are_recorded(calls_of):
    graph = fx.symbolic_trace(lambda x: x.relu().sum())

    def run():
        fx.Interpreter(graph).run(X)
        torch.func.vmap(torch.dot)(X, X)
        torch.func.grad(F.mse_loss)(X, X)
        torch.func.jvp(torch.sin, (X,), (X,))

    found = [op for op, _ in ops(calls_of(run))]
    assert found[:3] == ["Tensor.relu", "Tensor.sum", "Torch.dot"]
    assert {"Functional.mse_loss", "Torch.sin"} < set(found)
    assert calls_of.handle.skipped == {}


def test_calls_with_what_has_no_bytes_are_counted(calls_of):
    def run():
        with FakeTensorMode():
            torch.relu(torch.ones(2))

    assert calls_of(run) == []
    assert list(calls_of.handle.skipped.values()) == [1]


def test_graph_of_fx_holds_what_the_model_does(calls_of):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return F.relu(self.linear(x))

    model = Model()
    expected = fx.symbolic_trace(model).code
    assert calls_of(lambda: fx.symbolic_trace(model).code) == []
    assert calls_of.result == expected
    assert list(calls_of.handle.skipped.values()) == [1]


def test_recording_twice_is_refused(client):
    with msitd.register_api(client), pytest.raises(RuntimeError, match="already"):
        msitd.register_api(client)
    msitd.register_api(client).remove()


def test_stand_ins_are_equal_to_what_they_stand_for(client, calls_of):
    original = torch.relu
    table = {original: "relu"}
    with msitd.register_api(client) as handle:
        stand_in = torch.relu
        assert stand_in == original
        assert original == stand_in
        assert stand_in != torch.abs
        assert table[stand_in] == "relu"
        assert stand_in in [original]
        assert torch.Tensor.add == torch._C.TensorBase.add
        assert copy.deepcopy(stand_in) is stand_in
        pickled = pickle.dumps(stand_in)
        handle.remove()
    assert pickle.loads(pickled) is original
    assert torch.equal(stand_in(X), original(X))
    assert pickle.loads(pickle.dumps(stand_in)) is original
    assert torch.relu is original


def test_every_stand_in_can_be_pickled(client):
    found = targets.targets(targets.GROUPS)
    with msitd.register_api(client):
        pickled = [pickle.dumps(getattr(t.owner, t.name)) for t in found]
        layer = nn.TransformerEncoderLayer(2, 1, 2, activation="gelu")
        saved = pickle.dumps(layer)
    assert all(b"msitd" not in each for each in (saved, *pickled))
    for target, each in zip(found, pickled, strict=True):
        assert pickle.loads(each) == target.original
        assert not isinstance(pickle.loads(each), Wrapped)
    assert pickle.loads(saved).activation is F.gelu


def test_what_others_put_in_place_stays(client):
    original = torch.relu
    handle = msitd.register_api(client)

    def mine(x):
        return x

    torch.relu = mine
    handle.remove()
    assert torch.relu is mine
    torch.relu = original


class PassingMode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class PassingDispatch(_python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


MODES = {"imported": True, "operators": True}


def modes_left():
    """Returns the modes of this thread, and the flags that torch sets because
    of them.
    """
    return [
        *torch.overrides._get_current_function_mode_stack(),
        *_python_dispatch._get_current_dispatch_mode_stack(),
        *(
            flag
            for flag in (
                "_is_in_torch_dispatch_mode",
                "_is_in_any_mode_without_ignore_compile_internals",
            )
            if getattr(_python_dispatch, flag, False)
        ),
    ]


def test_modes_of_others_may_lie_above(client):
    handle = msitd.register_api(client, **MODES)
    with PassingMode(), PassingDispatch():
        handle.remove()
        early_relu(X)
    assert modes_left() == []
    assert client.counters().recorded_count == 0


def test_modes_of_others_are_left_as_they_were_entered(client, daemon):
    with PassingMode(), PassingDispatch(), PassingDispatch():
        handle = msitd.register_api(client, **MODES)
    early_relu(X)
    handle.remove()
    assert modes_left() == []
    client.flush()
    assert [r.place[1] for r in daemon.records] == ["Torch.relu"] * 2


def test_default_device_ends_where_it_ended(client):
    with torch.device("meta"):
        handle = msitd.register_api(client, **MODES)
        assert torch.ones(1).device.type == "meta"
    assert torch.ones(1).device.type == "cpu"
    with torch.device("meta"):
        assert torch.ones(1).device.type == "meta"
        handle.remove()
        assert torch.ones(1).device.type == "meta"
    assert torch.ones(1).device.type == "cpu"
    assert modes_left() == []


def test_default_device_of_the_thread_may_change(client):
    torch.set_default_device("meta")
    try:
        with msitd.register_api(client, **MODES):
            assert torch.ones(1).device.type == "meta"
            torch.set_default_device(None)
            assert torch.ones(1).device.type == "cpu"
            torch.set_default_device("meta")
        assert torch.ones(1).device.type == "meta"
    finally:
        torch.set_default_device(None)
    assert torch.ones(1).device.type == "cpu"
    assert modes_left() == []


def test_handle_may_be_removed_by_another_thread(client):
    handle = msitd.register_api(client, **MODES)
    thread = threading.Thread(target=handle.remove)
    thread.start()
    thread.join()
    early_relu(X)
    assert client.counters().recorded_count == 0
    handle.remove()
    assert modes_left() == []


def test_threads_record_beside_each_other(calls_of):
    def run():
        threads = [
            threading.Thread(target=lambda: [torch.relu(X) for _ in range(50)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    places = calls_of(run)
    assert sorted(call for _, call, io, _ in places if io == "input") == list(
        range(200)
    )
    assert sorted(call for _, call, io, _ in places if io == "output") == list(
        range(200)
    )


def test_errors_reach_the_caller_and_leave_all_sound(calls_of):
    def run():
        with pytest.raises(RuntimeError, match="shapes"):
            torch.matmul(X, torch.ones(3, 3))
        torch.relu(X)

    assert ops(calls_of(run)) == [("Torch.matmul", 0), ("Torch.relu", 0)]


def test_training_has_the_same_bits(client):
    def train():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(X).square().mean().backward()
            optimizer.step()
        return [parameter.detach().clone() for parameter in model.parameters()]

    expected = train()
    with msitd.register_api(client, operators=True, nested=True) as handle:
        got = train()
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    assert handle.skipped_count == 0


def test_fast_paths_of_torch_are_taken(client):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()
    x = torch.randn(2, 5, 8)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[:, 3:] = True
    with torch.no_grad():
        expected = model(x, src_key_padding_mask=padding)
        with msitd.register_api(client):
            assert torch.equal(model(x, src_key_padding_mask=padding), expected)
    # Otherwise this model has no fast path.
    assert not expected[:, 3:].any()


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointed_calls_are_recorded_once(calls_of, use_reentrant):
    def run():
        x = X.clone().requires_grad_()
        y = checkpoint(torch.sigmoid, x, use_reentrant=use_reentrant)
        y.sum().backward()

    assert ops(calls_of(run, op_pattern="*.sigmoid")) == [("Torch.sigmoid", 0)]


def test_gradients_of_functions_are_those_of_autograd(calls_of):
    w = torch.ones(2, 2, requires_grad=True)

    def run():
        y = torch.matmul(X, w)
        z = F.relu(y, inplace=True) * 3
        z.sum().backward()

    places = calls_of(run, gradients=True, inputs=False, outputs=False)
    assert set(places) == {
        ("Tensor.sum", 0, "grad_output", "0"),
        ("Tensor.sum", 0, "grad_input", "0"),
        ("Tensor.__mul__", 0, "grad_output", "0"),
        ("Tensor.__mul__", 0, "grad_input", "0"),
        ("Functional.relu", 0, "grad_output", "0"),
        ("Functional.relu", 0, "grad_input", "0"),
        ("Torch.matmul", 0, "grad_output", "0"),
        ("Torch.matmul", 0, "grad_input", "1"),
    }
    shown = {place: array(record) for place, record in calls_of.records.items()}
    assert shown["Torch.matmul", 0, "grad_input", "1"] == w.grad.tolist()
    assert shown["Functional.relu", 0, "grad_output", "0"] == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: 1 - x,
        lambda x: x @ x,
        lambda x: x.sum(),
        lambda x: x.norm(),
        lambda x: x.clone().add_(1),
        lambda x: F.gelu(x),
        lambda x: early_relu(x),
    ],
)
def test_functions_and_operators_are_compiled(client, function, imported):
    torch._dynamo.reset()
    expected = function(X)
    counter = CompileCounterWithBackend("aot_eager")
    with msitd.register_api(client, imported=imported):
        got = torch.compile(function, backend=counter, fullgraph=True)(X)
    assert counter.frame_count == 1
    assert torch.equal(got, expected)


def test_functions_are_compiled_under_modes_of_others(client):
    torch._dynamo.reset()

    def function(x):
        return F.gelu(x.clone().add_(1) @ x).sum() + 1

    expected = function(X)
    torch.set_default_device("cpu")
    try:
        with PassingMode(), msitd.register_api(client):
            compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
            assert torch.equal(compiled(X), expected)
        torch._dynamo.reset()
        assert torch.equal(compiled(X), expected)
    finally:
        torch.set_default_device(None)


def test_functions_of_torch_npu_are_found(client, daemon, monkeypatch):
    module = types.ModuleType("torch_npu")
    module.npu_double = lambda x: x * 2
    monkeypatch.setitem(__import__("sys").modules, "torch_npu", module)
    with msitd.register_api(client, groups=["npu"]):
        module.npu_double(X)
    client.flush()
    assert [r.place[1] for r in daemon.records] == ["NPU.npu_double"] * 2


def test_old_torch_is_refused_at_once(client, monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.0.1+cpu")
    with pytest.raises(
        RuntimeError, match=r"2\.1 and newer, and this is torch 2\.0\.1"
    ):
        msitd.register_api(client)
    with pytest.raises(RuntimeError, match="newer"):
        msitd.register_hook(nn.Identity(), client)


@pytest.fixture
def one_rank():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
class TestCollectives:
    def test_the_arguments_are_the_output(self, calls_of):
        def run():
            into = [torch.zeros(2, 2)]
            dist.all_gather(into, X)
            dist.all_reduce(X.clone(), op=dist.ReduceOp.MAX)

        assert calls_of(run, groups=["distributed", "tensor"]) == [
            ("Distributed.all_gather", 0, "input", "1"),
            ("Distributed.all_gather", 0, "output", "0.0"),
            ("Distributed.all_gather", 0, "output", "1"),
            ("Tensor.clone", 0, "input", "0"),
            ("Tensor.clone", 0, "output", "0"),
            ("Distributed.all_reduce", 0, "input", "0"),
            ("Distributed.all_reduce", 0, "output", "0"),
        ]
        gathered = calls_of.records["Distributed.all_gather", 0, "output", "0.0"]
        assert array(gathered) == X.tolist()

    def test_of_those_that_go_on_the_end_is_recorded(self, calls_of, daemon, client):
        seen = []

        def run():
            work = dist.all_reduce(torch.ones(2), async_op=True)
            client.flush()
            seen.extend(r.place[3] for r in daemon.records)
            work.wait()
            work.wait()

        places = calls_of(run, groups=["distributed"])
        assert seen == ["input"]
        assert places == [
            ("Distributed.all_reduce", 0, "input", "0"),
            ("Distributed.all_reduce", 0, "output", "0"),
        ]

    @pytest.mark.parametrize("is_kept", [True, False])
    def test_one_that_is_never_waited_for_is_counted(self, calls_of, daemon, is_kept):
        kept = []

        def run():
            work = dist.all_reduce(torch.ones(2), async_op=True)
            if is_kept:
                kept.append(work)

        wait = vars(dist.Work)["wait"]
        places = calls_of(run, groups=["distributed"])
        assert places == [("Distributed.all_reduce", 0, "input", "0")]
        reason = "a collective that was never waited for"
        assert calls_of.handle.skipped == {reason: 1}
        [value] = [r for r in daemon.values if r.io == "output"]
        assert reason in value.value
        assert vars(dist.Work)["wait"] is wait

    def test_wait_of_others_stays(self, client, monkeypatch):
        monkeypatch.setattr(dist.Work, "wait", dist.Work.wait)
        with msitd.register_api(client):
            ours = dist.Work.wait

            def wait(work):
                return ours(work)

            dist.Work.wait = wait
        assert dist.Work.wait is wait
        dist.all_reduce(torch.ones(2), async_op=True).wait()
