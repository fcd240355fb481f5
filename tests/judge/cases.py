"""The list of cases, and the half to which each belongs."""

import dataclasses
import hashlib

# Imported to register their faults.
import faults_of_code  # noqa: F401
import faults_of_parts  # noqa: F401
import faults_of_training  # noqa: F401
from healthy import PAIRS
from kinds import FAULTS
from subjects import NOT_JUDGED, PRECISIONS

HALVES = ("seen", "unseen")
MODES = ("modules", "functions")
# The difference between the runs of a fault, in addition to the fault.
SETTINGS = ("same", "other kernels", "against float32")


@dataclasses.dataclass(frozen=True, order=True)
class Case:
    """One pair of runs."""

    model: str
    precision: str
    kind: str
    is_fault: bool

    def _digest(self) -> bytes:
        return hashlib.sha256(
            f"{self.model}|{self.kind}|{self.precision}".encode()
        ).digest()

    @property
    def half(self) -> str:
        """The half of the case. It depends only on the names, so it never changes."""
        return HALVES[self._digest()[0] % 2]

    @property
    def mode(self) -> str:
        """Whether only modules are recorded or, in a quarter of the cases,
        functions too.
        """
        if not self.is_fault and PAIRS[self.kind].is_for_modules:
            return "modules"
        # Other kernels consist of functions, which appear in a backward.
        if self.model == "train" and self.setting != "same":
            return "modules"
        return MODES[self._digest()[1] % 4 == 0]

    @property
    def setting(self) -> str:
        """The difference in addition to the fault; healthy pairs have their own
        ways.
        """
        if not self.is_fault:
            return "other kernels"
        setting = SETTINGS[self._digest()[2] % 3]
        is_float32 = self.precision == "float32" and setting == "against float32"
        return "other kernels" if is_float32 else setting

    @property
    def name(self) -> str:
        return f"{self.model}/{self.precision}/{self.kind.replace(' ', '_')}"


def _is_case(model: str, precision: str, kind: str) -> bool:
    if (model, precision) in NOT_JUDGED:
        return False
    pair = PAIRS.get(kind)
    if pair is None:
        return True
    return pair.golden_precision != precision and precision not in pair.not_in


def all_cases() -> list[Case]:
    """Returns all cases; those that share a golden run are consecutive."""
    kinds = [(kind, models, True) for kind, (models, _) in FAULTS.items()]
    kinds += [(kind, pair.models, False) for kind, pair in PAIRS.items()]
    return sorted(
        Case(model, precision, kind, is_fault)
        for kind, models, is_fault in kinds
        for model in models
        for precision in PRECISIONS
        if _is_case(model, precision, kind)
    )
