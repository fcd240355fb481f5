"""Where requests are in caches."""

from types import SimpleNamespace

import msitd
import pytest
import request_models
import torch
from msitd._core.module import sequence_caches
from request_models import PreTrainedModel
from torch import nn


def caches_in(daemon):
    """Returns what arrived: token -> id -> name -> places."""
    out = {}
    for record in daemon.all_records:
        name, _, request = record.op.partition("cache/")
        if request and not name:
            assert (record.kind, record.io, record.call) == ("document", "state", 0)
            lines = record.data.decode().split("\n")
            rows = out.setdefault(record.token, {})
            assert request not in rows
            rows[request] = dict(line.split(" = ", 1) for line in lines)
    return out


def test_places_are_recorded_with_rows(client, daemon):
    caches = {
        "k_cache": msitd.CacheColumns(1, [(4, 9), 12], (0, 2)),
        "kv_cache": msitd.CachePages([3, 4, 9], 16, (1, 2)),
        "pool": msitd.CachePages(torch.tensor([5, 2]), 1, (0,)),
        "empty": msitd.CachePages([], 4),
    }
    rows = {"a": msitd.RequestRows(0, position=3, caches=caches), "b": 1}
    assert client.record_requests(rows)
    client.flush()
    assert caches_in(daemon) == {
        0: {
            "a": {
                "k_cache": "row 1 dims 0,2: 4:9,12",
                "kv_cache": "pages of 16 dims 1,2: 3:5,9",
                "pool": "pages of 1 dims 0: 5,2",
                "empty": "pages of 4 dims 0,1: ",
            }
        }
    }


@pytest.mark.parametrize(
    "make",
    [
        lambda: msitd.CacheColumns(-1, []),
        lambda: msitd.CacheColumns(0, [-1]),
        lambda: msitd.CacheColumns(0, [(3, 2)]),
        lambda: msitd.CacheColumns(0, [1 << 41]),
        lambda: msitd.CacheColumns(0, [], (0, 0)),
        lambda: msitd.CacheColumns(0, [], (0,)),
        lambda: msitd.CacheColumns(0, [], (0, 32)),
        lambda: msitd.CachePages([0], 0),
        lambda: msitd.CachePages([0], 1 << 21),
        lambda: msitd.CachePages([0], 2, (0,)),
        lambda: msitd.RequestRows(0, caches={"": msitd.CachePages([0], 2)}),
        lambda: msitd.RequestRows(0, caches={"a\nb": msitd.CachePages([0], 2)}),
        lambda: msitd.RequestRows(0, caches={"a = b": msitd.CachePages([0], 2)}),
    ],
)
def test_values_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match="."):
        make()


def test_long_tables_are_bounded(client, daemon):
    table = list(range(0, 200_000, 2))
    pages = msitd.CachePages(table, 16)
    text = pages.text()
    assert text.endswith(f"+{len(table) - (1 << 14)}")
    assert len(text) < 1 << 17
    # Consecutive pages are one range.
    assert msitd.CachePages(range(100_000), 16).text().endswith(": 0:100000")
    assert client.record_requests({"a": msitd.RequestRows(0, caches={"c": pages})})
    client.flush()
    assert caches_in(daemon)[0]["a"]["c"] == text


class Layer:
    """Like a layer of a cache of transformers."""

    is_sliding = False

    def __init__(self, rows):
        self.keys = torch.zeros(rows, 2, 0, 3)


class Cache:
    def __init__(self, layers):
        self.layers = layers
        self.length = 0

    def get_seq_length(self):
        return self.length


