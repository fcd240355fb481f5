"""Metrics of a comparison against numpy, through the real daemon."""

import math

import numpy as np
import pytest
from chunk_bytes import FLOAT32, FLOAT64, Chunk, Record
from wire import write

from daemon import Daemon

FAILED = 1
SETS = "ulp,shares,percentiles,pearson,bits,top-k,msit,msprobe"
BLOCK = 128


def expected(t: np.ndarray, g: np.ndarray) -> dict[str, float]:
    """The formulas of docs/metrics.md."""
    same_nonfinite = (t == g) | (np.isnan(t) & np.isnan(g))
    a, b = t.astype(np.float64), g.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    shares_of = len(a)
    with np.errstate(all="ignore"):
        ratio = np.abs(a - b) / np.abs(b)
    out = {
        "within_1_permille": np.sum(same_nonfinite | (finite & (ratio < 0.001)))
        / shares_of,
        "within_5_permille": np.sum(same_nonfinite | (finite & (ratio < 0.005)))
        / shares_of,
        "bitwise_mismatch_count": np.sum(
            t.view(f"u{t.itemsize}") != g.view(f"u{g.itemsize}")
        ),
        "nan_mismatch_count": np.sum(np.isnan(t) != np.isnan(g)),
    }
    a, b = a[finite], b[finite]
    if len(a) == 0:
        return out
    d = a - b
    squares = (a * a).sum() + (b * b).sum()
    out |= {
        "max_abs": np.abs(d).max(),
        "mean_abs": np.abs(d).mean(),
        "rmse": math.sqrt((d * d).mean()),
        "l2_distance": np.linalg.norm(d),
        "rel": 0 if squares == 0 else (d * d).sum() / squares,
    }
    if np.linalg.norm(b) > 0:
        out["nl2"] = np.linalg.norm(d) / np.linalg.norm(b)
    if a.std() > 0 and b.std() > 0:
        out["pearson"] = np.corrcoef(a, b)[0, 1]
    for percent in (50, 90, 95, 99):
        out[f"abs_p{percent}"] = np.percentile(
            np.abs(d), percent, method="inverted_cdf"
        )
    ordered = [
        np.where(v < 0, -(v & np.iinfo(v.dtype).max), v)
        for v in (x[finite].view(f"i{x.itemsize}") for x in (t, g))
    ]
    distance = np.abs(ordered[0].astype(np.float64) - ordered[1].astype(np.float64))
    out |= {"max_ulp": distance.max(), "mean_ulp": distance.mean()}
    return out


def pairs(dtype: type) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(7)
    g = rng.standard_normal(5 * BLOCK + 37).astype(dtype)
    noisy = g + (rng.standard_normal(g.shape) * 1e-3).astype(dtype)
    odd = noisy.copy()
    odd[[3, 200, 300]] = np.nan, np.inf, -np.inf
    golden_odd = g.copy()
    golden_odd[[3, 200, 400]] = np.nan, np.inf, np.nan
    zeros = np.zeros(50, dtype)
    return {
        "noisy": (noisy, g),
        "odd": (odd, golden_odd),
        "large": (noisy * dtype(1e18), g * dtype(1e18)),
        "tiny": (noisy * dtype(1e-20), g * dtype(1e-20)),
        "one": (np.array([2], dtype), np.array([3], dtype)),
        "golden zero": (np.ones(50, dtype), zeros),
        "target zero": (zeros, np.ones(50, dtype)),
        "minus zero": (-zeros, zeros),
        "all nan": (np.full(4, np.nan, dtype), np.full(4, 1, dtype)),
    }


