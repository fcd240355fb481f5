"""A run that is fed the tokens of another one compares with it to the end."""

import pathlib

import msitd
import torch
from torch import nn

from daemon import Daemon

PROMPT = torch.tensor([[3, 1, 4], [1, 5, 9]])
FAILED = 1


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 11)

    def forward(self, ids):
        return self.head(self.embed(ids).mean(1))


def generate(model, logits_processor=(), **_):
    """Chooses tokens as `generate` of Hugging Face does without samples."""
    ids = PROMPT
    while ids.shape[1] < 8:
        scores = model(ids)
        for process in logits_processor:
            scores = process(ids, scores)
        ids = torch.cat([ids, torch.argmax(scores, dim=-1)[:, None]], 1)
    return ids


def record(endpoint, run, model, forcing):
    with (
        torch.no_grad(),
        msitd.Client(run, endpoint=endpoint) as client,
        msitd.register_hook(model, client),
        msitd.register_api(client),
    ):
        return generate(model, **forcing)


def test_functions_of_a_forced_run_pair_with_a_run_that_was_not(
    tmp_path: pathlib.Path,
) -> None:
    daemon = Daemon(tmp_path)
    daemon.start()
    try:
        ids = record(daemon.endpoint, "golden", Model(), {})
        forcing = msitd.teacher_forcing(ids)
        record(daemon.endpoint, "healthy", Model(), forcing)
        daemon.ctl("compare", "run", "golden", "healthy", "--rows", "none")
        faulty = Model()
        with torch.no_grad():
            faulty.head.weight.mul_(-1)
        record(daemon.endpoint, "faulty", faulty, forcing)
        args = ("compare", "run", "golden", "faulty", "--rows", "none")
        header = daemon.ctl(*args, expect=FAILED).stdout
        (made_by,) = [line for line in header.splitlines() if line.startswith("cause ")]
        assert "root.head" in made_by or "Functional.linear" in made_by
        assert "inputs of the model differ" not in header
    finally:
        daemon.clean()
