"""Stand-ins for the classes of vLLM that msitd.engines.vllm hooks, called as in vLLM.

tests/golden/engines/vllm.json has the signatures of the released classes.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn


class Model(nn.Module):
    """Receives flat rows of all requests, as models of vLLM do."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])

    def forward(
        self,
        input_ids: torch.Tensor | None,
        positions: torch.Tensor,
        intermediate_tensors: Any = None,
        inputs_embeds: torch.Tensor | None = None,
    ) -> torch.Tensor:
        hidden = self.embed(input_ids) + positions[:, None]
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden


class GPUModelRunner:
    """Keeps requests in its own order."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.input_batch = SimpleNamespace(req_ids=[])

    def execute_model(
        self, scheduler_output: Any, intermediate_tensors: Any = None
    ) -> torch.Tensor | None:
        lengths = scheduler_output.num_scheduled_tokens
        self.input_batch.req_ids = sorted(lengths, reverse=True)
        if not scheduler_output.total_num_scheduled_tokens:
            return None
        return self._run(scheduler_output.total_num_scheduled_tokens)

    def profile_run(self, randomize_inputs: bool = False) -> None:
        self._run(7)

    def _run(self, count: int) -> torch.Tensor:
        with torch.inference_mode():
            return self.model(torch.arange(count), torch.arange(count))


class GPUModelRunnerV2(GPUModelRunner):
    """Has no persistent batch, and runs dummy batches with the same method."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        del self.input_batch

    def gather_batch_req_state(
        self, scheduler_output: Any, dummy_run: bool
    ) -> tuple[Any, int | None]:
        ids = sorted(scheduler_output.num_scheduled_tokens, reverse=True)
        return (None if dummy_run else SimpleNamespace(req_ids=ids)), None

    def execute_model(  # type: ignore[override]
        self,
        scheduler_output: Any,
        intermediate_tensors: Any = None,
        dummy_run: bool = False,
        skip_attn_for_dummy_run: bool = False,
        is_profile: bool = False,
        context_len: int = 0,
        valid_dummy_state_slots: bool = False,
        randomize_inputs: bool = False,
    ) -> torch.Tensor | None:
        self.gather_batch_req_state(scheduler_output, dummy_run)
        return self._run(scheduler_output.total_num_scheduled_tokens)

    def profile_run(self, randomize_inputs: bool = False) -> None:
        self.execute_model(batch(dummy=7), dummy_run=True)


class Worker:
    """One process of an engine."""

    def __init__(self, runner: GPUModelRunner, rank: int = 0, **parallel: int) -> None:
        self.rank = rank
        self.parallel_config = SimpleNamespace(**parallel)
        self.model_config = SimpleNamespace(enforce_eager=True)
        self.model_runner = runner
        self.is_down = False

    def get_model(self) -> Model:
        return self.model_runner.model

    def execute_model(self, scheduler_output: Any) -> Any:
        return self.model_runner.execute_model(scheduler_output, None)

    def shutdown(self) -> None:
        self.is_down = True


class WorkerWrapperBase:
    """The class that executors of vLLM call."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def initialize_from_config(self, kv_cache_configs: list[Any]) -> None:
        self.configs = kv_cache_configs

    def execute_model(self, scheduler_output: Any) -> Any:
        return self.worker.execute_model(scheduler_output)


def batch(computed: Mapping[str, int] | None = None, /, **lengths: int) -> Any:
    """Returns a scheduler's output for a step.

    Args:
        computed: Numbers of tokens that earlier steps computed. Other requests
            are new.
        lengths: Numbers of tokens of the step.
    """
    old = {id_: n for id_, n in (computed or {}).items() if id_ in lengths}
    return SimpleNamespace(
        num_scheduled_tokens=lengths,
        total_num_scheduled_tokens=sum(lengths.values()),
        scheduled_new_reqs=[
            SimpleNamespace(req_id=id_, num_computed_tokens=0)
            for id_ in lengths
            if id_ not in old
        ],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(old), num_computed_tokens=list(old.values())
        ),
    )


def serve(wrapper: WorkerWrapperBase) -> list[torch.Tensor]:
    """Profiles, prefills two requests, decodes, and runs a step without rows."""
    wrapper.worker.model_runner.profile_run()
    steps = (
        batch(a=3, b=2),
        batch({"a": 3, "b": 2}, a=1, b=1),
        batch({"b": 3}, b=1),
    )
    results = [wrapper.execute_model(step) for step in steps]
    if type(wrapper.worker.model_runner) is GPUModelRunner:
        assert wrapper.execute_model(batch()) is None
    return results
