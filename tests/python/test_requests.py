"""Recording which requests are processed in a token."""

import msitd
import pytest
import torch
from torch import nn


@pytest.fixture
def requests_of(client, daemon):
    """Returns what arrives: token -> id -> rows."""

    def run():
        client.flush()
        out = {}
        for record in daemon.all_records:
            name, _, request = record.op.partition("request/")
            if request and not name:
                assert (record.kind, record.io, record.call) == ("document", "state", 0)
                assert record.device == "cpu:0"
                rows = out.setdefault(record.token, {})
                assert request not in rows
                rows[request] = record.data.decode()
        return out

    return run


def test_rows_are_said_in_many_ways(client, requests_of):
    rows = {
        "pair": (0, 3),
        "range": range(3, 5),
        "slice": slice(5, 6),
        "from 0": slice(2),
        "row": 6,
        "none": None,
        7: torch.Size([7, 9]),
    }
    assert client.record_requests(rows)
    assert requests_of() == {
        0: {
            "pair": "0:3",
            "range": "3:5",
            "slice": "5:6",
            "from 0": "0:2",
            "row": "6:7",
            "none": "",
            "7": "7:9",
        }
    }


def test_ids_alone_and_tokens(client, requests_of):
    assert client.record_requests(["a", "b"])
    assert client.record_requests("long id", token=9)
    client.next_token()
    assert client.record_requests(["a"])
    # Nothing is recorded twice, and new requests are added.
    assert client.record_requests({"a": None, "d": (0, 1)})
    assert client.record_requests([])
    assert requests_of() == {
        0: {"a": "", "b": ""},
        1: {"a": "", "d": "0:1"},
        9: {"long id": ""},
    }
    assert client.counters().conflict_count == 0


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        {"a": (3, 2)},
        {"a": (-1, 2)},
        {"a": range(0, 4, 2)},
        {"a": slice(1, None)},
        {"": (0, 1)},
        {"x" * 129: (0, 1)},
        {"a\0b": (0, 1)},
        range(4097),
    ],
)
def test_what_is_wrong_is_refused(client, requests_of, wrong):
    with pytest.raises(ValueError):
        client.record_requests(wrong)
    assert requests_of() == {}


def test_a_closed_client_says_so(client):
    client.close()
    with pytest.raises(msitd.MsitError, match="closed"):
        client.record_requests(["a"])


@pytest.mark.parametrize("is_compiled", [False, True])
def test_hooks_ask_when_a_step_begins(client, requests_of, is_compiled):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    running = torch.compile(model, backend="eager") if is_compiled else model
    batches = [{"a": (0, 1)}, {"a": (0, 1), "b": (1, 2)}, {"b": (0, 2)}]
    asked = iter(batches)
    with (
        torch.no_grad(),
        msitd.register_hook(
            model, client, tokens=(0, 2), requests=lambda: next(asked)
        ) as handle,
    ):
        for _ in range(3):
            running(torch.ones(2, 3))
    assert handle.skipped == {}
    # For tokens that are not recorded, the function is not called.
    assert requests_of() == {0: {"a": "0:1"}, 2: {"a": "0:1", "b": "1:2"}}


def test_a_function_that_fails_never_reaches_the_model(client, requests_of):
    model = nn.Identity()
    with msitd.register_hook(model, client, requests=lambda: 1 // 0) as handle:
        assert model(torch.ones(2)).sum() == 2
    [reason] = handle.skipped
    assert "division" in reason
    assert requests_of() == {}
