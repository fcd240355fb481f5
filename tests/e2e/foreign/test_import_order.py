"""Imports detect whether their files state the order in which tensors were computed."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from chunk_bytes import Record
from exports import send

from daemon import Daemon

LAYERS = 12
NOT_KNOWN = "NOT_KNOWN"
INPUT = 1
OUTPUT = 2


def activations(*, is_bad: bool) -> dict[str, np.ndarray]:
    """Returns outputs of layers; with `is_bad`, the third one makes an error
    that grows.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 16)).astype(np.float32)
    out = {}
    for i in range(LAYERS):
        x = np.tanh(x @ rng.standard_normal((16, 16)).astype(np.float32)) + x
        if is_bad and i == 2:
            x = x * np.float32(1.02)
        out[f"layers.{i}"] = x.copy()
    return out


def record_model(daemon: Daemon, run: str, *, is_bad: bool) -> None:
    """Records a model of layers with one linear each, as hooks do."""
    values = activations(is_bad=is_bad)
    records = []

    def add(op: str, io: int, array: np.ndarray) -> None:
        records.append(Record(op, array.tobytes(), array.shape, dtype=12, io=io))

    x = np.ones((4, 16), np.float32)
    add("root", INPUT, x)
    for i in range(LAYERS):
        add(f"root.layers.{i}", INPUT, x)
        add(f"root.layers.{i}.fc", INPUT, x)
        x = values[f"layers.{i}"]
        add(f"root.layers.{i}.fc", OUTPUT, x)
        x = x + np.float32(1)
        add(f"root.layers.{i}", OUTPUT, x)
    add("root", OUTPUT, x)
    send(daemon, run, records)


def compare(daemon: Daemon, golden: str, target: str) -> dict[str, Any]:
    answer = daemon.ctl(
        "compare", "run", golden, target, "--match", "none", "-o", "json", expect=1
    )
    return json.loads(answer.stdout)["comparison"]


def pair(daemon: Daemon, folders: dict[str, Path], name: str, *flags: str) -> Any:
    """Imports two folders, and compares them."""
    for side, folder in folders.items():
        daemon.ctl("run", "import", str(folder), "--run", f"{name}-{side}", *flags)
    return compare(daemon, f"{name}-golden", f"{name}-target")


@pytest.fixture(scope="module")
def own_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("order"))
    daemon.start()
    try:
        record_model(daemon, "golden", is_bad=False)
        record_model(daemon, "target", is_bad=True)
        yield daemon
    finally:
        daemon.clean()


@pytest.mark.parametrize("kind", ["npy", "npz", "pt", "named"])
def test_files_have_no_order(own_daemon: Daemon, tmp_path: Path, kind: str) -> None:
    folders = {side: tmp_path / side for side in ("golden", "target")}
    for side, folder in folders.items():
        folder.mkdir()
        made = activations(is_bad=side == "target")
        if kind == "npz":
            # As a script writes it that lists its files.
            np.savez(folder / "acts.npz", **dict(sorted(made.items())))
        for op, array in made.items():
            if kind == "npy":
                np.save(folder / f"{op}.npy", array)
            elif kind == "pt":
                torch.save(torch.from_numpy(array), folder / f"{op}.pt")
            elif kind == "named":
                for rank in (0, 1):
                    np.save(folder / f"rank{rank}_step3_{op}.npy", array)
    found = pair(own_daemon, folders, kind)
    first = found["first_divergence"]
    assert first["op"].endswith("layers.2")
    if kind == "named":
        assert (first["op"], first["rank"], first["token"]) == ("layers.2", 0, "3")
        assert found["fail_count"] == "20"
    assert [maker["kind"] for maker in found["makers"]] == [NOT_KNOWN]
    assert found["makers"][0]["op"] == ""
    assert len(found["concurrent_divergences"]) == 8
    run = own_daemon.ctl_json("run", "get", f"{kind}-golden")
    assert run["labels"]["order"] == "unknown"

    text = own_daemon.ctl(
        "compare", "run", f"{kind}-golden", f"{kind}-target", expect=1
    ).stdout
    assert "among at least 9 failing tensors of token" in text
    assert "cause  " in text and "does not record in which order" in text
    # The user's flag takes precedence.
    found = pair(own_daemon, folders, f"{kind}-ordered", "--order", "names")
    assert found["first_divergence"]["op"].endswith("layers.2")
    assert found["makers"][0]["op"].endswith("layers.2")


