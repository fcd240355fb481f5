"""One of several ranks of Megatron-core that share each layer of a small Llama.

usage: megatron_llama.py RANK WORLD_SIZE FILE WEIGHTS [FACTOR]

FACTOR multiplies a weight of the second layer on the last rank: a mistake.
"""

import contextlib
import sys
from typing import Any

import llama_weights as llama
import msitd
import torch
import torch.distributed as dist
from msitd.engines import megatron

MISTAKEN = "decoder.layers.1.pre_mlp_layernorm.weight"


def model_of(world_size: int) -> Any:
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig

    config = TransformerConfig(
        num_layers=llama.LAYERS,
        hidden_size=llama.WIDTH,
        num_attention_heads=llama.HEADS,
        num_query_groups=llama.GROUPS,
        ffn_hidden_size=llama.INNER,
        use_cpu_initialization=True,
        tensor_model_parallel_size=world_size,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        bias_dropout_fusion=False,
        bias_activation_fusion=False,
        masked_softmax_fusion=False,
        apply_rope_fusion=False,
        add_bias_linear=False,
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        normalization="RMSNorm",
        layernorm_epsilon=1e-6,
    )
    return GPTModel(
        config=config,
        transformer_layer_spec=get_gpt_layer_local_spec(normalization="RMSNorm"),
        vocab_size=llama.WORDS,
        max_sequence_length=64,
        position_embedding_type="rope",
        share_embeddings_and_output_weights=False,
    ).eval()


def main() -> None:
    rank, world_size = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{sys.argv[3]}", rank=rank, world_size=world_size
    )
    # Megatron queries a device that does not exist here.
    torch.cuda.current_device = lambda: torch.device("cpu")
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel import random as megatron_random

    def fork(self: Any, name: str = "") -> Any:
        return contextlib.nullcontext()

    megatron_random.CudaRNGStatesTracker.fork = fork
    parallel_state.initialize_model_parallel(world_size)
    model = model_of(world_size)
    names = [name for name, _ in model.named_parameters()]
    weights = llama.weights_of_rank(names, torch.load(sys.argv[4]), rank, world_size)
    if rank == world_size - 1:
        weights[MISTAKEN] = weights[MISTAKEN] * float((*sys.argv, "1")[5])
    model.load_state_dict(weights, strict=False)
    words = torch.arange(16).reshape(2, 8)
    places = torch.arange(8).repeat(2, 1)
    mask = torch.ones(1, 1, 8, 8, dtype=torch.bool).triu(1)
    with (
        msitd.Client(rank=rank, world_size=world_size, if_exists="new") as client,
        megatron.register_hook(model, client, weights=True),
        torch.no_grad(),
    ):
        model(words, places, mask)


if __name__ == "__main__":
    main()
