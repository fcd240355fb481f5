"""A Llama of transformers and the same Llama in Megatron-core are compared without
flags, on any number of ranks that share each layer.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import llama_weights as llama
import msitd
import pytest
import torch

from daemon import Daemon

PAIRS = [
    ("llama", "of1"),
    ("llama", "of2"),
    ("llama", "of4"),
    ("of2", "llama"),
    ("of1", "of2"),
    ("of4", "of2"),
]


def record_llama(daemon: Daemon, weights: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=llama.WIDTH,
        intermediate_size=llama.INNER,
        num_hidden_layers=llama.LAYERS,
        num_attention_heads=llama.HEADS,
        num_key_value_heads=llama.GROUPS,
        vocab_size=llama.WORDS,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).eval()
    torch.save(model.state_dict(), weights)
    words = torch.arange(16).reshape(2, 8)
    with (
        msitd.Client("llama", endpoint=str(daemon.socket_dir)) as client,
        msitd.register_hook(model, client, weights=True),
        torch.no_grad(),
    ):
        model(input_ids=words, use_cache=False)


def record_ranks(
    run: str, world_size: int, daemon: Daemon, weights: Path, factor: str = "1"
) -> None:
    program = Path(__file__).with_name("megatron_llama.py")
    environment = {
        **os.environ,
        "MSITD_RUN": run,
        "MSITD_ENDPOINT": f"unix:{daemon.socket_dir}",
        "OMP_NUM_THREADS": "1",
    }
    file = weights.with_name(run)
    numbers = (str(world_size), str(file), str(weights), factor)
    ranks = [
        subprocess.Popen(
            [sys.executable, program, str(rank), *numbers], env=environment
        )
        for rank in range(world_size)
    ]
    assert [each.wait(180) for each in ranks] == [0] * world_size


@pytest.fixture
def recorded(daemon: Daemon, tmp_path: Path) -> Iterator[Daemon]:
    weights = tmp_path / "weights.pt"
    record_llama(daemon, weights)
    for world_size in (1, 2, 4):
        record_ranks(f"of{world_size}", world_size, daemon, weights)
    record_ranks("mistaken", 2, daemon, weights, factor="1.01")
    yield daemon


def test_equal_models_pass_and_a_mistake_of_one_rank_is_named(
    recorded: Daemon,
) -> None:
    for golden, target in PAIRS:
        recorded.ctl("compare", "run", golden, target)
        result = recorded.ctl_json("compare", "get", "latest")
        assert result.get("fail_count", "0") == "0"
        assert int(result["pass_count"]) >= 111, (golden, target, result)
    for golden in ("llama", "of1", "of4"):
        done = recorded.ctl("compare", "run", golden, "mistaken", expect=1)
        first = done.stdout.splitlines()[0]
        assert "layers.1." in first, done.stdout
        assert "layernorm" in first and "weight" in done.stdout, done.stdout
