"""Every benchmark still runs. Its figures mean nothing here."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BIN_DIR = Path(os.environ.get("MSITD_BIN_DIR", ROOT / "build/release/bin"))
TIMEOUT_S = 480

FIELDS = {
    "name": str,
    "figure": float,
    "unit": str,
    "better": str,
    "target": float,
    "value": float,
    "baseline": str,
    "baseline_value": float,
}
# Differences of two times, which may be negative on a busy machine.
DIFFERENCES = {
    "capture.off_hook_ns",
    "model.one_core",
    "model.step_vs_memcpy",
    "model.tensor_us",
    "model.vs_numpy_save",
    "model.vs_torch_save",
    "recover.seconds_per_gib",
}


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [
            sys.executable,
            HERE / "benchmarks.py",
            "--bin",
            BIN_DIR,
            "--tests",
            BIN_DIR.parent / "tests",
            "--scale",
            "smoke",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """Returns the results of all benchmarks."""
    file = tmp_path_factory.mktemp("bench") / "results.json"
    done = run("--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(file.read_text())


def test_every_benchmark_has_a_result_of_its_own(
    results: list[dict[str, object]],
) -> None:
    names = [result["name"] for result in results]
    assert len(set(names)) == len(names) > 20


def test_results_have_all_fields(results: list[dict[str, object]]) -> None:
    for result in results:
        assert result.keys() == FIELDS.keys(), result
        for name, kind in FIELDS.items():
            assert isinstance(result[name], (int, kind) if kind is float else kind)
        assert result["better"] in ("higher", "lower")


def test_figures_follow_from_what_was_measured(
    results: list[dict[str, object]],
) -> None:
    for result in results:
        figure, value = result["figure"], result["value"]
        baseline_value = result["baseline_value"]
        assert isinstance(figure, float) and isinstance(value, float)
        assert isinstance(baseline_value, float)
        assert math.isfinite(figure), result
        if result["name"] not in DIFFERENCES:
            assert value > 0, result
        if result["unit"] == "x":
            assert figure == pytest.approx(value / baseline_value), result
        else:
            assert figure == value, result


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    done = run("--json", str(tmp_path / "none"), "--only", "compare.no_such")
    assert done.returncode == 2
    assert "compare.no_such" in done.stderr
    assert not (tmp_path / "none").exists()
