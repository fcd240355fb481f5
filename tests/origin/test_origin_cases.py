"""All cases, and tests of the harness itself."""

from collections.abc import Iterator

import pytest
from case import CASES, NONE, NOT_KNOWN, Case, Origin
from judge_cases import judge, judge_all, totals
from record_cases import record_all

from daemon import Daemon

# The number of cases that may have no answer although they have one.
NOT_KNOWN_MAX = 1


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("daemon"))
    daemon.start()
    yield daemon
    daemon.clean()


def test_no_case_is_wrong_and_few_are_not_known(daemon: Daemon) -> None:
    record_all(daemon.endpoint, CASES.values())
    outcomes = judge_all(daemon, CASES.values())
    counts = totals(outcomes)
    missed = [one for one in outcomes if one.outcome != "right"]
    assert "wrong" not in counts, missed
    assert counts.get("not known", 0) <= NOT_KNOWN_MAX, missed


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 40
    answers = [answer for case in CASES.values() for answer in case.answers]
    assert answers.count(NONE) >= 4
    assert answers.count(NOT_KNOWN) >= 6


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Origin("root.1"), "right"),
        (Origin("root.1", "code"), "wrong"),
        (Origin("root.1", token=1), "wrong"),
        (Origin("root.1", rank=1), "wrong"),
        (Origin("root"), "wrong"),
        (NONE, "wrong"),
        (NOT_KNOWN, "not known"),
    ],
)
def test_an_answer_is_right_or_not(answer: Origin | str, outcome: str) -> None:
    case = Case("c", lambda _: None, (Origin("root.1"),))
    assert judge(answer, case) == outcome


def test_a_name_is_wrong_if_the_origin_cannot_be_known() -> None:
    case = Case("c", lambda _: None, (NOT_KNOWN,))
    assert judge(Origin("root.1"), case) == "wrong"
    assert judge(NOT_KNOWN, case) == "right"
