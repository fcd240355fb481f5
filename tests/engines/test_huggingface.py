"""generate and Trainer of transformers, with a daemon."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msitd
import pytest
import torch
from engine_places import places
from msitd import query
from msitd.engines import huggingface
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from daemon import Daemon

STEPS, MICRO_BATCHES, WORDS = 4, 2, 64


@pytest.fixture(autouse=True)
def place(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A daemon at the default endpoint of clients."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{daemon.socket_dir}")
    yield


def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return LlamaForCausalLM(config)


def test_tokens_of_generate_are_those_of_its_requests(daemon: Daemon) -> None:
    model = llama().eval()
    prompt = torch.tensor([[5, 6, 7], [8, 9, 10]])
    options: dict[str, Any] = {
        "attention_mask": torch.ones_like(prompt),
        "max_new_tokens": 4,
        "do_sample": False,
        "pad_token_id": 0,
        "eos_token_id": None,
    }
    plain = model.generate(prompt, **options)
    rows = {"a": 0, "b": 1}
    with (
        msitd.Client("r") as client,
        msitd.register_hook(model, client, requests=lambda: rows),
    ):
        generated = model.generate(prompt, **options)
    assert torch.equal(generated, plain)
    with query.connect(f"unix:{daemon.socket_dir}/msitd.sock") as asked:
        for request, row in rows.items():
            chosen = query.select(ops="root", io="output", requests=request)
            logits = [
                tensor
                for tensor in asked.tensors.list("r", chosen)
                if tensor.index == "logits"
            ]
            assert [tensor.token for tensor in logits] == [0, 1, 2, 3]
            for tensor in logits:
                [own] = [each for each in tensor.requests if each.id == request]
                last = asked.tensors.read_torch(tensor)[own.row_slice][0, -1]
                assert last.argmax() == generated[row, prompt.shape[1] + tensor.token]


LONG, SHORT = [5, 6, 7, 8, 9], [8, 9, 10]


def requests_of(daemon: Daemon, run: str) -> list[dict[str, str]]:
    """Returns the requests of each token."""
    with query.connect(f"unix:{daemon.socket_dir}/msitd.sock") as asked:
        chosen = query.select(ops="root.lm_head", io="output")
        found = [
            asked.tensors.get(each.name) for each in asked.tensors.list(run, chosen)
        ]
    assert [tensor.token for tensor in found] == list(range(len(found)))
    return [{each.id: each.rows for each in tensor.requests} for tensor in found]


def generated(run: str, prompts: list[list[int]], **options: Any) -> None:
    width = max(map(len, prompts))
    padding = [[0] * (width - len(prompt)) for prompt in prompts]
    rows = [[*row, *prompt] for row, prompt in zip(padding, prompts, strict=True)]
    batch = torch.tensor(rows)
    model = llama().eval()
    with msitd.Client(run) as client, msitd.register_hook(model, client):
        model.generate(
            batch,
            attention_mask=(batch != 0).long(),
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None,
            max_new_tokens=3,
            **options,
        )


def test_a_prompt_has_its_id_and_positions_in_each_batch(daemon: Daemon) -> None:
    generated("alone", [SHORT])
    generated("batch", [LONG, SHORT])
    generated("beams", [SHORT], num_beams=2)
    generated("chunks", [LONG, SHORT], prefill_chunk_size=2)
    generated("drafts", [LONG], assistant_model=llama().eval())
    generated("again", [LONG], use_cache=False)
    alone = requests_of(daemon, "alone")
    [short] = alone[0]
    # transformers drops a mask without padding.
    assert alone == [{short: text} for text in ("0:1@0", "0:1@3", "0:1@4")]
    batch = requests_of(daemon, "batch")
    assert [each.pop(short) for each in batch] == [
        "1:2,2:5@0",
        "1:2,0:1@3",
        "1:2,0:1@4",
    ]
    [long] = batch[0]
    assert [each[long] for each in batch] == [
        "0:1,0:5@0",
        "0:1,0:1@5",
        "0:1,0:1@6",
    ]
    beams = requests_of(daemon, "beams")
    assert all(each.keys() == {short, f"{short}-2"} for each in beams)
    # The first chunk of the short prompt is padding.
    chunks = requests_of(daemon, "chunks")
    assert [len(each) for each in chunks] == [1, 2, 2, 2, 2]
    [first] = chunks[0]
    texts = [each[first].partition("@")[2] for each in chunks]
    assert texts == ["0", "2", "4", "5", "6"]
    drafts = requests_of(daemon, "drafts")
    assert len({request for each in drafts for request in each}) == 1
    again = requests_of(daemon, "again")
    assert again[0] == {long: "0:1@0"}
    assert len({request for each in again for request in each}) == 3


def trained(
    *callbacks: Any, resumes_at: int | None = None, steps: int = STEPS
) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Trains, and evaluates after each step."""
    torch.manual_seed(1)
    rows = torch.randint(0, WORDS, (STEPS * MICRO_BATCHES * 2, 6))
    data = [{"input_ids": row, "labels": row} for row in rows]
    model = llama()
    arguments = TrainingArguments(
        "out",
        per_device_train_batch_size=2,
        gradient_accumulation_steps=MICRO_BATCHES,
        max_steps=steps,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=3,
    )
    trainer = Trainer(
        model,
        arguments,
        train_dataset=data,
        eval_dataset=data[:2],
        callbacks=list(callbacks),
    )
    trainer.train(
        resume_from_checkpoint=f"out/checkpoint-{resumes_at}" if resumes_at else None
    )
    losses = [each["loss"] for each in trainer.state.log_history if "loss" in each]
    return losses, model.state_dict()


def root_calls(daemon: Daemon, run: str) -> list[tuple[int, int]]:
    return [
        (token, call)
        for token, call, op, what in places(daemon, run, "--io", "output")
        if (op, what) == ("root", "output loss")
    ]


def test_steps_of_trainer_are_tokens_and_change_no_bit(daemon: Daemon) -> None:
    plain, weights = trained()
    assert len(plain) == STEPS
    losses, recorded = trained(huggingface.callback(run="r"))
    assert losses == plain
    assert all(torch.equal(recorded[name], weights[name]) for name in weights)
    expected = [(s, c) for s in range(STEPS) for c in range(MICRO_BATCHES)]
    assert root_calls(daemon, "r") == expected
    grads = places(daemon, "r", "--io", "grad_weight", "--ops", "root.lm_head")
    assert {token for token, *_ in grads} == set(range(STEPS))
    # The training continues from a checkpoint, in its own run.
    _, again = trained(huggingface.callback(run="on"), resumes_at=2)
    assert {token for token, _ in root_calls(daemon, "on")} == {2, 3}
    assert all(torch.equal(again[name], weights[name]) for name in weights)


def test_evaluations_are_further_calls_of_their_step(daemon: Daemon) -> None:
    trained(huggingface.callback(run="r", evaluation=True, gradients=False), steps=2)
    calls: Callable[[int], list[int]] = lambda step: [
        call for token, call in root_calls(daemon, "r") if token == step
    ]
    assert len(calls(0)) == len(calls(1)) > MICRO_BATCHES
