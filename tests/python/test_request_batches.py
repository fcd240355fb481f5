"""Requests of the user's function, completed from the arguments of a forward."""

import msitd
import pytest
import torch
from request_models import Cache, Cached, Plain, check_skips, requests_in
from torch import nn

ROWS = {"a": 0, "b": 1}
IDS = torch.tensor([[5, 6, 7, 8], [0, 0, 9, 3]])
LEFT = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
RIGHT = LEFT.flip(1)
STEP = torch.tensor([[1], [2]])


@pytest.fixture
def recorded(client, daemon):
    """Returns the requests of each forward of `calls`."""

    def run(model, requests, calls, **options):
        given = requests if callable(requests) else lambda: requests
        hooks = msitd.register_hook(model, client, requests=given, **options)
        with torch.no_grad(), hooks as handle:
            for args, kwargs in calls:
                model(*args, **kwargs)
        client.flush()
        check_skips(handle)
        return list(requests_in(daemon).values())

    return run


def ones(*shape):
    return torch.ones(*shape, dtype=torch.int64)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32])
@pytest.mark.parametrize(
    ("mask", "row"), [(LEFT, "1:2,2:4@0/2,4"), (RIGHT, "1:2,0:2@0/2,4")]
)
def test_columns_are_those_of_the_mask(recorded, mask, row, dtype):
    calls = [((IDS, mask.to(dtype)), {})]
    assert recorded(Cached(), ROWS, calls) == [{"a": "0:1,0:4@0/2,4", "b": row}]


def test_a_mask_covers_the_cache(recorded):
    cache = Cache()
    cache.length = 4

    def call(mask, ids=STEP):
        given = torch.cat([mask, ones(2, ids.shape[1])], 1)
        return (), {
            "input_ids": ids,
            "attention_mask": given,
            "past_key_values": cache,
        }

    assert recorded(Cached(), ROWS, [call(LEFT), call(RIGHT, IDS)]) == [
        {"a": "0:1,0:1@4/2,1", "b": "1:2,0:1@2/2,1"},
        {"a": "0:1,0:4@4/2,4", "b": "1:2,0:4@2/2,4"},
    ]


def test_without_a_mask_the_cache_has_the_position(recorded):
    keys = (torch.ones(2, 1, 6, 3),) * 2
    tensor = Cache()
    tensor.length = torch.tensor(3)
    caches = [None, (), (keys, keys), tensor]
    calls = [((IDS, None, cache), {}) for cache in caches]
    assert [each["b"] for each in recorded(Cached(), ROWS, calls)] == [
        "1:2@0/2,4",
        "1:2@0/2,4",
        "1:2@6/2,4",
        "1:2@3/2,4",
    ]


class Broken:
    """A cache whose length is unknown."""

    def get_seq_length(self):
        raise RuntimeError("no length")


@pytest.mark.parametrize("cache", [object(), Broken(), [object()], {"k": 1}, "cache"])
def test_a_cache_of_unknown_length_has_no_position(recorded, cache):
    found = recorded(Cached(), ROWS, [((IDS, None, cache), {})])
    assert found == [{"a": "0:1/2,4", "b": "1:2/2,4"}]


def test_a_model_without_a_cache_has_no_position(recorded):
    # It may have one that is not an argument.
    assert recorded(Plain(), ROWS, [((IDS,), {})]) == [{"a": "0:1/2,4", "b": "1:2/2,4"}]


@pytest.mark.parametrize(
    "mask",
    [
        torch.tensor([[1, 1, 0, 1], [1, 0, 0, 1]]),
        ones(2, 1, 4, 4),
        ones(1, 4),
        ones(2, 3),
        ones(2, 5),
        ones(4),
        torch.tensor([[0, 0, 0, 0.0], [0, 0, -1e9, -1e9]]),
        torch.tensor([[1, 1, 2, 2], [1, 1, 1, 2]]),
        {"full_attention": ones(2, 1, 4, 4)},
        "causal",
        ones(2, 4).to("meta"),
    ],
    ids=["holes", "4-D", "one row", "short", "long", "1-D", "added", "packed"]
    + ["mapping", "text", "meta"],
)
def test_other_masks_leave_columns_and_position_out(recorded, mask):
    # With the lengths of the batch, all columns would belong to the request.
    found = recorded(Cached(), ROWS, [((IDS, mask), {})])
    assert found == [{"a": "0:1", "b": "1:2"}]


def test_a_causal_mask_is_not_padding(recorded):
    ids = torch.arange(9).reshape(3, 3)
    mask = torch.ones(3, 3).tril()
    assert recorded(Cached(), {"a": 2}, [((ids, mask), {})]) == [{"a": "2:3"}]


def test_a_row_of_padding_has_no_columns(recorded):
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0]])
    assert recorded(Cached(), ROWS, [((IDS, mask), {})]) == [
        {"a": "0:1,0:4@0/2,4", "b": "1:2,0:0/2,4"}
    ]


