"""Asks `msitctl run origin` about recorded cases and judges the answers."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from case import NONE, NOT_KNOWN, Answer, Case, Origin
from record_cases import run_of

from daemon import Daemon


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a case.

    `outcome` is right, wrong, or `not known`, if the answer is not known
    although the case has one.
    """

    name: str
    outcome: str
    answer: str
    right: tuple[str, ...]
    text: str


def answer_of(response: Any) -> Answer:
    """Returns the answer in a response, as the command prints it as JSON."""
    match response["result"]:
        case "NONE":
            return NONE
        case "NOT_KNOWN":
            return NOT_KNOWN
        case "FOUND":
            first = response["origins"][0]
            tensor = first["tensor"]
            return Origin(
                first["op"],
                first["kind"].lower(),
                int(tensor["token"]),
                int(tensor["rank"]),
            )
    raise ValueError(response["result"])


def is_right(answer: Answer, right: Answer) -> bool:
    if isinstance(answer, str) or isinstance(right, str):
        return answer == right
    return answer == right or (
        not right.kind and dataclasses.replace(answer, kind="") == right
    )


def judge(answer: Answer, case: Case) -> str:
    """Returns the outcome of an answer."""
    if any(is_right(answer, right) for right in case.answers):
        return "right"
    return "not known" if answer == NOT_KNOWN else "wrong"


def judge_all(daemon: Daemon, cases: Iterable[Case]) -> list[Outcome]:
    """Judges recorded cases."""
    outcomes = []
    for case in cases:
        where = ("--where", case.where) if case.where else ()
        words = ("run", "origin", run_of(case), *where)
        # The exit code reports what was found.
        printed = daemon.ctl("-o", "json", *words, expect=None)
        assert printed.stdout, (case.name, printed.stderr)
        answer = answer_of(json.loads(printed.stdout))
        outcomes.append(
            Outcome(
                case.name,
                judge(answer, case),
                str(answer),
                tuple(map(str, case.answers)),
                daemon.ctl(*words, expect=None).stdout,
            )
        )
    return outcomes


def totals(outcomes: Iterable[Outcome]) -> dict[str, int]:
    return dict(Counter(one.outcome for one in outcomes))
