"""Trainings with accelerate and Lightning."""

import lightning
import torch
from accelerate import Accelerator
from reference import check
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS, MICRO_BATCHES, ROWS, WIDTH = 4, 2, 3, 8


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, 2))


def loader() -> DataLoader:
    torch.manual_seed(1)
    rows = torch.randn(STEPS * MICRO_BATCHES * ROWS, WIDTH)
    return DataLoader(TensorDataset(rows), batch_size=ROWS)


def accelerated():
    model = small()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=MICRO_BATCHES)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    wrapped, optimizer, batches = accelerator.prepare(model, optimizer, loader())

    def run() -> list[torch.Tensor]:
        losses = []
        for (rows,) in batches:
            with accelerator.accumulate(wrapped):
                loss = wrapped(rows).pow(2).mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.detach())
        return losses

    return model, run


class Lit(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = small()
        self.losses: list[torch.Tensor] = []

    def training_step(self, batch, index):
        loss = self.net(batch[0]).pow(2).mean()
        self.losses.append(loss.detach().clone())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def lit():
    model = Lit()
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        accumulate_grad_batches=MICRO_BATCHES,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )

    def run() -> list[torch.Tensor]:
        trainer.fit(model, loader())
        return model.losses

    return model, run


def test_accelerate() -> None:
    assert check(accelerated, STEPS) == {}


def test_lightning() -> None:
    assert check(lit, STEPS) == {}
