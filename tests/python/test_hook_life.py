"""Hooks with copies, files, processes, threads and errors, and their removal."""

import copy
import gc
import io
import os
import pickle
import subprocess
import sys
import threading
import weakref

import msitd
import pytest
import torch
from torch import nn

X = torch.ones(2, 4)


def new_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))


def train(model, x=X):
    model(x).sum().backward()


@pytest.fixture
def hooked(client):
    model = new_model()
    with msitd.register_hook(model, client, gradients=True):
        yield model


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), saved],
    ids=["deepcopy", "pickle", "torch.save"],
)
def test_copies_have_no_hooks_and_the_original_keeps_them(
    client, daemon, hooked, duplicate
):
    twin = duplicate(duplicate(hooked))
    train(twin)
    client.flush()
    assert daemon.records == []
    assert client.token == 0
    train(hooked)
    client.flush()
    assert {r.io for r in daemon.records} >= {"input", "output", "grad_output"}
    for mine, other in zip(hooked.parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine.grad, other.grad)


def test_a_saved_model_is_loaded_without_this_package(hooked, tmp_path):
    path = tmp_path / "model.pt"
    torch.save(hooked, path)
    code = (
        "import sys, torch\n"
        "model = torch.load(sys.argv[1], weights_only=False)\n"
        "print(float(model(torch.ones(2, 4)).sum()), 'msitd' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    with torch.no_grad():
        assert done.stdout.split() == [str(float(new_model()(X).sum())), "False"]


def test_a_copy_can_have_hooks_of_its_own(client, daemon, hooked):
    twin = copy.deepcopy(hooked)
    with msitd.register_hook(twin, client, gradients=True):
        train(twin)
    client.flush()
    assert sum(r.op == "root2.0" and r.io == "input" for r in daemon.records) == 1
    assert not any(r.op.startswith("root.") for r in daemon.records)


def test_a_forked_child_runs_the_model_and_records_nothing(client, daemon, hooked):
    train(hooked)
    expected = [p.grad.clone() for p in hooked.parameters()]
    hooked.zero_grad()
    # torch's threads do not survive a fork.
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            train(hooked)
            pairs = zip(hooked.parameters(), expected, strict=True)
            status = 0 if all(torch.equal(p.grad, g) for p, g in pairs) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    torch.set_num_threads(count)
    client.flush()
    seen = len(daemon.records)
    train(hooked)
    client.flush()
    assert len(daemon.records) == 2 * seen


def test_threads_that_train_one_model_record_all(client, daemon, hooked):
    barrier = threading.Barrier(4)
    problems = []

    def run(value):
        try:
            x = torch.full((2, 4), float(value), requires_grad=True)
            barrier.wait()
            for _ in range(5):
                train(hooked, x)
        except Exception as error:  # noqa: BLE001 - told below
            problems.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    client.flush()
    places = [r.place for r in daemon.records]
    assert len(set(places)) == len(places)
    for side in ("input", "output", "grad_input", "grad_output"):
        of = [p for p in places if p[1] == "root.0" and p[3] == side]
        assert len(of) == 20, side


def test_an_error_in_a_backward_reaches_the_user_and_ends_nothing(client, daemon):
    class Fails(torch.autograd.Function):
        fails = True

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            if Fails.fails:
                raise ArithmeticError("no gradient today")
            return gradient * 2

    class Layer(nn.Module):
        def forward(self, x):
            return Fails.apply(x) * x

    model = nn.Sequential(nn.Linear(4, 4), Layer())
    with msitd.register_hook(model, client, gradients=True, time="forward") as handle:
        loss = model(X).sum()
        with pytest.raises(ArithmeticError, match="no gradient today"):
            loss.backward(retain_graph=True)
        Fails.fails = False
        train(model)
    assert handle.skipped == {}
    client.flush()
    places = {r.place for r in daemon.records}
    assert (1, "root.1", 0, "grad_input", "0") in places
    assert (0, "root.1", 0, "grad_input", "0") not in places


def test_an_interrupted_forward_ends_its_token(client, daemon):
    class Interrupted(nn.Module):
        is_interrupted = True

        def forward(self, x):
            if self.is_interrupted:
                raise KeyboardInterrupt
            return x

    model = nn.Sequential(nn.Identity(), Interrupted())
    with msitd.register_hook(model, client), torch.no_grad():
        with pytest.raises(KeyboardInterrupt):
            model(X)
        model[1].is_interrupted = False
        for _ in range(2):
            model(X)
    client.flush()
    roots = [r.place[:3:2] for r in daemon.records if r.op == "root.1"]
    assert roots == [(0, 0), (1, 0), (1, 0), (2, 0), (2, 0)]
    assert client.token == 3


def test_an_interrupted_child_ends_its_token(client, daemon):
    class Interrupted(nn.Module):
        is_interrupted = False

        def forward(self, x):
            if self.is_interrupted:
                raise KeyboardInterrupt
            return x

    parts = nn.ModuleDict({"a": Interrupted(), "b": nn.Identity()})
    with msitd.register_hook(parts, client), torch.no_grad():
        parts["b"](parts["a"](X))
        parts["a"].is_interrupted = True
        with pytest.raises(KeyboardInterrupt):
            parts["a"](X)
        parts["a"].is_interrupted = False
        for _ in range(2):
            parts["b"](parts["a"](X))
    client.flush()
    outputs = [r.place[:3] for r in daemon.records if r.io == "output"]
    assert outputs == [
        (token, f"root.{name}", 0) for token in (0, 2, 3) for name in ("a", "b")
    ]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_error_in_a_graph_ends_its_token(client, daemon, backend):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Embedding(4, 2)).eval()
    with msitd.register_hook(model, client), torch.no_grad():
        whole = torch.compile(model, backend=backend)
        whole(torch.tensor([1, 2]))
        with pytest.raises(IndexError):
            whole(torch.tensor([1, 9]))
        for _ in range(3):
            whole(torch.tensor([1, 2]))
    client.flush()
    outputs = [
        r.place[:3:2] for r in daemon.records if r.place[1::2] == ("root", "output")
    ]
    assert [call for _, call in outputs] == [0] * 4
    tokens = [token for token, _ in outputs]
    assert tokens == [0, 2, 3, 4]