@pytest.mark.parametrize(
    ("dtype", "number"), [(np.float32, FLOAT32), (np.float64, FLOAT64)]
)
def test_metrics_agree_with_numpy(daemon: Daemon, dtype: type, number: int) -> None:
    cases = pairs(dtype)
    for side, run in enumerate(("t", "g")):
        records = [
            Record(op, pair[side].tobytes(), pair[side].shape, number, sequence=i)
            for i, (op, pair) in enumerate(cases.items())
        ]
        write(daemon.channel(), run, [Chunk(run, records).pack()])
    daemon.ctl("compare", "run", "g", "t", "--metrics", SETS, expect=FAILED)
    rows = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    assert len(rows) == len(cases)
    for row in rows:
        got = {m["metric"]: float(m["value"]) for m in row["metrics"]}
        for name, value in expected(*cases[row["op"]]).items():
            assert name in got, (row["op"], name)
            # Percentiles are computed from a sketch with this relative error.
            tolerance = 1 / 128 if name.startswith("abs_p") else 1e-6
            assert got[name] == pytest.approx(value, rel=tolerance, abs=1e-300), (
                row["op"],
                name,
            )


def test_logits_agree_row_by_row(daemon: Daemon) -> None:
    rng = np.random.default_rng(8)
    g = rng.standard_normal((40, 1000)).astype(np.float32)
    t = g + rng.standard_normal(g.shape).astype(np.float32) * 0.2
    for run, array in (("t", t), ("g", g)):
        record = Record("lm_head", array.tobytes(), array.shape)
        write(daemon.channel(), run, [Chunk(run, [record]).pack()])
    daemon.ctl(
        *("compare", "run", "g", "t", "--top-k", "8"),
        *("--tol", "argmax_agreement >= 0.999 and top_k_overlap >= 0"),
        expect=FAILED,
    )
    (row,) = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    got = {m["metric"]: float(m["value"]) for m in row["metrics"]}
    assert got["argmax_agreement"] == np.mean(t.argmax(1) == g.argmax(1))
    top = [np.argsort(-x, 1)[:, :8] for x in (t, g)]
    shared = [len(set(a) & set(b)) / 8 for a, b in zip(*top, strict=True)]
    assert got["top_k_overlap"] == pytest.approx(np.mean(shared))
    wide = [x.astype(np.float64) for x in (t, g)]
    logs = [x - np.log(np.exp(x).sum(1, keepdims=True)) for x in wide]
    divergences = (np.exp(logs[1]) * (logs[1] - logs[0])).sum(1)
    assert got["row_kl_max"] == pytest.approx(divergences.max())
    rows, chosen = np.arange(len(g)), t.argmax(1)
    margins = (g.max(1) - g[rows, chosen]) / (g.max(1) - g.min(1))
    assert got["top1_margin_flip"] == pytest.approx(margins.max())
    (needed, _) = daemon.ctl_json("compare", "get", "c-000001")["required_tolerances"]
    assert needed["metric"] == "argmax_agreement"
    assert needed["required"] == got["argmax_agreement"]


def test_presets_and_rules_of_the_command_line(daemon: Daemon) -> None:
    g = np.linspace(1, 2, 100, dtype=np.float32)
    for run, array in (("g", g), ("t", g * np.float32(1.0001))):
        record = Record("layer.0", array.tobytes(), array.shape)
        write(daemon.channel(), run, [Chunk(run, [record]).pack()])
    run = ("compare", "run", "g", "t")
    for preset in ("torch", "polygraphy", "bitwise"):
        daemon.ctl(*run, "--preset", preset, expect=FAILED)
    for preset in ("sglang", "msit", "msprobe", "fp8"):
        daemon.ctl(*run, "--preset", preset)
    daemon.ctl(*run, "--preset", "torch", "--rule", "/layer\\.[0-9]/: @sglang")
    daemon.ctl(*run, "--tol", "rtol=1e-3")
    daemon.ctl(*run, "--tol", "rtol=1e-5 atol=1e-5", expect=FAILED)
    result = daemon.ctl(*run, "--preset", "touch", expect=2)
    assert "did you mean torch?" in result.stderr
    result = daemon.ctl(*run, "--rule", "/layer(/: nl2 < 1", expect=2)
    assert "--rule '/layer(/: nl2 < 1': missing )" in result.stderr


