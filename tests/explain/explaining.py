"""Runs the program explain_cases on cases, and counts its answers."""

import collections
import dataclasses
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

import torch
from op_cases import Case

KINDS = [
    "UNSPECIFIED",
    "FACTOR",
    "SIGN",
    "OFFSET",
    "AFFINE",
    "TERM",
    "SAME_AS_INPUT",
    "ORDER",
    "ARRANGEMENT",
    "SHIFT",
    "MASK",
    "SOFTMAX_SCALE",
    "ROPE_PAIRS",
    "ROPE_BASE",
    "ROPE_POSITIONS",
    "EPS",
    "ACTIVATION",
    "SWAPPED_INPUTS",
    "ROUNDED",
    "SATURATED",
    "ZEROS",
    "DROPOUT",
    "STALE",
    "SUBSET",
]


@dataclasses.dataclass
class Answer:
    """The explanations of a case, and the time that they took."""

    case: Case
    kinds: list[str]
    texts: list[str]
    ms: float

    @property
    def is_explained(self) -> bool:
        return bool(set(self.kinds) & set(self.case.expected))

    @property
    def is_wrong(self) -> bool:
        """Whether an explanation states what is not so.

        That only some indices differ is a fact about the tensors.
        """
        return bool(set(self.kinds) - set(self.case.expected) - {"SUBSET"})


class Explainer:
    """The program explain_cases."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def explain(self, case: Case) -> Answer:
        tensors = {"golden": case.golden, "target": case.target, **case.inputs}
        header = {
            "noise": case.noise,
            "dtype": str(case.target.dtype).removeprefix("torch."),
            "stale": case.is_stale,
            "tensors": [
                {"name": name, "shape": list(x.shape)} for name, x in tensors.items()
            ],
        }
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None
        assert answers is not None
        pipe.write(json.dumps(header).encode() + b"\n")
        for x in tensors.values():
            pipe.write(x.to(torch.float64).contiguous().numpy().tobytes())
        pipe.flush()
        found = json.loads(answers.readline())
        return Answer(
            case,
            [KINDS[one["kind"]] for one in found["explanations"]],
            [
                f"{one['text']} [{one['where']}] {one['residual']} {one['without']}"
                for one in found["explanations"]
            ],
            found["ms"],
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def shares(answers: Iterable[Answer]) -> dict[str, float]:
    """Returns the shares of faults and negatives by outcome, and times."""
    answers = list(answers)
    faults = [a for a in answers if a.case.expected]
    wrong = sum(a.is_wrong for a in answers)
    times = sorted(a.ms for a in answers) or [0.0]
    return {
        "faults": len(faults),
        "negatives": len(answers) - len(faults),
        "explained": sum(a.is_explained for a in faults) / max(len(faults), 1),
        "wrong": wrong / max(len(answers), 1),
        "ms_median": times[len(times) // 2],
        "ms_max": times[-1],
    }


def by_fault(answers: Iterable[Answer]) -> list[tuple[str, int, int, int, str]]:
    """Returns for each fault: cases, explained, wrong, and the wrong kinds."""
    out = collections.defaultdict(list)
    for answer in answers:
        out[answer.case.fault].append(answer)
    rows = []
    for fault, some in out.items():
        kinds = collections.Counter(
            kind
            for a in some
            if a.is_wrong
            for kind in a.kinds
            if kind not in a.case.expected
        )
        rows.append(
            (
                fault,
                len(some),
                sum(a.is_explained for a in some),
                sum(a.is_wrong for a in some),
                " ".join(f"{kind}:{count}" for kind, count in kinds.items()),
            )
        )
    return rows
