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
        "numbers": torch.tensor([1, 4]),
        "columns": msitd.RequestRows(1, (4, 9), 0, (2, 9)),
        "packed": msitd.RequestRows(range(2, 6), position=11, batch=8),
        "some": msitd.RequestRows(position=3),
        "unknown": msitd.RequestRows(),
        "padding": msitd.RequestRows(0, slice(0, 0), batch=[1, 9]),
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
            "numbers": "1:4",
            "columns": "1:2,4:9@0/2,9",
            "packed": "2:6@11/8",
            "some": "@3",
            "unknown": "",
            "padding": "0:1,0:0/1,9",
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
        {"a": (0, 1 << 63)},
    ],
)
def test_what_is_wrong_is_refused(client, requests_of, wrong):
    with pytest.raises(ValueError):
        client.record_requests(wrong)
    assert requests_of() == {}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"columns": (0, 1)}, "columns .* need rows"),
        ({"rows": 0, "columns": (0, 1), "batch": 3}, "two dimensions"),
        ({"rows": 3, "batch": 3}, "rows 3:4 end after"),
        ({"rows": 0, "columns": (0, 5), "batch": (1, 4)}, "columns 0:5 end after"),
        ({"rows": 0, "position": -1}, "position -1"),
        ({"rows": 0, "position": 1 << 63}, "position"),
        ({"rows": 0, "batch": (1, 2, 3)}, "one or two dimensions"),
        ({"rows": 0, "batch": (1, -2)}, "length"),
        ({"rows": 0, "columns": range(0, 4, 2)}, "columns range"),
    ],
)
def test_parts_that_do_not_fit_are_refused(wrong, error):
    with pytest.raises(ValueError, match=error):
        msitd.RequestRows(**wrong)


def test_parts_of_another_type_are_refused():
    for wrong in ({"rows": "x"}, {"rows": 0, "position": 1.5}, {"batch": "ab"}):
        with pytest.raises((TypeError, ValueError)):
            msitd.RequestRows(**wrong)


def test_parts_are_normalized_and_texts_are_bounded(client):
    rows = msitd.RequestRows(range(3, 5), columns=2, batch=[5, 3])
    assert (rows.rows, rows.columns, rows.batch) == ((3, 5), (2, 3), (5, 3))
    assert rows == msitd.RequestRows((3, 5), (2, 3), None, (5, 3))
    most = (1 << 63) - 1
    long = msitd.RequestRows((most, most), (most, most), most, (most, most))
    with pytest.raises(ValueError, match="128"):
        client.record_requests({"a": long})


def test_requests_is_a_function_or_false(client):
    for wrong in (True, 0, {"a": 0}, "auto"):
        with pytest.raises(ValueError, match="requests"):
            msitd.register_hook(nn.Identity(), client, requests=wrong)


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
