"""Calls of functions are recorded in native code as in Python."""

from collections.abc import Callable
from typing import Any

import msitd
import pytest
import torch
import torch.nn.functional as F
from fake_daemon import FakeDaemon
from msitd._core.leaf import memory
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint


class Own(torch.Tensor):
    pass


class Text(str):
    pass


def plain() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    torch.add(x, 1, alpha=2)
    F.linear(x, x, bias=None)
    torch.cat([x, x], dim=-1)
    torch.stack((x, x))
    torch.max(x, 0)
    torch.split(x, 1)
    torch.where(x > 1, x, 0.5)
    torch.sum(x, dtype=torch.float64)
    x.add_(1).mul_(True)
    torch.einsum("ij,kj->ik", x, x)
    F.pad(x, [1, 1], mode="constant", value=3)
    F.layer_norm(x, x.shape[1:])


def strange() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    torch.cat([torch.zeros(0), torch.zeros(2)])
    torch.relu(x.as_subclass(Own))
    torch.mul(torch.ones(2, dtype=torch.complex64).conj(), 2)
    torch.add(x.to_sparse(), x.to_sparse())
    torch.nn.init.ones_(x)
    F.pad(x, (1, 1), mode=Text("constant"))
    torch.stack([x] * 3, out=torch.zeros(3, 2, 3))
    torch.broadcast_tensors(x, x[0])
    with torch.inference_mode():
        torch.relu(torch.ones(2))


def stands_in() -> None:
    x = torch.ones(2, 3)
    with FakeTensorMode():
        torch.relu(torch.ones(2))
    torch.vmap(torch.relu)(x)
    torch.func.functionalize(lambda y: torch.add(y, 1))(x)
    torch.func.grad(lambda y: torch.sum(y * y))(x)
    torch.fx.symbolic_trace(lambda y: torch.relu(y))


def backward() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    checkpoint(
        lambda y: torch.tanh(torch.exp(y)), x, use_reentrant=False
    ).sum().backward()
    torch.relu(x.grad)


def raises() -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError):
            torch.matmul(torch.ones(2), torch.ones(3))
    torch.relu(torch.ones(1))


def nested() -> None:
    own: list[Any] = [torch.ones(2)]
    torch.stack([each for each in own] + own)
    torch.meshgrid(torch.ones(2), torch.ones(3), indexing="ij")
    torch.block_diag(torch.ones(1, 2), torch.ones(2, 1))


CASES = [plain, strange, stands_in, backward, raises, nested]
OPTIONS = [
    {},
    {"aliases": True},
    {"values": False, "stack": "caller"},
    {"outputs": False},
    {"inputs": False},
    {"op_pattern": "*add*"},
    {"nested": True},
]


def recorded(
    run: Callable[[], None], options: dict[str, Any]
) -> tuple[list[Any], dict[str, int]]:
    """Returns the records of all calls, and what is counted."""
    daemon = FakeDaemon()
    try:
        with msitd.Client(
            run="run", rank=0, world_size=1, endpoint=daemon.endpoint
        ) as client:
            with msitd.register_api(client, **options) as handle:
                run()
                client.next_token()
                run()
            client.flush()
            skipped = dict(handle.skipped)
        records = [
            (r.place, r.dtype, r.shape, r.data, r.alias_of, r.stack)
            for r in daemon.records
            if r.shape is not None
        ]
        return records, skipped
    finally:
        daemon.stop()


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: "-".join(each))
@pytest.mark.parametrize("run", CASES, ids=lambda each: each.__name__)
def test_native_code_records_the_same(
    run: Callable[[], None],
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    native, native_skipped = recorded(run, options)
    monkeypatch.setattr(memory, "torch_reader", lambda: None)
    python, python_skipped = recorded(run, options)
    for ours, theirs in zip(native, python, strict=True):
        assert ours == theirs
    assert native_skipped == python_skipped
    if run is plain and not options:
        assert len(native) > 50
