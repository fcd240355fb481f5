"""Other records of hooks: values, stacks, and the structure of the model."""

import json

import msitd
import pytest
import torch
from torch import nn


class Takes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2, dtype=torch.int32))

    def forward(self, x, *args, **kwargs):
        return x


class Caller(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Takes()

    def forward(self, x, *args, **kwargs):
        self.inner(x, *args, **kwargs)
        return {"x": x, "flag": True, "none": [None, "text"]}


@pytest.fixture
def run(client, daemon):
    """Runs a model under hooks and returns the values of one op by place."""

    def run(model, *args, op="root", options=None, **kwargs):
        with msitd.register_hook(model, client, **(options or {})):
            model(*args, **kwargs)
        client.flush()
        return {(r.io, r.index): (r.kind, r.value) for r in daemon.values if r.op == op}

    return run


def test_arguments_that_are_no_tensors_are_recorded(run):
    values = run(
        Caller(),
        torch.zeros(1),
        3,
        (0.5, {"name": "n"}),
        op="root.inner",
        mask=None,
        dtype=torch.float16,
        where=slice(1),
        empty=(),
    )
    assert values == {
        ("input", "1"): ("number", "3"),
        ("input", "2.0"): ("number", "0.5"),
        ("input", "2.1.name"): ("text", "n"),
        ("input", "mask"): ("none", "None"),
        ("input", "dtype"): ("dtype", "torch.float16"),
        ("input", "where"): ("other", "slice(None, 1, None)"),
        ("input", "empty"): ("other", "()"),
    }


def test_results_that_are_no_tensors_are_recorded(run):
    assert run(Caller(), torch.zeros(1)) == {
        ("output", "flag"): ("number", "True"),
        ("output", "none.0"): ("none", "None"),
        ("output", "none.1"): ("text", "text"),
    }


def test_result_that_is_no_tensor_has_the_index_of_the_only_one(run):
    class Counts(nn.Module):
        def forward(self, x):
            return x.numel()

    assert run(Counts(), torch.zeros(3)) == {("output", "0"): ("number", "3")}


def test_values_can_be_left_out(run, daemon):
    assert run(Caller(), torch.zeros(1), 3, options={"values": False}) == {}
    assert daemon.values == []
    assert [r.index for r in daemon.records if r.op == "root"] == ["0", "x"]


def test_values_have_the_call_and_the_token_of_the_tensors(client, daemon):
    shared = Takes()
    model = nn.Sequential(shared, shared)
    with msitd.register_hook(model, client):
        model(torch.zeros(1))
        shared(torch.zeros(1), 1)
    client.flush()
    (value,) = daemon.values
    assert value.place == (1, "root.0", 0, "input", "1")


def test_too_many_values_of_a_call_are_left_out_and_counted(client, daemon, caplog):
    model = Takes()
    with msitd.register_hook(model, client, outputs=False) as handle:
        model([*range(1000), torch.zeros(1)], None)
    client.flush()
    assert len(daemon.values) == 256
    assert [r.index for r in daemon.records] == ["0.1000"]
    assert handle.skipped_count == 1
    assert "more than 256 values" in caplog.text


@pytest.mark.parametrize("level", ["none", "caller", "full"])
def test_stack_says_who_calls(client, daemon, level):
    model = Caller()
    with msitd.register_hook(model, client, stack=level):
        model(torch.zeros(1), 3)
    client.flush()
    stacks = {(r.op, r.io, r.kind): r.stack for r in daemon.all_records}
    inner = stacks["root.inner", "input", "tensor"].splitlines()
    outer = stacks["root", "output", "tensor"].splitlines()
    assert stacks["root.inner", "input", "number"].splitlines() == inner
    if level == "none":
        assert inner == outer == []
        return
    here = f"{__file__}:"
    assert inner[0].startswith(here) or level == "full"
    assert not any("/msitd/" in line for line in inner)
    if level == "caller":
        assert len(inner) == len(outer) == 1
        assert inner[0].endswith("forward")
        assert outer[0].endswith("test_stack_says_who_calls")
        return
    assert "torch" in inner[0]
    ours = [line.rpartition(" ")[2] for line in inner if line.startswith(here)]
    assert ours[0].endswith("forward")
    assert ours[1].endswith("test_stack_says_who_calls")


def test_stack_is_one_of_three(client):
    with pytest.raises(ValueError, match="stack 'all'"):
        msitd.register_hook(Takes(), client, stack="all")


def test_hooks_say_what_requires_a_gradient(client, daemon):
    model = nn.Sequential(nn.Linear(2, 2))
    with msitd.register_hook(model, client, weights=True):
        model(torch.zeros(1, 2))
    client.flush()
    facts = {(r.op, r.io, r.index): r.requires_grad for r in daemon.records}
    assert facts["root.0", "weight", "weight"] is True
    assert facts["root.0", "input", "0"] is False
    assert facts["root.0", "output", "0"] is True


def test_module_tree_is_a_document_of_the_rank(client, daemon):
    model = nn.Sequential(nn.Linear(3, 2, dtype=torch.bfloat16), Caller())
    model[1].eval()
    client.token = 9
    for _ in range(2):
        msitd.register_hook(model, client).remove()
    client.flush()
    (document,) = [r for r in daemon.all_records if r.kind == "document"]
    assert document.place == (0, "module_tree.json", 0, "state", "")
    linear = {
        "weight": {"shape": [2, 3], "dtype": "bfloat16"},
        "bias": {"shape": [2], "dtype": "bfloat16"},
    }
    empty = {"parameters": {}, "buffers": {}, "attributes": {}}
    sizes = {"in_features": "3", "out_features": "2"}
    assert json.loads(daemon.documents["module_tree.json"]) == {
        "version": 1,
        "packages": {"torch": torch.__version__},
        "modules": [
            {
                "op": "root",
                "class": "torch.nn.modules.container.Sequential",
                "parent": None,
                "training": True,
                **empty,
            },
            {
                "op": "root.0",
                "class": "torch.nn.modules.linear.Linear",
                "parent": "root",
                "training": True,
                "parameters": linear,
                "buffers": {},
                "attributes": sizes,
            },
            {
                "op": "root.1",
                "class": f"{__name__}.Caller",
                "parent": "root",
                "training": False,
                **empty,
            },
            {
                "op": "root.1.inner",
                "class": f"{__name__}.Takes",
                "parent": "root.1",
                "training": False,
                "parameters": {},
                "buffers": {"count": {"shape": [2], "dtype": "int32"}},
                "attributes": {},
            },
        ],
    }


def test_module_tree_of_a_lazy_or_compiled_model(client, daemon):
    lazy = torch.compile(nn.Sequential(nn.LazyLinear(3)))
    msitd.register_hook(lazy, client).remove()
    client.flush()
    modules = json.loads(daemon.documents["module_tree.json"])["modules"]
    assert [m["op"] for m in modules] == ["root", "root.0"]
    assert modules[1]["parameters"]["weight"]["shape"] is None


@pytest.mark.parametrize("captures", [False, True])
def test_what_a_graph_of_a_device_captures_is_counted(
    client, daemon, monkeypatch, captures
):
    class OnDevice(torch.Tensor):
        device = torch.device("cuda:0")

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: captures)
    model = nn.Identity()
    with msitd.register_hook(model, client) as handle:
        model(torch.ones(2).as_subclass(OnDevice))
    client.flush()
    assert [r.device for r in daemon.records] == ([] if captures else ["cuda:0"] * 2)
    assert list(handle.skipped.values()) == ([2] if captures else [])
    assert all("a replay runs no Python" in reason for reason in handle.skipped)