def test_parts_of_the_function_stay(recorded):
    given = {
        "position": msitd.RequestRows(0, position=40),
        "columns": msitd.RequestRows(1, (3, 4)),
        "outside": msitd.RequestRows(1, (1, 3)),
        "beams": (0, 2),
        "too many": (0, 3),
        "another batch": msitd.RequestRows(0, batch=(2, 9)),
        "no rows": None,
        "nothing": msitd.RequestRows(0, (1, 5)),
    }
    assert recorded(Cached(), given, [((IDS, LEFT), {})]) == [
        {
            "position": "0:1,0:4@40/2,4",
            "columns": "1:2,3:4@1/2,4",
            "outside": "1:2,1:3/2,4",
            "beams": "0:2",
            "too many": "0:3",
            "another batch": "0:1/2,9",
            "no rows": "",
            "nothing": "0:1,1:5",
        }
    ]


def test_beams_with_the_same_columns_are_one_request(recorded):
    mask = torch.tensor([[0, 1, 1, 1]] * 2)
    found = recorded(Cached(), {"a": (0, 2)}, [((IDS, mask), {})])
    assert found == [{"a": "0:2,1:4@0/2,4"}]


def test_embeddings_have_the_shape_of_the_batch(recorded):
    calls = [
        ((), {"inputs_embeds": torch.ones(2, 4, 3), "attention_mask": LEFT}),
        ((), {"inputs_embeds": torch.ones(6, 3)}),
    ]
    assert recorded(Plain(), {"b": 1}, calls) == [
        {"b": "1:2,2:4@0/2,4"},
        {"b": "1:2@0/6"},
    ]


def packed(*counts):
    return [((torch.arange(count),), {}) for count in counts]


def test_rows_of_packed_batches_are_counted(recorded):
    batches = iter(
        [
            {"a": (0, 3), "b": (3, 5)},
            {"b": 0, "a": 1},
            {"b": msitd.RequestRows(0, position=50), "c": (1, 4)},
            {"b": 0, "a": 1, "c": 2},
        ]
    )
    assert recorded(Plain(), lambda: next(batches), packed(5, 2, 4, 3)) == [
        {"a": "0:3@0/5", "b": "3:5@0/5"},
        {"b": "0:1@2/2", "a": "1:2@3/2"},
        {"b": "0:1@50/4", "c": "1:4@0/4"},
        {"b": "0:1@51/3", "a": "1:2@4/3", "c": "2:3@3/3"},
    ]


def test_rows_that_were_not_seen_are_not_counted(recorded):
    known = msitd.RequestRows((0, 2), position=7)
    batches = iter([{"a": (0, 2)}, {"a": (0, 2)}, {"a": known}, {"a": (0, 2)}])
    tokens = (0, 2, 3, 4)
    found = recorded(
        Plain(), lambda: next(batches), packed(2, 2, 2, 2, 2), tokens=tokens
    )
    assert found == [
        {"a": "0:2@0/2"},
        {"a": "0:2/2"},
        {"a": "0:2@7/2"},
        {"a": "0:2@9/2"},
    ]


def test_forwards_of_one_token_keep_the_first_rows(client, daemon):
    model = Plain()
    rows = {"a": (0, 2)}
    with msitd.register_hook(model, client, requests=lambda: rows, time="step"):
        for _ in range(2):
            model(torch.arange(2))
    client.flush()
    assert requests_in(daemon) == {0: {"a": "0:2@0/2"}}
    assert client.counters().conflict_count == 0


def test_a_pause_ends_the_count(client, daemon):
    model = Plain()
    with msitd.register_hook(model, client, requests=lambda: {"a": (0, 2)}) as handle:
        model(torch.arange(2))
        handle.pause()
        model(torch.arange(2))
        handle.resume()
        model(torch.arange(2))
    client.flush()
    texts = [each["a"] for each in requests_in(daemon).values()]
    assert texts == ["0:2@0/2", "0:2/2"]


@pytest.mark.parametrize(
    "ids",
    ["text", None, 3, [1, 2], torch.ones(2, 3, 4).long(), IDS.to("meta")],
    ids=["text", "none", "number", "list", "3-D", "meta"],
)
def test_other_inputs_add_nothing(client, daemon, ids):
    class Any(nn.Module):
        def forward(self, input_ids, attention_mask=None):
            return torch.ones(1)

    model = Any()
    with msitd.register_hook(model, client, requests=lambda: ROWS):
        model(ids, LEFT)
    client.flush()
    assert requests_in(daemon) == {0: {"a": "0:1", "b": "1:2"}}


def test_arguments_are_read_in_graphs(recorded):
    torch.compiler.reset()
    running = torch.compile(Cached(), backend="eager", fullgraph=True)
    calls = [((IDS, LEFT), {}), ((IDS,), {"attention_mask": RIGHT}), ((IDS,), {})]
    found = recorded(running, ROWS, calls)
    assert [each["b"] for each in found] == [
        "1:2,2:4@0/2,4",
        "1:2,0:2@0/2,4",
        "1:2@0/2,4",
    ]
