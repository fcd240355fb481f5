"""`msitctl watch --keep FILE.py:FUNCTION`: a function selects what is kept of
tensors.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ge_dump
import numpy as np
import pytest

from daemon import BIN_DIR, Daemon

PARTIAL = 4
USAGE = 2
LOCAL = 3
WAIT_S = 120
FLOAT32 = 1
BFLOAT16 = 27

WatchOnce = Callable[..., dict[str, Any]]


@pytest.fixture
def watch(daemon: Daemon, tmp_path: Path) -> WatchOnce:
    """Returns a function that watches until all is idle, with `source` as keeps.py."""

    def run(root: Path, source: str, *flags: str, **options: Any) -> dict[str, Any]:
        file = tmp_path / "keeps.py"
        file.write_text(source)
        name = options.get("run", "r")
        command = [BIN_DIR / "msitctl", "-o", "json", "watch", root, "--run", name]
        command += ["--keep", f"{file}:keep", "--python", sys.executable]
        done = subprocess.run(
            [*command, "--until-idle", "500ms", *flags],
            env={**os.environ, "MSITCTL_ENDPOINT": f"unix:{daemon.socket_dir}"},
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == options.get("expect", 0), done
        result = json.loads(done.stdout) if done.stdout else {}
        return {**result, "stderr": done.stderr}

    return run


def save(root: Path, op: str, array: Any, time_us: int = 0) -> Path:
    """Writes an array as TorchAir's eager mode does."""
    folder = root / "1/graph_1"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{op}-aten.add.OUTPUT.0.{20250101000000000000 + time_us}.npy"
    np.save(path, array)
    return path


def indices(daemon: Daemon, run: str = "r") -> dict[tuple[str, str], dict[str, Any]]:
    listed = daemon.ctl_json("tensor", "list", "--run", run).get("tensors", [])
    return {(one["op"].split("-")[0], one["index"]): one for one in listed}


def derived(result: dict[str, Any]) -> int:
    return int(result["imported"]["derived_count"])


def test_array_that_is_returned_stands_for_the_tensor(
    daemon: Daemon, tmp_path: Path, watch: WatchOnce
) -> None:
    root = tmp_path / "fx"
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    paths = [save(root, "a", array), save(root, "b", array[0].astype(np.int16))]
    result = watch(
        root,
        "def keep(array, where):\n"
        "    assert where['io'] == 'output' and where['index'] == '0', where\n"
        "    assert where['token'] == 0 and where['call'] == 0, where\n"
        "    assert where['dtype'] == str(array.dtype), where\n"
        "    return array[..., ::2]\n",
        "--delete",
    )
    assert (derived(result), int(result["deleted_count"])) == (2, 2)
    assert not any(path.exists() for path in paths)
    found = indices(daemon)
    assert set(found) == {("a", "0~keep"), ("b", "0~keep")}
    assert found["a", "0~keep"]["shape"] == ["3", "2"]
    assert found["b", "0~keep"]["dtype"].endswith("INT16")


def test_dict_is_one_tensor_for_each_name(
    daemon: Daemon, tmp_path: Path, watch: WatchOnce
) -> None:
    root = tmp_path / "fx"
    save(root, "a", np.array([[1, 2], [3, 5]], np.float32))
    source = (
        "import numpy as np\n"
        "def keep(array, where):\n"
        "    return {'mean': array.mean(), 'count': array.size, 'no': None,\n"
        "            'is.big': True, 'z': 1j, 'empty': array[:0],\n"
        "            'big_endian': array.T.astype('>f4')}\n"
    )
    result = watch(root, source)
    assert derived(result) == 6
    found = indices(daemon)
    dtypes = {
        index: one["dtype"].removeprefix("D_TYPE_") for (_, index), one in found.items()
    }
    assert dtypes == {
        "0~mean": "FLOAT32",
        "0~count": "INT64",
        "0~is.big": "BOOL",
        "0~z": "COMPLEX128",
        "0~empty": "FLOAT32",
        "0~big_endian": "FLOAT32",
    }
    assert found["a", "0~mean"]["summary"]["max"] == 2.75
    assert found["a", "0~count"]["summary"]["max"] == 4
    assert found["a", "0~big_endian"]["shape"] == ["2", "2"]


