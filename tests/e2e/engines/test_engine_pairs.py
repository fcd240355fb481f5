"""Comparisons of a model in two engines, without flags.

tests/engines runs the real engines; these are stand-ins with their classes.
"""

import json
from typing import Any

import engine_models
import msitd
import pytest
import torch
from msitd.engines.vllm import recorder

from daemon import Daemon

PROMPT = [3, 1, 4, 1, 5]
PACKAGES = {
    "vllm": ("vllm.model_executor", "0.32.0"),
    "sglang": ("sglang.srt", "0.5.10"),
}
FAILED, PARTIAL = 1, 4


@pytest.fixture(autouse=True)
def place(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{daemon.socket_dir}")


def record_transformers(run: str = "hf", weights: bool = True) -> torch.Tensor:
    model = engine_models.LlamaForCausalLM(engine_models.weights()).eval()
    ids = torch.tensor([PROMPT])
    requests = {"a": 0}
    with (
        msitd.Client(run) as client,
        msitd.register_hook(model, client, weights=weights, requests=lambda: requests),
        torch.no_grad(),
    ):
        return model(ids)["logits"][0, -1]


def record_engine(
    run: str, engine: str = "vllm", fault: str = "", prompts: Any = None
) -> torch.Tensor:
    model = engine_models.engine_model(*PACKAGES[engine], fault).eval()
    prompts = prompts or {"a": PROMPT}
    ids = torch.tensor([word for prompt in prompts.values() for word in prompt])
    positions = torch.cat([torch.arange(len(prompt)) for prompt in prompts.values()])
    ends = torch.tensor([len(prompt) for prompt in prompts.values()]).cumsum(0)
    lengths = {name: len(prompt) for name, prompt in prompts.items()}
    rows = {
        name: msitd.RequestRows(place, position=0)
        for name, place in recorder._rows_of(list(prompts), lengths).items()
    }
    with (
        msitd.Client(run) as client,
        msitd.register_hook(
            model, client, weights=True, time="step", requests=lambda: rows
        ),
        torch.no_grad(),
    ):
        hidden = model(ids, positions)
        logits = model.compute_logits(hidden[ends - 1])
    return logits["next_token_logits"] if isinstance(logits, dict) else logits


def rows_of(daemon: Daemon, name: str = "latest") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.ctl_json(
        "compare", "rows", name, "--limit", "0"
    )["rows"]
    return found


def passed_outputs(daemon: Daemon) -> set[str]:
    """Returns the golden ops whose outputs agree."""
    return {
        row["op"]
        for row in rows_of(daemon)
        if row["verdict"] == "PASS" and row["io"] == "IO_OUTPUT"
    }


# Every module of the golden model that returns a tensor, except for the activation,
# which engines compute together with a product.
BLOCKS = {"root.model.embed_tokens", "root.model", "root.model.norm", "root.lm_head"}
for number in range(engine_models.LAYERS):
    at = f"root.model.layers.{number}"
    names = "input_layernorm post_attention_layernorm self_attn mlp"
    BLOCKS |= {at, *(f"{at}.{name}" for name in names.split())}
    BLOCKS |= {f"{at}.self_attn.{name}_proj" for name in ("q", "k", "v", "o")}
    BLOCKS |= {f"{at}.mlp.{name}_proj" for name in ("gate", "up", "down")}


@pytest.mark.parametrize("engine", PACKAGES)
def test_a_model_of_transformers_is_compared_with_an_engine(
    engine: str, daemon: Daemon
) -> None:
    expected = record_transformers()
    assert torch.allclose(record_engine("engine", engine)[0], expected, atol=1e-5)
    done = daemon.ctl("compare", "run", "hf", "engine")
    assert f"pairs of tensors by hf-{engine}" in done.stderr
    assert "0 unmatched" in done.stderr and "--shapes squeeze" in done.stderr
    assert passed_outputs(daemon) == BLOCKS
    # The other way round, rows of padding of the golden weights are not compared.
    done = daemon.ctl("-o", "json", "compare", "run", "engine", "hf", expect=PARTIAL)
    turned = json.loads(done.stdout)["comparison"]
    assert (turned["fail_count"], turned["unmatched_count"]) == ("0", "0")


def test_two_engines_are_compared_without_a_table_for_both(daemon: Daemon) -> None:
    record_engine("vllm")
    record_engine("sglang", "sglang")
    done = daemon.ctl("compare", "run", "vllm", "sglang")
    assert "pairs of tensors by engines" in done.stderr


@pytest.mark.parametrize(
    ("fault", "op"),
    [("rope", "self_attn.o_proj"), ("swapped", "mlp.gate_proj")],
)
def test_a_fault_of_an_engine_is_found(fault: str, op: str, daemon: Daemon) -> None:
    record_transformers(weights=False)
    record_engine("engine", fault=fault)
    daemon.ctl("compare", "run", "hf", "engine", expect=FAILED)
    first = daemon.ctl_json("compare", "get", "latest")["first_divergence"]
    assert first["op"] == f"root.model.layers.1.{op}", first


def test_a_plain_model_with_equal_names_has_no_mapping(daemon: Daemon) -> None:
    record_transformers("one")
    record_transformers("two")
    done = daemon.ctl("compare", "run", "one", "two")
    assert "pairs of tensors" not in done.stderr
    assert not daemon.ctl_json("run", "attachments", "two").get("attachments")
