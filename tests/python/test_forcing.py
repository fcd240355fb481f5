"""Teacher forcing, on the generation loop of Hugging Face."""

import types

import msitd
import numpy as np
import pytest
import torch
from torch import nn

VOCABULARY = 11
PROMPT = torch.tensor([[3, 1, 4], [1, 5, 9]])


class Model(nn.Module):
    """Generates as documented for GenerationMixin."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(VOCABULARY, 8)
        self.head = nn.Linear(8, VOCABULARY)

    def forward(self, ids):
        return self.head(self.embed(ids).mean(1))

    def generate(
        self,
        ids,
        max_length=9,
        logits_processor=(),
        do_sample=True,
        num_beams=1,
    ):
        ids = ids.repeat_interleave(num_beams, 0)
        while ids.shape[1] < max_length:
            scores = self(ids)
            for process in logits_processor:
                scores = process(ids, scores)
            probabilities = scores.softmax(1)
            chosen = (
                torch.multinomial(probabilities, 1)
                if do_sample
                else probabilities.argmax(1, keepdim=True)
            )
            ids = torch.cat([ids, chosen], 1)
        return ids


@pytest.fixture
def golden() -> torch.Tensor:
    return Model(0).generate(PROMPT, do_sample=False)


def test_another_model_is_fed_the_same_tokens(client, daemon, golden):
    target = Model(1)
    alone = target.generate(PROMPT, do_sample=False)
    assert not torch.equal(alone, golden)
    with msitd.register_hook(target, client, op_pattern="root"):
        forced = target.generate(PROMPT, **msitd.teacher_forcing(golden))
    assert torch.equal(forced, golden)
    client.flush()
    fed = [r for r in daemon.records if r.place[3] == "input"]
    assert len(fed) == 6
    for token, record in enumerate(fed):
        assert bytes(record.data) == golden[:, : 3 + token].numpy().tobytes()
    # The record has the values that the model computes.
    own = next(r for r in daemon.records if r.place[3] == "output")
    assert bytes(own.data) == target(PROMPT).detach().numpy().tobytes()


def test_the_same_model_gives_the_same_again(golden):
    forcing = msitd.teacher_forcing(golden)
    for _ in range(2):
        assert torch.equal(Model(0).generate(PROMPT, **forcing), golden)


@pytest.mark.parametrize(
    "form",
    [
        lambda ids: ids.tolist(),
        lambda ids: ids.numpy().astype(np.int32),
        lambda ids: types.SimpleNamespace(sequences=ids),
    ],
)
def test_forms_of_ids(golden, form):
    forcing = msitd.teacher_forcing(form(golden))
    assert torch.equal(Model(1).generate(PROMPT, **forcing), golden)


def test_one_row_is_a_batch_of_one(golden):
    forcing = msitd.teacher_forcing(golden[1])
    assert torch.equal(Model(1).generate(PROMPT[1:], **forcing), golden[1:])


def test_scores_that_are_no_numbers_choose_nothing(golden):
    target = Model(1)
    with torch.no_grad():
        target.head.bias[2] = float("nan")
    forcing = msitd.teacher_forcing(golden)
    assert torch.equal(target.generate(PROMPT, **forcing), golden)


def greedy(model, logits_processor=(), **_):
    """Chooses as generate of Hugging Face does."""
    ids = PROMPT
    while ids.shape[1] < 6:
        scores = model(ids)
        for process in logits_processor:
            scores = process(ids, scores)
        ids = torch.cat([ids, torch.argmax(scores, dim=-1)[:, None]], 1)
    return ids


def test_functions_are_recorded_as_without_forcing(client, daemon):
    golden = greedy(Model(0))
    with msitd.register_api(client, op_pattern="Torch.argmax"):
        greedy(Model(0))
        assert torch.equal(greedy(Model(0), **msitd.teacher_forcing(golden)), golden)
        other = greedy(Model(1), **msitd.teacher_forcing(golden))
    assert torch.equal(other, golden)
    client.flush()
    inputs = [bytes(r.data) for r in daemon.records if r.place[3:5] == ("input", "0")]
    outputs = [bytes(r.data) for r in daemon.records if r.place[3] == "output"]
    assert len(inputs) == len(outputs) == 9
    assert inputs[:3] == inputs[3:6] != inputs[6:]
    assert outputs[:3] == outputs[3:6] == outputs[6:]
    own = Model(1)(PROMPT).detach().numpy().tobytes()
    assert inputs[6] == own


@pytest.mark.parametrize(
    ("prompt", "change", "problem"),
    [
        (PROMPT + 1, {}, "token 0 of sequence 0 is 4, in the given ones 3"),
        (PROMPT[:1], {}, "1 sequences are generated, 2 are given"),
        (PROMPT, {"num_beams": 2}, "beams"),
        (PROMPT, {"max_length": 10}, "token 9 is asked for, 9 are given"),
    ],
)
def test_what_does_not_go_along_is_refused(golden, prompt, change, problem):
    forcing = msitd.teacher_forcing(golden) | change
    with pytest.raises(ValueError, match=problem):
        Model(1).generate(prompt, **forcing)


def test_token_of_another_vocabulary_is_refused(golden):
    golden[0, 5] = VOCABULARY
    with pytest.raises(ValueError, match="token 5 is not in the vocabulary of 11"):
        Model(1).generate(PROMPT, **msitd.teacher_forcing(golden))


@pytest.mark.parametrize("ids", [[], [[0.5]], torch.zeros(1, 1, 1).long()])
def test_what_is_no_tokens_is_refused(ids):
    with pytest.raises(ValueError, match="are no tokens"):
        msitd.teacher_forcing(ids)
