"""A comparison passes with the tolerances that it says would pass."""

import random
import re

import numpy as np
import pytest
from chunk_bytes import Chunk, Record
from wire import write

from daemon import Daemon

ROUNDS = 25
METRICS = ("max_abs", "mean_abs", "rmse", "nl2", "rel", "cosine", "sqnr_db", "max_rel")
# A bound on its own line, as it is printed.
LINE = re.compile(
    r"^would pass with +(?:not )?(\w+)(?: [<>]=? |=)(\S+) \(now ", re.MULTILINE
)


@pytest.fixture
def runs(daemon: Daemon) -> Daemon:
    rng = np.random.default_rng(4)
    golden = [rng.standard_normal(100).astype(np.float32) for _ in range(6)]
    target = [g + np.float32(0.01) * rng.standard_normal(100) for g in golden]
    for run, arrays in (("g", golden), ("t", target)):
        records = [
            Record(f"op.{i}", a.astype(np.float32).tobytes(), (100,))
            for i, a in enumerate(arrays)
        ]
        write(daemon.channel(), run, [Chunk(run, records).pack()])
    return daemon


def compare(daemon: Daemon, tolerance: str) -> str:
    result = daemon.ctl(
        *("compare", "run", "g", "t", "--rows", "none", "--tol", tolerance),
        expect=None,
    )
    assert result.returncode in (0, 1), result.stderr
    return result.stdout


def test_the_bounds_that_are_printed_pass(runs: Daemon) -> None:
    rng = random.Random(9)
    failed = 0
    for _ in range(ROUNDS):
        metrics = rng.sample(METRICS, 3)
        bounds = {}
        terms = []
        for metric in metrics:
            above = metric in ("cosine", "sqnr_db")
            negated = rng.random() < 0.3
            operator = rng.choice((">", ">=") if above != negated else ("<", "<="))
            bounds[metric] = "%g" % (rng.uniform(0.9, 60) if above else 0.001)
            terms.append(
                ("not " if negated else "") + f"{metric} {operator} {{{metric}}}"
            )
        predicate = " and ".join(terms)
        text = compare(runs, predicate.format(**bounds))
        if "FAIL" not in text:
            continue
        failed += 1
        assert "no bound helps" not in text
        for metric, bound in LINE.findall(text):
            bounds[metric] = bound
        again = compare(runs, predicate.format(**bounds))
        assert "PASS" in again, (predicate, bounds, text, again)
    assert failed > ROUNDS // 2


@pytest.mark.parametrize("which", ["atol", "rtol"])
def test_one_of_the_tolerances_for_elements_will_do(runs: Daemon, which: str) -> None:
    bounds = {"rtol": "1e-3", "atol": "1e-5"}
    tolerance = "rtol={rtol} atol={atol}"
    printed = dict(LINE.findall(compare(runs, tolerance.format(**bounds))))
    assert set(printed) == {"rtol", "atol"}
    bounds[which] = printed[which]
    assert "PASS" in compare(runs, tolerance.format(**bounds))


def test_what_no_bound_cures_is_said(runs: Daemon) -> None:
    text = compare(runs, "nl2 <= 1e-4 and mismatch_count == 0")
    assert "would pass" not in text
    assert "needs at least    nl2 <= " in text
    assert "6 rows fail with any bounds, the first is row 0" in text