def test_file_of_which_nothing_is_kept_may_go(
    daemon: Daemon, tmp_path: Path, watch: WatchOnce
) -> None:
    root = tmp_path / "fx"
    paths = [save(root, op, np.ones(4, np.float32)) for op in ("a", "b")]
    source = (
        "def keep(array, where):\n"
        "    return array if where['op'].startswith('a') else None\n"
    )
    result = watch(root, source)
    assert (derived(result), int(result["imported"]["unkept_count"])) == (1, 1)
    # Another watch finds both in the ledger.
    result = watch(root, source, "--delete")
    assert int(result["deleted_count"]) == 2
    assert int(result["imported"].get("file_count", 0)) == 0
    assert not any(path.exists() for path in paths)
    assert set(indices(daemon)) == {("a", "0~keep")}


# Actions of a function, and the messages that they cause.
FAILURES = (
    ("raise KeyError('nobody')", "KeyError: 'nobody'"),
    ("raise SystemExit(3)", "SystemExit: 3"),
    ("return 'text'", "of type str"),
    ("return [1, 2]", "of type list"),
    ("return {1: array}", "1 is not a name"),
    ("return {'a b': array}", "'a b' is not a name"),
    ("return {str(i): 0 for i in range(65)}", "65 arrays"),
    ("return np.array([None])", "array of object"),
    ("return np.array(['a'])", "array of str"),
    ("return 2**80", "array of object"),
    ("return np.zeros(1 << 20)", "too many bytes"),
    ("return np.ones(1 << 29)", "MemoryError"),
    ("os._exit(7)", "ended with status 7"),
    ("os.write(3, b'x' * 100); return array", "cannot be read"),
    ("os.write(3, forged(1 << 60)); return array", "an invalid array"),
    ("time.sleep(1000)", "no answer within 1s"),
)


def test_function_that_fails_costs_no_file(
    daemon: Daemon, tmp_path: Path, watch: WatchOnce
) -> None:
    root = tmp_path / "fx"
    source = (
        "import os, struct, time\nimport numpy as np\n"
        "def forged(size):\n"
        "    head = struct.pack('<4sIIdI', b'mpr1', 4, 0, 0.0, 1)\n"
        "    array = struct.pack('<64s16sIQ', b'a', b'float32', 1, size)\n"
        "    return head + array + struct.pack('<Q', size // 4)\n"
        "def keep(array, where):\n"
        "    op = where['op'].split('-')[0]\n"
    )
    bad = []
    for number, (body, _) in enumerate(FAILURES):
        source += f"    if op == 'bad{number}': {body}\n"
        bad.append(save(root, f"bad{number}", np.ones(4, np.float32)))
    good = save(root, "good", np.ones(4, np.float32))
    result = watch(
        root,
        source + "    return array\n",
        *("--delete", "--keep-timeout", "1s", "--keep-size-max", "1MB"),
        *("--keep-memory-max", "3GB"),
        expect=PARTIAL,
    )
    said = {
        line.split("fx/1/graph_1/")[1].split("-")[0]: line
        for line in result["stderr"].splitlines()
        if "fx/1/graph_1/" in line
    }
    for number, (_, why) in enumerate(FAILURES):
        assert why in said[f"bad{number}"]
    assert int(result["imported"]["underived_count"]) == len(FAILURES)
    assert int(result["imported"]["problem_count"]) == len(FAILURES)
    assert all(path.exists() for path in bad) and not good.exists()
    assert set(indices(daemon)) == {("good", "0~keep")}


def test_file_of_which_one_tensor_fails_stays(
    daemon: Daemon, tmp_path: Path, watch: WatchOnce
) -> None:
    folder = tmp_path / "worldsize1_global_rank0/20250101000000/0/graph_1/1/0"
    folder.mkdir(parents=True)
    raw = np.ones(4, np.float32).tobytes()
    tensor = ge_dump.Dumped(FLOAT32, ge_dump.ND, (4,), (4,), raw)
    path = folder / "Add.add.1.1.1735689600000000"
    ge_dump.write(path, [tensor], [tensor])
    source = (
        "def keep(array, where):\n"
        "    if where['io'] == 'output': raise ValueError('no')\n"
        "    return array\n"
    )
    # The second one finds it in the ledger.
    for code in (PARTIAL, 0):
        root = tmp_path / "worldsize1_global_rank0"
        watch(root, source, "--delete", expect=code)
        assert path.exists()
    assert [index for _, index in indices(daemon)] == ["0~keep"]


