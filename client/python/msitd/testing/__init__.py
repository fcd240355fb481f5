"""Tests that a model still computes what a golden run recorded.

    from msitd import testing

    testing.assert_runs_match("golden", "bf16")

With pytest, the fixture `msitd_golden` records a run and compares it with a golden
run that is stored in files next to the tests:

    def test_forward(msitd_golden):
        with msitd_golden() as client:
            msitd.register_hook(model, client)
            model(inputs)

`pytest --msitd-update-golden` writes these files, in `tests/golden_runs` or the
folder that `--msitd-golden` names.

Requires grpcio and protobuf: pip install 'msitd[query]'.
"""

from __future__ import annotations

from msitd.testing.golden_runs import GoldenRuns
from msitd.testing.matching import assert_comparison_passes, assert_runs_match

__all__ = ["GoldenRuns", "assert_comparison_passes", "assert_runs_match"]
