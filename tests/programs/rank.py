"""One rank of a program with several ranks, on gloo.

usage: rank.py WAY RANK WORLD_SIZE RENDEZVOUS_FILE
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from reference import check
from torch import nn

STEPS, MICRO_BATCHES, ROWS, WIDTH = 3, 2, 4, 8


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, 2))


def batches() -> torch.Tensor:
    torch.manual_seed(1 + dist.get_rank())
    return torch.randn(STEPS, MICRO_BATCHES, ROWS, WIDTH)


def train(forward: Callable[..., torch.Tensor], optimizer: Any) -> list[torch.Tensor]:
    losses = []
    for step in batches():
        for rows in step:
            loss = forward(rows).pow(2).mean()
            loss.backward()
            losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def zero(stage: int) -> None:
    import deepspeed

    deepspeed.init_distributed("gloo", dist_init_required=False)

    def build():
        model = small()
        config = {
            "train_micro_batch_size_per_gpu": ROWS,
            "gradient_accumulation_steps": MICRO_BATCHES,
            "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True,
        }
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        engine, *_ = deepspeed.initialize(
            model=model, optimizer=optimizer, config=config
        )

        def run() -> list[torch.Tensor]:
            losses = []
            for rows in batches().flatten(0, 1):
                loss = engine(rows).pow(2).mean()
                engine.backward(loss)
                engine.step()
                losses.append(loss.detach().clone())
            return losses

        return engine.module, run

    check(build, STEPS)


def fsdp(is_compiled: bool = False) -> None:
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))

    def build(is_compiled: bool = False):
        model = small()
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
        if is_compiled:
            torch._dynamo.reset()
            model.compile(backend="aot_eager")
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        return model, lambda: train(model, optimizer)

    check(build, STEPS, compiled=(lambda: build(True)) if is_compiled else None)


def tensor_parallel(is_compiled: bool = False) -> None:
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))

    def build(is_compiled: bool = False):
        model = small()
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        parallelize_module(model, mesh, plan)
        if is_compiled:
            torch._dynamo.reset()
            model.compile(backend="aot_eager")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return model, lambda: train(model, optimizer)

    check(build, STEPS, compiled=(lambda: build(True)) if is_compiled else None)


def megatron() -> None:
    # The program queries a device that does not exist here.
    torch.cuda.current_device = lambda: torch.device("cpu")
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.tensor_parallel import random as megatron_random
    from megatron.core.transformer import TransformerConfig

    def fork(self: Any, name: str = "") -> Any:
        import contextlib

        return contextlib.nullcontext()

    megatron_random.CudaRNGStatesTracker.fork = fork
    parallel_state.initialize_model_parallel(dist.get_world_size())

    def build():
        torch.manual_seed(0)
        config = TransformerConfig(
            num_layers=2,
            hidden_size=32,
            num_attention_heads=4,
            use_cpu_initialization=True,
            tensor_model_parallel_size=dist.get_world_size(),
            pipeline_dtype=torch.float32,
            attention_dropout=0.0,
            hidden_dropout=0.0,
            bias_dropout_fusion=False,
        )
        model = GPTModel(
            config=config,
            transformer_layer_spec=get_gpt_layer_local_spec(),
            vocab_size=64,
            max_sequence_length=16,
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

        def run() -> list[torch.Tensor]:
            torch.manual_seed(1)
            losses = []
            places = torch.arange(16).repeat(2, 1)
            mask = torch.ones(1, 1, 16, 16, dtype=torch.bool).triu(1)
            for _ in range(STEPS):
                words = torch.randint(0, 64, (2, 16))
                loss = model(words, places, mask, labels=words.roll(-1, 1)).mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.detach())
            return losses

        return model, run

    check(build, STEPS)


WAYS: dict[str, Callable[[], None]] = {
    **{f"zero-{stage}": (lambda stage=stage: zero(stage)) for stage in range(4)},
    "fsdp": fsdp,
    "fsdp-compiled": lambda: fsdp(True),
    "tensor-parallel": tensor_parallel,
    "tensor-parallel-compiled": lambda: tensor_parallel(True),
    "megatron": megatron,
}


def main() -> None:
    way, rank, world_size, rendezvous = sys.argv[1:5]
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{rendezvous}",
        rank=int(rank),
        world_size=int(world_size),
    )
    WAYS[way]()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