def spread(d: np.ndarray, g: np.ndarray, axis: int) -> tuple[float, int, float]:
    """Returns the worst nl2 along an axis, its position, and the lower median."""
    norms = np.linalg.norm(g, axis=axis)
    floor = 2.0**-20 * np.linalg.norm(g) / math.sqrt(norms.size)
    ratios = np.linalg.norm(d, axis=axis) / np.maximum(norms, floor)
    median = np.sort(ratios)[(ratios.size - 1) // 2]
    return ratios.max(), int(ratios.argmax()), median


def rows_and_channels() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(11)
    out = {}
    for shape in ((64, 300), (3, 5, 128), (700, 8), (50, 1), (9, 5000)):
        g = rng.standard_normal(shape).astype(np.float32)
        t = g + rng.standard_normal(shape).astype(np.float32) * np.float32(0.01)
        out[f"noise{shape}"] = (t, g)
        padded = g.copy()
        padded[-1] = 0
        out[f"padded{shape}"] = (t, padded)
        massive = g.copy()
        massive[..., -1] = 1e4
        wrong = massive.copy()
        wrong[..., :-1] = 0
        out[f"massive{shape}"] = (wrong, massive)
    return out


def test_rows_and_channels_agree_with_numpy(daemon: Daemon) -> None:
    cases = rows_and_channels()
    for side, run in enumerate(("t", "g")):
        records = [
            Record(op, pair[side].tobytes(), pair[side].shape, sequence=i)
            for i, (op, pair) in enumerate(cases.items())
        ]
        write(daemon.channel(), run, [Chunk(run, records).pack()])
    tolerance = "row_nl2_max <= 1e-9 and channel_nl2_max <= 1e-9"
    daemon.ctl("compare", "run", "g", "t", "--tol", tolerance, expect=FAILED)
    rows = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    assert len(rows) == len(cases)
    for row in rows:
        got = {m["metric"]: float(m["value"]) for m in row["metrics"]}
        t, g = (x.astype(np.float64) for x in cases[row["op"]])
        flat = (-1, g.shape[-1])
        d, g = (t - g).reshape(flat), g.reshape(flat)
        for name, axis in (("row", 1), ("channel", 0)):
            worst, place, median = spread(d, g, axis)
            assert got[f"{name}_nl2_max"] == pytest.approx(worst, rel=1e-5)
            assert got[f"{name}_nl2_p50"] == pytest.approx(median, rel=1e-5)
            if worst <= 1e-9:
                continue
            assert f"worst {name} " in row["reason"]
            if row["op"].startswith("noise") and t.ndim == 2:
                assert f"worst {name} {place}: " in row["reason"]


def test_rows_are_absent_of_one_row_and_of_samples(daemon: Daemon) -> None:
    g = np.arange(1, 1 + 4 * 1000, dtype=np.float32)
    arrays = {
        "vector": (g * 2, g),
        "matrix": ((g * 2).reshape(4, -1), g.reshape(4, -1)),
    }
    for side, run in enumerate(("t", "g")):
        records = [
            Record(op, pair[side].tobytes(), pair[side].shape, sequence=i)
            for i, (op, pair) in enumerate(arrays.items())
        ]
        write(daemon.channel(), run, [Chunk(run, records).pack()])

    def metrics(name: str, *flags: str) -> dict[str, dict[str, float]]:
        daemon.ctl("compare", "run", "g", "t", *flags, expect=FAILED)
        return {
            row["op"]: {m["metric"]: float(m["value"]) for m in row["metrics"]}
            for row in daemon.ctl_json("compare", "rows", name)["rows"]
        }

    whole = metrics("c-000001")
    assert whole["vector"]["row_nl2_max"] == whole["vector"]["nl2"] == 1
    assert "channel_nl2_max" not in whole["vector"]
    assert whole["matrix"]["row_nl2_max"] == pytest.approx(1)
    assert whole["matrix"]["channel_nl2_p50"] == pytest.approx(1)
    sampled = metrics("c-000002", "--read", "samples")
    for op in arrays:
        assert not [name for name in sampled[op] if name.startswith(("row_", "chan"))]
