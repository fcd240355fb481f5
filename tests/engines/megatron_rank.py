"""One rank of Megatron-core, on a CPU: a stage of a pipeline, or a part of each layer.

usage: megatron_rank.py RANK WORLD_SIZE FILE [tensor]
"""

import contextlib
import sys
from typing import Any

import msitd
import torch
import torch.distributed as dist
from msitd.engines import megatron

LAYERS, WIDTH, ROWS, PLACES = 4, 32, 2, 8


def model_of(parts: int, stages: int, is_first: bool, is_last: bool) -> Any:
    """Returns the part of a model that a rank holds.

    Args:
        parts: The number of ranks that share a layer.
        stages: The number of stages of the pipeline.
    """
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig

    config = TransformerConfig(
        num_layers=LAYERS,
        hidden_size=WIDTH,
        num_attention_heads=4,
        use_cpu_initialization=True,
        tensor_model_parallel_size=parts,
        pipeline_model_parallel_size=stages,
        pipeline_dtype=torch.float32,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        bias_dropout_fusion=False,
    )
    return GPTModel(
        config=config,
        transformer_layer_spec=get_gpt_layer_local_spec(),
        vocab_size=64,
        max_sequence_length=PLACES,
        pre_process=is_first,
        post_process=is_last,
    ).eval()


def main() -> None:
    rank, world_size = int(sys.argv[1]), int(sys.argv[2])
    shares_layers = sys.argv[4:] == ["tensor"]
    stages = 1 if shares_layers else world_size
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
    parallel_state.initialize_model_parallel(world_size // stages, stages)
    torch.manual_seed(0)
    is_first = shares_layers or rank == 0
    is_last = shares_layers or rank == stages - 1
    model = model_of(world_size // stages, stages, is_first, is_last)
    words = torch.arange(ROWS * PLACES).reshape(ROWS, PLACES)
    places = torch.arange(PLACES).repeat(ROWS, 1)
    mask = torch.ones(1, 1, PLACES, PLACES, dtype=torch.bool).triu(1)
    with (
        msitd.Client(rank=rank, world_size=world_size, if_exists="new") as client,
        megatron.register_hook(model, client, weights=True, gradients=shares_layers)
        if shares_layers
        else megatron.register_hook(model, client),
        torch.set_grad_enabled(shares_layers),
    ):
        for _ in range(2):
            if not is_first:
                hidden = torch.empty(PLACES, ROWS, WIDTH)
                dist.recv(hidden, rank - 1)
                model.set_input_tensor(hidden)
            result = model(words, places, mask)
            if shares_layers:
                # For logits that ranks share, each rank has the gradients of
                # its own part.
                (result.square().sum() / result.shape[0]).backward()
            if not is_last:
                dist.send(result.contiguous(), rank + 1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
