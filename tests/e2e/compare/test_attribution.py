"""Faults with a known cause: does `cause` name the cause?

Uses real hooks, the real daemon and the real command line; all tests share one
daemon.
"""

import collections
import pathlib
import re
from collections.abc import Iterator

import pytest
from crafted_cases import CASES, RANK_CASES, record, record_ranks

from daemon import Daemon

FAILED = 1
UNKNOWN_MAX = 0.10
# The makers in the header of each case, word for word. Numbers that a machine
# or a torch may compute otherwise are `#`.
FINDINGS = pathlib.Path(__file__).with_name("crafted_findings.txt")
LABELS = ("cause ", "further cause ", "inputs of the model differ ")
NUMBER = re.compile(
    r"(?<=[ =x(])-?(?:\d+\.\d+(?:e[+-]\d+)?|\d+e[+-]\d+|inf)(?![\w.])"
    r"|(?<=_count = )\d+|(?<=put error )[-\d.e+]+|(?<= at )\[[\d,]+\]"
    r"|(?<=target )-?\d+(?=, golden)|(?<=, golden )-?\d+(?![\w.])"
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("daemon"))
    daemon.start()
    yield daemon
    daemon.clean()


def judge(header: str, culprit: str, place: str) -> str:
    """Returns whether the header of a comparison names the cause."""
    lines = [line for line in header.splitlines() if line.startswith("cause ")]
    cause = lines[0].removeprefix("cause").strip() if lines else ""
    if not culprit:
        return "right" if not cause and place in header else "wrong"
    if not cause or cause.startswith("not known"):
        return "not known"
    is_right = cause.startswith(culprit) and place in cause
    return "right" if is_right else "wrong"


def findings(header: str) -> list[str]:
    """The lines that say who made a difference, without what machines differ in."""
    return [
        NUMBER.sub("#", line) for line in header.splitlines() if line.startswith(LABELS)
    ]


def compare(daemon: Daemon, golden: str, target: str, *flags: str) -> str:
    args = ("compare", "run", golden, target, "--rows", "none", *flags)
    return daemon.ctl(*args, expect=FAILED).stdout


def test_culprits_are_named_in_these_words_and_none_wrongly(
    daemon: Daemon, tmp_path: pathlib.Path
) -> None:
    goldens: set[str] = set()
    outcomes: dict[str, str] = {}
    headers: dict[str, str] = {}

    def golden_of(kind: str, variant: str, record_it) -> str:
        name = "-".join(["golden", *kind.split(), *variant.split()])
        if name not in goldens:
            goldens.add(name)
            record_it(name)
        return name

    for case in CASES:
        for kind in ("encoder", "decoder"):
            golden = golden_of(
                kind,
                case.variant,
                lambda run, kind=kind, case=case: record(
                    daemon.endpoint, run, kind, case, False
                ),
            )
            target = f"{kind}-{case.name.replace(' ', '-').replace(',', '')}"
            record(daemon.endpoint, target, kind, case, True)
            headers[target] = compare(daemon, golden, target, *case.flags)
            outcomes[target] = judge(headers[target], getattr(case, kind), case.place)
    for rank_case in RANK_CASES:
        for kind, culprit in zip(rank_case.kinds, rank_case.culprits, strict=True):
            golden = golden_of(
                kind,
                "",
                lambda run, kind=kind, case=rank_case: record_ranks(
                    daemon.endpoint, run, kind, case, False
                ),
            )
            target = f"{kind}-{rank_case.name}".replace(" ", "-")
            record_ranks(daemon.endpoint, target, kind, rank_case, True)
            headers[target] = compare(daemon, golden, target)
            outcomes[target] = judge(headers[target], culprit, rank_case.place)

    counts = collections.Counter(outcomes.values())
    report = "".join(
        f"{outcomes[target]}: {target}\n{header}"
        for target, header in headers.items()
        if outcomes[target] != "right"
    )
    print(counts, report, sep="\n")
    assert len(outcomes) >= 60
    assert counts["not known"] <= UNKNOWN_MAX * len(outcomes), report
    assert counts["wrong"] == 0, report
    said = "".join(
        "\n".join([f"[{target}]", *findings(header), "", ""])
        for target, header in headers.items()
    )
    (tmp_path / FINDINGS.name).write_text(said)
    assert said == FINDINGS.read_text(), f"see {tmp_path / FINDINGS.name}"


@pytest.mark.parametrize(
    "header, culprit, place, outcome",
    [
        ("cause             a output/0, rank 1", "a output/0", "rank 1", "right"),
        ("cause             a output/0, rank 1", "a output/0", "rank 0", "wrong"),
        ("cause             b output/0, rank 1", "a output/0", "rank 1", "wrong"),
        ("cause             not known: x", "a output/0", "", "not known"),
        ("verdict           FAIL", "a output/0", "", "not known"),
        ("inputs differ from 1", "", "from 1", "right"),
        ("inputs differ from 1\ncause             a", "", "from 1", "wrong"),
    ],
)
def test_the_judge_sees_what_is_wrong(
    header: str, culprit: str, place: str, outcome: str
) -> None:
    assert judge(header, culprit, place) == outcome


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in [*CASES, *RANK_CASES]]
    assert len(set(names)) == len(names) >= 30