@pytest.mark.parametrize("form", ["msit", "msprobe", "npy", "npz", "safetensors", "pt"])
def test_exports_keep_the_order(own_daemon: Daemon, tmp_path: Path, form: str) -> None:
    folders = {}
    for side in ("golden", "target"):
        written = tmp_path / f"written-{side}"
        own_daemon.ctl("run", "export", side, "--format", form, "--out", str(written))
        # New times, in the order of the folder.
        folders[side] = tmp_path / side
        shutil.copytree(written, folders[side], copy_function=shutil.copyfile)
    found = pair(own_daemon, folders, f"export-{form}")
    first = found["first_divergence"]
    assert "layers.2.fc" in first["op"]
    assert first["io"] == "IO_OUTPUT"
    assert [maker["op"] for maker in found["makers"]] == [first["op"]]
    assert found["makers"][0]["kind"] == "OP"
    if form not in ("msit", "msprobe"):
        # It equals the exported run.
        again = own_daemon.ctl("compare", "run", "golden", f"export-{form}-golden")
        assert "verdict           PASS" in again.stdout


def test_a_run_without_an_order_stays_one(own_daemon: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "flat"
    folder.mkdir()
    for op in ("b", "a"):
        np.save(folder / f"{op}.npy", np.ones(3, np.float32))
    own_daemon.ctl("run", "import", str(folder), "--run", "flat")
    for form in ("msit", "msprobe", "npy", "npz", "safetensors", "pt"):
        out = tmp_path / form
        own_daemon.ctl("run", "export", "flat", "--format", form, "--out", str(out))
        own_daemon.ctl("run", "import", str(out), "--run", f"flat-{form}")
        run = own_daemon.ctl_json("run", "get", f"flat-{form}")
        assert run["labels"].get("order") == "unknown", form


def test_what_is_left_out_is_counted(own_daemon: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "hidden"
    folder.mkdir()
    for name in ("a.npy", ".b.npy"):
        np.save(folder / name, np.ones(3))
    (folder / ".git").mkdir()
    done = own_daemon.ctl("run", "import", str(folder), "--run", "hidden")
    assert "2 left out" in done.stdout
    assert str(folder / ".b.npy") in done.stderr
    again = own_daemon.ctl_json("run", "import", str(folder), "--run", "hidden")
    assert again["left_out_count"] == "2"


def test_an_empty_run_does_not_claim_an_order(
    own_daemon: Daemon, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", np.ones(3))
    np.save(tmp_path / "b.npy", np.ones(3))
    own_daemon.ctl("run", "create", "made")
    refused = own_daemon.ctl("run", "import", str(tmp_path), "--run", "made", expect=2)
    assert "--label order=unknown" in refused.stderr
    own_daemon.ctl("run", "create", "made2", "--label", "order=unknown")
    own_daemon.ctl("run", "import", str(tmp_path), "--run", "made2")


def test_a_run_with_an_order_gets_no_files_without_one(
    own_daemon: Daemon, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / f"{name}.npy", np.ones(3))
    first = (str(tmp_path / "first"), "--run", "filled", "--keep-open")
    own_daemon.ctl("run", "import", *first, "--order", "names", "-o", "name")
    run = own_daemon.ctl_json("run", "get", "filled")
    assert run["labels"]["order"] == "recorded"
    second = ("run", "import", str(tmp_path / "second"), "--run", "filled")
    refused = own_daemon.ctl(*second, expect=2)
    assert "import into a new run" in refused.stderr
    own_daemon.ctl(*second, "--order", "names")


def test_files_of_a_run_without_the_label_have_no_order(
    own_daemon: Daemon, tmp_path: Path
) -> None:
    """Like a run of an import that did not support orders."""
    for side, value in (("g", 1.0), ("t", 2.0)):
        run = f"early-{side}"
        own_daemon.ctl("run", "create", run, "--label", "source=files")
        records = [
            Record(op, np.full(3, value, np.float32).tobytes(), [3], dtype=12)
            for op in ("a", "b")
        ]
        send(own_daemon, run, records)
    found = compare(own_daemon, "early-g", "early-t")
    assert [maker["kind"] for maker in found["makers"]] == [NOT_KNOWN]


def test_nothing_is_first_where_there_is_no_order(
    own_daemon: Daemon, tmp_path: Path
) -> None:
    made = {"golden": {"b": 1.0, "a": 1.0}, "target": {"b": np.nan, "a": 5.0}}
    for side, values in made.items():
        (tmp_path / side).mkdir()
        for op, value in values.items():
            np.save(tmp_path / side / f"{op}.npy", np.full(3, value, np.float32))
        folder = str(tmp_path / side)
        own_daemon.ctl("run", "import", folder, "--run", f"nan-{side}")
    words = ("compare", "run", "nan-golden", "nan-target", "--preset", "msprobe")
    text = own_daemon.ctl(*words, expect=1).stdout
    assert "first NaN or Inf  among those whose order is not known" in text
    (name,) = (
        line.split()[1].rstrip(":")
        for line in text.splitlines()
        if line.startswith("comparison")
    )
    advice = own_daemon.ctl("compare", "report", name, "--format", "advice").stdout
    assert "Suspect Nodes: NA" in advice
    assert "in which order" in advice