class Decoder(PreTrainedModel):
    """Adds the columns of a batch to its cache, and returns it."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 4)

    def forward(self, input_ids, attention_mask=None, past_key_values=None, cut=0):
        rows, columns = input_ids.shape
        cache = past_key_values
        if cache is None:
            cache = Cache([Layer(rows), Layer(rows)])
        cache.length += columns - cut
        return SimpleNamespace(x=self.embed(input_ids), past_key_values=cache)


@pytest.fixture
def decoder(client, monkeypatch):
    request_models.install(monkeypatch)
    model = Decoder()
    with torch.no_grad(), msitd.register_hook(model, client, objects=True) as handle:
        yield model
    client.flush()
    assert not any("reason" in each for each in handle.skipped)


def ones(rows, columns):
    return torch.ones(rows, columns, dtype=torch.int64)


def ids_of(found):
    return [sorted(rows) for _, rows in sorted(found.items())]


def test_padding_is_left_out(decoder, client, daemon):
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    out = decoder(torch.tensor([[5, 6, 7, 8], [0, 0, 9, 3]]), mask)
    for length in (5, 6):
        mask = torch.cat([mask, ones(2, 1)], 1)
        assert mask.shape[1] == length
        decoder(ones(2, 1), mask, out.past_key_values)
    client.flush()
    found = caches_in(daemon)
    places = [
        {text for names in rows.values() for text in names.values()}
        for _, rows in sorted(found.items())
    ]
    assert places == [
        {"row 0 dims 0,2: 0:4", "row 1 dims 0,2: 2:4"},
        {"row 0 dims 0,2: 0:5", "row 1 dims 0,2: 2:5"},
        {"row 0 dims 0,2: 0:6", "row 1 dims 0,2: 2:6"},
    ]
    assert set(found[0][ids_of(found)[0][0]]) == {"past_key_values"}


def test_padding_on_the_right_stays_in_the_cache(decoder, client, daemon):
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    out = decoder(torch.tensor([[5, 6, 7, 8], [9, 3, 0, 0]]), mask)
    mask = torch.cat([mask, ones(2, 1)], 1)
    decoder(ones(2, 1), mask, out.past_key_values)
    client.flush()
    found = caches_in(daemon)
    texts = {names["past_key_values"] for names in found[1].values()}
    assert texts == {"row 0 dims 0,2: 0:5", "row 1 dims 0,2: 0:2,4"}


def test_a_cache_that_was_cropped_has_its_columns_again(decoder, client, daemon):
    out = decoder(torch.tensor([[5, 6, 7, 8]]))
    out.past_key_values.length = 2
    decoder(ones(1, 1), None, out.past_key_values)
    client.flush()
    [places] = caches_in(daemon)[1].values()
    assert places["past_key_values"] == "row 0 dims 0,2: 0:3"


def test_layers_that_slide_have_a_reason(decoder, client, daemon):
    layers = [Layer(1), Layer(1), Layer(1)]
    layers[1].is_sliding = True
    cache = Cache(layers)
    decoder(torch.tensor([[5, 6]]), None, cache)
    client.flush()
    [places] = caches_in(daemon)[0].values()
    assert places == {
        "past_key_values": "row 0 dims 0,2: 0:2",
        "past_key_values.layers.1": "unknown: it has a sliding window",
    }


class QuantizedLayer(Layer):
    pass


@pytest.mark.parametrize(
    ("cache", "reason"),
    [
        (Cache([QuantizedLayer(1)]), "it is quantized"),
        (Cache([Layer(3)]), "its rows are not those of the batch"),
        (SimpleNamespace(layers=[SimpleNamespace(keys=torch.ones(2))]), "its keys"),
        (SimpleNamespace(), "its class"),
        ((torch.ones(1, 2),), "its keys"),
        ([], "its keys"),
    ],
)
def test_other_caches_have_a_reason(cache, reason):
    [found] = sequence_caches.problems_in(cache, 1).values()
    assert found.startswith(reason)


def test_tuples_are_caches_of_older_versions():
    pair = (torch.ones(2, 4, 3, 8), torch.ones(2, 4, 3, 8))
    assert sequence_caches.problems_in((pair, pair), 2) == {}


def test_caches_are_followed_only_if_they_are_recorded(client, daemon, monkeypatch):
    request_models.install(monkeypatch)
    model = Decoder()
    with torch.no_grad(), msitd.register_hook(model, client):
        model(torch.tensor([[5, 6]]))
    client.flush()
    assert caches_in(daemon) == {}
