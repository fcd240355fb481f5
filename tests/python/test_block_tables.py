"""The block tables of vLLM, as stand-ins with the attributes of the released ones."""

from types import SimpleNamespace

import numpy as np
import pytest
from msitd import CachePages
from msitd.engines.vllm.block_tables import caches_of


class Backend:
    """Keeps keys and values in one tensor."""

    @staticmethod
    def get_kv_cache_shape(blocks, size, heads, head_size, cache_dtype_str="auto"):
        return (2, blocks, size, heads, head_size)


class HeadsFirst(Backend):
    @staticmethod
    def get_kv_cache_shape(blocks, size, heads, head_size, cache_dtype_str="auto"):
        return (blocks, heads, size, 2 * head_size)


class Flat(Backend):
    @staticmethod
    def get_kv_cache_shape(blocks, size, heads, head_size, cache_dtype_str="auto"):
        return (2, blocks, size * heads * head_size)


class SlidingWindowSpec:
    sliding_window = 128


class MambaSpec:
    pass


class FullAttentionSpec:
    sliding_window = None


def table(rows, **attributes):
    blocks = np.zeros((len(rows), 8), dtype=np.int32)
    for number, row in enumerate(rows):
        blocks[number, : len(row)] = row
    return SimpleNamespace(
        block_size=16,
        num_blocks_per_row=np.array(list(map(len, rows)), dtype=np.int32),
        get_numpy_array=lambda: blocks,
        **attributes,
    )


def runner_of(tables, backends=None, specs=None):
    backends = backends or [Backend] * len(tables)
    specs = specs or [FullAttentionSpec()] * len(tables)
    groups = [
        SimpleNamespace(layer_names=[f"model.layers.{i}.attn"], kv_cache_spec=spec)
        for i, spec in enumerate(specs)
    ]
    return SimpleNamespace(
        input_batch=SimpleNamespace(
            block_table=SimpleNamespace(block_tables=tables),
            req_id_to_index={"a": 1, "b": 0},
        ),
        kv_cache_config=SimpleNamespace(kv_cache_groups=groups),
        attn_groups=[[SimpleNamespace(backend=backend)] for backend in backends],
    )


def texts(runner, ids=("a", "b")):
    found = caches_of(runner, ids)
    return {
        id_: {name: places.text() for name, places in caches.items()}
        for id_, caches in found.items()
    }


def test_the_row_of_a_request_has_its_blocks():
    runner = runner_of([table([[7, 3], [4, 5, 9]])])
    assert texts(runner) == {
        "a": {"kv_cache": "pages of 16 dims 1,2: 4:6,9"},
        "b": {"kv_cache": "pages of 16 dims 1,2: 7,3"},
    }
    found = caches_of(runner, ["a"])
    assert found == {"a": {"kv_cache": CachePages([(4, 6), 9], 16, (1, 2))}}
    assert texts(runner, ["unknown"]) == {}


def test_dimensions_are_those_of_the_backend():
    runner = runner_of([table([[7], [4]])], [HeadsFirst])
    assert texts(runner, "a") == {"a": {"kv_cache": "pages of 16 dims 0,2: 4"}}
    # Positions are not a dimension of their own.
    assert texts(runner_of([table([[7], [4]])], [Flat]), "a") == {"a": {}}


def test_groups_of_layers_have_their_own_tables():
    tables = [table([[7], [4]]), table([[1], [2]]), table([[1], [2]])]
    specs = [FullAttentionSpec(), SlidingWindowSpec(), MambaSpec()]
    assert texts(runner_of(tables, specs=specs), "a") == {
        "a": {
            "*model.layers.0.attn.kv_cache": "pages of 16 dims 1,2: 4",
            "*model.layers.1.attn.kv_cache": "unknown: it has a sliding window",
            "*model.layers.2.attn.kv_cache": (
                "unknown: it is a state, which has no positions"
            ),
        }
    }


def test_positions_that_are_divided_among_ranks_are_a_reason():
    runner = runner_of([table([[7], [4]], dcp_world_size=2)])
    assert texts(runner, "a") == {
        "a": {"kv_cache": "unknown: its positions are divided among ranks"}
    }


@pytest.mark.parametrize(
    "runner",
    [
        SimpleNamespace(),
        SimpleNamespace(input_batch=None),
        SimpleNamespace(input_batch=SimpleNamespace(req_ids=["a"])),
        SimpleNamespace(
            input_batch=SimpleNamespace(block_table=object(), req_id_to_index={})
        ),
    ],
)
def test_other_runners_state_nothing(runner):
    assert caches_of(runner, ["a"]) == {}