def test_a_model_that_calls_itself_in_a_graph_has_one_token(client, daemon):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x, depth=0):
            return self.act(x) if depth == 2 else self(self.act(x), depth + 1)

    torch._dynamo.reset()
    model = Twice().eval()
    with msitd.register_hook(model, client), torch.no_grad():
        whole = torch.compile(lambda x: model(x), backend="eager", fullgraph=True)
        for _ in range(2):
            whole(X)
    client.flush()
    outputs = [
        r.place[:3:2] for r in daemon.records if r.place[1::2] == ("root", "output")
    ]
    assert sorted(outputs) == [(token, call) for token in (0, 1) for call in range(3)]


def test_a_closed_client_disturbs_no_training(daemon):
    model, other = new_model(), new_model()
    client = msitd.Client("run", endpoint=daemon.endpoint)
    handle = msitd.register_hook(model, client, gradients=True)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other)]
    client.close()
    for _ in range(2):
        for m, optimizer in zip((model, other), optimizers, strict=True):
            train(m)
            optimizer.step()
    for mine, its in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, its)
    assert handle.skipped_count > 0
    handle.remove()


def test_hooks_are_removed_in_the_middle_of_a_forward(client, daemon):
    class Removes(nn.Module):
        def forward(self, x):
            handle.remove()
            return x

    model = nn.Sequential(nn.Linear(4, 4), Removes(), nn.Linear(4, 1))
    handle = msitd.register_hook(model, client, gradients=True)
    train(model)
    client.flush()
    seen = len(daemon.records)
    assert {r.op for r in daemon.records} == {"root", "root.0", "root.1"}
    model[1] = nn.Identity()
    train(model)
    client.flush()
    assert len(daemon.records) == seen
    with msitd.register_hook(model, client, gradients=True):
        train(model)
    client.flush()
    again = daemon.records[seen:]
    assert {r.token for r in again} == {1}
    assert {r.call for r in again} == {0}


def test_hooks_are_removed_in_the_middle_of_a_backward(client, daemon):
    model, other = new_model(), new_model()
    handle = msitd.register_hook(model, client, gradients=True)
    result = model[1](model[0](X))
    result.register_hook(lambda gradient: handle.remove())
    model[2](result).sum().backward()
    train(other)
    for mine, its in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine.grad, its.grad)
    client.flush()
    ios = {(r.op, r.io) for r in daemon.records}
    assert ("root.2", "grad_output") in ios
    assert not {("root.0", "grad_output"), ("root.0", "grad_weight")} & ios


_SUBINTERPRETER = """
import importlib, sys
{first}
for name in ("_xxsubinterpreters", "_interpreters"):
    try:
        interpreters = importlib.import_module(name)
        break
    except ImportError:
        continue
# An object or an exception tells of a failure, as the version of Python wants.
try:
    failure = interpreters.run_string(
        interpreters.create({isolated}), "import sys\\n{path}\\nimport msitd"
    )
except interpreters.RunFailedError as error:
    failure = error
assert "cannot be imported in a subinterpreter" in str(failure), failure
import msitd
assert msitd.Client
"""


@pytest.mark.parametrize("first", ["", "import msitd"])
@pytest.mark.parametrize("isolated", ["", "isolated=False"])
def test_a_subinterpreter_is_refused_at_once(first, isolated):
    if sys.version_info >= (3, 13):
        isolated = isolated and '"legacy"'
    path = f"sys.path[:] = {sys.path!r}"
    script = _SUBINTERPRETER.format(first=first, isolated=isolated, path=path)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def use(model):
    for _ in range(2):
        model(X).sum().backward()


HANDLES = {
    "hooks": lambda model, client: msitd.register_hook(model, client),
    "all": lambda model, client: msitd.register_hook(
        model,
        client,
        gradients=True,
        optimizer_state=True,
        aliases=True,
        weights=True,
        stack="full",
        requests=lambda: ["a"],
    ),
    "functions": lambda model, client: msitd.register_api(
        client, imported=True, operators=True, gradients=True
    ),
}


@pytest.mark.parametrize("kind", HANDLES)
def test_a_removed_handle_and_its_client_are_freed_at_once(daemon, no_collector, kind):
    model = new_model()
    client = msitd.Client("run", 0, 1, daemon.endpoint)
    handle = HANDLES[kind](model, client)
    use(model)
    handle.remove()
    client.close()
    left = weakref.ref(handle), weakref.ref(client)
    del handle, client
    assert [each() for each in left] == [None, None]
    use(model)


def test_a_forgotten_client_is_closed_when_its_handle_is_removed(daemon, no_collector):
    handle = msitd.register_hook(
        new_model(), msitd.Client("run", 0, 1, daemon.endpoint)
    )
    handle.remove()
    left = weakref.ref(handle._client)
    del handle
    assert left() is None
    assert "module_tree.json" in daemon.documents
