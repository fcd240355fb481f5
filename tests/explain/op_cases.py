"""The cases: faults with seeds, precisions and settings, in two halves."""

import dataclasses
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import torch
from op_drawing import PRECISIONS, SETTINGS, UNITS, Draw, Made, nl2, perturbed
from op_faults import FAULTS, NEGATIVES
from torch import Tensor

SEEDS = json.loads(Path(__file__).with_name("seeds.json").read_text())


@dataclasses.dataclass
class Case:
    """Tensors of an op that differ, and the kinds of explanations that are right."""

    fault: str
    seed: int
    precision: str
    setting: str
    expected: tuple[str, ...]
    golden: Tensor
    target: Tensor
    inputs: dict[str, Tensor]
    noise: float
    is_stale: bool

    @property
    def name(self) -> str:
        return f"{self.fault} {self.precision} {self.setting} {self.seed}"


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype) if x.is_floating_point() else x


def _make(
    fault: str, made: Made, draw: Draw, precision: str, setting: str, seed: int
) -> Case:
    dtype = PRECISIONS[precision]
    unit = UNITS[dtype]
    golden_dtype = torch.float32 if setting == "against float32" else dtype
    golden_inputs = {k: _cast(x, golden_dtype) for k, x in made.inputs.items()}
    target_inputs = {k: _cast(golden_inputs[k], dtype) for k in made.inputs}
    if setting == "noisy inputs":
        for key, x in target_inputs.items():
            if key.startswith("input/") and x.is_floating_point():
                target_inputs[key] = perturbed(draw, x, 3 * unit)
    golden = made.golden(*golden_inputs.values())
    target = made.target(*target_inputs.values())
    if setting == "other kernels" and not made.is_stale and target.is_floating_point():
        # Sums of another order, before the result is rounded.
        small = unit if dtype == torch.float32 else unit / 8
        target = perturbed(draw, target.float(), 2 * small).to(target.dtype)
    noise = max(nl2(target_inputs[k], golden_inputs[k]) for k in made.inputs)
    return Case(
        fault, seed, precision, setting, made.expected, golden.contiguous(),
        target.contiguous(),
        {k: golden_inputs[k] for k in made.inputs if k not in made.hidden},
        noise, made.is_stale,
    )  # fmt: skip


def cases(half: str, only: str = "") -> Iterator[Case]:
    """Yields the cases of `calibration` or `held_out`."""
    for fault, make in (FAULTS | NEGATIVES).items():
        if only and only not in fault:
            continue
        for precision in PRECISIONS:
            for setting in SETTINGS:
                if setting == "against float32" and precision == "float32":
                    continue
                for seed in SEEDS[half]:
                    key = f"{fault} {precision} {setting} {seed}"
                    draw = Draw(zlib.crc32(key.encode()))
                    made = make(draw)
                    case = _make(fault, made, draw, precision, setting, seed)
                    # Some faults change nothing, such as the order of one row.
                    if is_visible(case):
                        yield case


def is_visible(case: Case) -> bool:
    """Returns whether the difference is larger than the noise of a correct op."""
    if case.golden.shape != case.target.shape:
        return True
    if not bool(torch.isfinite(case.target).all()):
        return True
    if case.fault.startswith("rounded"):
        # Rounding to a type changes nothing if the tensor has that type.
        return nl2(case.target, case.golden) > 8 * max(
            case.noise, UNITS[PRECISIONS[case.precision]]
        )
    unit = UNITS[PRECISIONS[case.precision]]
    return nl2(case.target, case.golden) > 8 * max(case.noise, 4 * unit)
