"""`generate` of Hugging Face."""

from functools import partial

import pytest
import torch
from reference import Program, check
from transformers import LlamaConfig, LlamaForCausalLM


def llama(layers: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return LlamaForCausalLM(config).eval()


WAYS = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "top_k": 8},
    "beam": {"num_beams": 3},
    "assisted": {"do_sample": False},
}


def program(way: str, is_compiled: bool = False) -> Program:
    def build():
        torch.manual_seed(0)
        model = llama(2)
        options = dict(WAYS[way])
        if way == "assisted":
            options["assistant_model"] = llama(1)
        if is_compiled:
            torch._dynamo.reset()
            model.compile(backend="aot_eager", dynamic=True)
        rows = 1 if way == "assisted" else 2

        def run() -> list[torch.Tensor]:
            torch.manual_seed(1)
            prompt = torch.randint(3, 64, (rows, 5))
            mask = torch.ones_like(prompt)
            return [
                model.generate(
                    prompt,
                    attention_mask=mask,
                    max_new_tokens=6,
                    pad_token_id=0,
                    **options,
                )
            ]

        return model, run

    return build


@pytest.mark.parametrize("way", WAYS)
def test_each_forward_is_a_token_with_all_its_leaves(way: str) -> None:
    check(program(way))


@pytest.mark.parametrize("way", ["greedy", "beam"])
def test_compiled_it_has_the_leaves_of_the_eager_model(way: str) -> None:
    check(program(way), compiled=partial(program(way, is_compiled=True)))