def test_function_that_never_answers_ends_the_watch(
    daemon: Daemon, tmp_path: Path, watch: WatchOnce
) -> None:
    root = tmp_path / "fx"
    paths = [save(root, f"op{i}", np.ones(2), i) for i in range(20)]
    source = "import os\ndef keep(array, where):\n    os._exit(1)\n"
    result = watch(root, source, "--delete", expect=LOCAL)
    assert "17 earlier interpreters ended or took too long" in result["stderr"]
    assert all(path.exists() for path in paths)
    # A function that works imports all of them.
    source = "def keep(array, where):\n    return array\n"
    result = watch(root, source, "--delete", run="other")
    assert int(result["deleted_count"]) == 20


def test_runs_of_one_function_compare_as_derived(
    daemon: Daemon, tmp_path: Path, watch: WatchOnce
) -> None:
    source = "def keep(array, where):\n    return {'norm': (array**2).sum()}\n"
    for run, value in (("golden", 1), ("same", 1), ("other", 2)):
        save(tmp_path / run, "a", np.full(4, value, np.float32))
        watch(tmp_path / run, source, run=run)
    exact = ("--tol", "max_abs < 1e-6", "--rows", "all")
    done = daemon.ctl("compare", "run", "golden", "same", *exact)
    assert "output/0~norm" in done.stdout
    assert "both runs have the tensors that keep of keeps.py" in done.stderr
    assert "derived from the recorded ones" in done.stderr
    daemon.ctl("compare", "run", "golden", "other", *exact, expect=1)
    # Another function counts as another configuration.
    save(tmp_path / "third", "a", np.ones(4, np.float32))
    watch(tmp_path / "third", source + "# changed\n", run="third")
    done = daemon.ctl("compare", "run", "golden", "third", expect=None)
    assert "different functions" in done.stderr


def test_run_has_what_one_function_keeps(
    daemon: Daemon, tmp_path: Path, watch: WatchOnce
) -> None:
    root = tmp_path / "fx"
    save(root, "a", np.ones(4, np.float32))
    source = "def keep(array, where):\n    return array\n"
    watch(root, source)
    daemon.ctl("run", "attachment", "r", "keep.json", "--out", str(tmp_path / "out"))
    assert json.loads((tmp_path / "out").read_text())["text"] == source
    refused = watch(root, source + "\n", expect=USAGE)
    assert "import into another run" in refused["stderr"]
    daemon.ctl("watch", str(root), "--run", "r", "--until-idle", "1s", expect=USAGE)
    daemon.ctl("run", "import", str(root), "--run", "full", "--keep-open")
    refused = watch(root, source, run="full", expect=USAGE)
    assert "imported without a function" in refused["stderr"]


def test_function_that_cannot_be_loaded_is_a_usage_error(
    daemon: Daemon, tmp_path: Path, watch: WatchOnce
) -> None:
    root = tmp_path / "fx"
    path = save(root, "a", np.ones(4, np.float32))
    for source, said in (
        ("def other(a, b): pass", "there is no keep in it"),
        ("def keep(a): pass", "does not take two arguments"),
        ("raise RuntimeError('at import')", "RuntimeError: at import"),
    ):
        result = watch(root, source, "--delete", expect=USAGE)
        assert said in result["stderr"]
    daemon.ctl("watch", str(root), "--run", "r", "--keep", "most", expect=USAGE)
    daemon.ctl("watch", str(root), "--run", "r", "--keep", "no.py:f", expect=USAGE)
    assert path.exists()


def test_bfloat16_comes_as_float32(
    daemon: Daemon, tmp_path: Path, watch: WatchOnce
) -> None:
    folder = tmp_path / "worldsize1_global_rank0/20250101000000/0/graph_1/1/0"
    folder.mkdir(parents=True)
    raw = (np.array([1.5, -2], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    tensor = ge_dump.Dumped(BFLOAT16, ge_dump.ND, (2, 1), (2, 1), raw.tobytes())
    ge_dump.write(folder / "Add.add.1.1.1735689600000000", [], [tensor])
    source = (
        "def keep(array, where):\n"
        "    assert where['dtype'] == 'bfloat16', where\n"
        "    assert array.shape == (2, 1) and array.dtype == 'float32', array\n"
        "    return array\n"
    )
    watch(tmp_path / "worldsize1_global_rank0", source)
    found = indices(daemon)
    assert [one["dtype"] for one in found.values()] == ["D_TYPE_FLOAT32"]
    assert next(iter(found.values()))["summary"]["min"] == -2
