"""msitd.probe: functions that a user adds or removes, and the entries written
for them.
"""

import csv
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msitd import probe
from msitd._core.api.targets import targets
from msitd.probe import debugger as debuggers
from msitd.probe.functions_file import FunctionsFile, functions_file, read_functions
from probe_models import entries
from torch.nn import functional

from daemon import ROOT

GROUPS = ("torch", "functional", "tensor", "vf", "distributed")


@pytest.fixture(autouse=True)
def place(user_place: Path) -> Iterator[Path]:
    """A daemon at its usual location, and no debugger of another test."""
    yield user_place
    debuggers.forget_all()
    probe.random_save_end()


def dump(text: str, folder: str = "dump", **keys: Any) -> set[str]:
    """Dumps some functions, including those named in a file. Returns the ops."""
    Path("support_wrap_ops.yaml").write_text(text)
    settings = {"dump_path": folder, "support_wrap_ops": "support_wrap_ops.yaml"}
    Path("config.json").write_text(json.dumps({**settings, **keys}))
    debugger = probe.PrecisionDebugger("config.json", level="L1")
    debugger.start()
    run()
    debugger.stop()
    debuggers.forget_all()
    return {name.rsplit(".", 2)[0] for name in entries(Path(folder) / "step0/rank")}


def run() -> None:
    x = torch.ones(2, 2)
    torch.exp(functional.gelu(x))
    torch.linalg.norm(x)
    torch.norm(x)
    torch.rms_norm(x, (2,))
    x.is_contiguous()


EXP = "torch: [exp]\n"


def test_functions_are_those_of_the_file() -> None:
    # Both are named Torch.norm, but only one of them is in the file.
    assert dump("torch:\n  - exp\n  - linalg.norm\n") == {"Torch.exp", "Torch.norm"}
    data = json.loads(Path("dump/step0/rank/dump.json").read_text())["data"]
    assert list(data) == ["Torch.exp.0.forward", "Torch.norm.0.forward"]


def test_functions_that_msprobe_does_not_know_can_be_added() -> None:
    assert dump(EXP) == {"Torch.exp"}
    assert dump("torch: [rms_norm]\ntensor: [is_contiguous]", "more") == {
        "Torch.rms_norm",
        "Tensor.is_contiguous",
    }
    assert torch.ones(1).is_contiguous()
    assert "is_contiguous" not in vars(torch.Tensor)


def test_the_risk_level_chooses_among_them() -> None:
    assert dump("torch: [exp, rms_norm]", risk_level="CORE") == set()
    added = dump("torch: [exp, rms_norm]", "more", risk_level="ALL")
    assert {"Torch.exp", "Torch.rms_norm"} <= added
    assert "Functional.gelu" not in added


def test_functions_of_a_program_stand_in_the_file_beside_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(str(place))
    (place / "of_user.py").write_text("def double(x):\n    return x * 2\n")
    (place / "custom_wrap_ops.yaml").write_text(
        "of_user: [double, triple]\nno_such.module: [f]\n"
    )
    import of_user  # type: ignore[import-not-found]

    original = of_user.double
    monkeypatch.setitem(globals(), "run", lambda: of_user.double(torch.ones(2)))
    assert dump(EXP) == {"of_user.double"}
    assert of_user.double is original
    assert "of_user.triple is not dumped: " in caplog.text
    assert "no_such.module.f is not dumped: " in caplog.text


@pytest.mark.parametrize("where", ["dump/api_dump", "hook_module"])
def test_the_file_of_an_installed_msprobe_is_found(
    where: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = place / "site/msprobe/pytorch" / where / "support_wrap_ops.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(EXP)
    monkeypatch.syspath_prepend(str(place / "site"))
    debugger = probe.PrecisionDebugger(dump_path="dump", level="L1")
    debugger.start()
    run()
    debugger.stop()
    assert list(entries(Path("dump/step0/rank"))) == ["Torch.exp.0.forward"]
    # A module that cannot be imported is reported, and ends no program.
    debuggers.forget_all()
    file.write_text("[")
    monkeypatch.syspath_prepend(str(place))
    assert functions_file(None) is None


def test_what_is_no_function_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert dump("torch: [exp, expp]\ntensor: [T]\ncolour: [red]\naten: [relu]\n") == {
        "Torch.exp"
    }
    assert "torch: there is no such function: expp" in caplog.text
    assert "tensor: there is no such function: T" in caplog.text
    assert "colour is no key that is known" in caplog.text
    assert "aten" not in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "[torch]",
        "torch: 3",
        "torch: [1]",
        "torch: ['a b']",
        "torch: {a: b}",
        "a: [",
        "a: &a [b]\nc: *a\n",
        "\0",
        "torch: [" * 5000,
        "# " + "x" * (1 << 20),
        "!!python/object/apply:os.system ['touch attacked']",
    ],
    ids=range(11),
)
def test_a_file_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"support_wrap_ops\.yaml"):
        dump(text)
    assert not Path("attacked").exists()


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"none\.yaml cannot be read"):
        functions_file("none.yaml")


def released() -> FunctionsFile:
    """Returns the functions of the release, according to our table."""
    names: dict[str, set[str]] = {group: set() for group in GROUPS}
    for line in (ROOT / "tests/golden/msprobe_names/functions.txt").read_text().split():
        group, _, name = line.partition(":")
        names[group].add(name)
    return FunctionsFile("x.yaml", {key: frozenset(of) for key, of in names.items()})


def test_the_file_as_released_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    known = targets(GROUPS)
    kept, added = released().change(known)
    assert set(map(place_of, kept)) == set(map(place_of, known))
    assert added == frozenset()
    assert not caplog.messages


def place_of(target: Any) -> tuple[int, str]:
    return id(target.owner), target.name


def test_lists_of_a_file_may_be_empty(place: Path) -> None:
    path = place / "support_wrap_ops.yaml"
    path.write_text("torch:\ntensor: []\nfunctional: relu\n")
    names = read_functions(str(path)).names
    assert names["functional"] == {"relu"}
    assert not names["torch"]
    assert "npu" not in names


def leaf_of(entry: str) -> dict[str, Any]:
    data = json.loads(Path("dump/step0/rank/dump.json").read_text())["data"]
    found: dict[str, Any] = data[entry]["output"][0]
    return found


@pytest.mark.parametrize("precision, has_norms", [("low", True), ("high", False)])
def test_with_high_precision_mean_and_norm_are_null(
    precision: str, has_norms: bool
) -> None:
    Path("config.json").write_text(
        json.dumps({"dump_path": "dump", "precision": precision})
    )
    debugger = probe.PrecisionDebugger("config.json")
    debugger.start()
    torch.exp(torch.ones(2, 3))
    torch.exp(torch.tensor(0.0))
    debugger.stop()
    plain, scalar = (leaf_of(f"Torch.exp.{number}.forward") for number in range(2))
    assert (plain["Max"] is None, plain["Min"] is None) == (False, False)
    assert (plain["Mean"] is not None) == has_norms
    assert (plain["Norm"] is not None) == has_norms
    # All four statistics equal the only element.
    assert (scalar["Mean"], scalar["Norm"]) == (1.0, 1.0)


def test_another_precision_is_refused() -> None:
    Path("config.json").write_text(json.dumps({"dump_path": "d", "precision": "best"}))
    with pytest.raises(ValueError, match="precision is 'best'"):
        probe.PrecisionDebugger("config.json")


def draws(folder: Path) -> list[list[str]]:
    (path,) = folder.iterdir()
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_where_random_numbers_are_drawn_is_written(place: Path) -> None:
    before = torch.rand, torch.Tensor.normal_, random.choice, np.random.rand
    probe.random_save("drawn")
    probe.random_save("drawn")
    torch.manual_seed(0)
    values = [torch.rand(3), torch.ones(3).normal_(), torch.rand(3)]
    random.choice([1])
    np.random.rand(2)
    head, *rows = draws(place / "drawn")
    assert head == ["api_name", "stack"]
    assert [row[0] for row in rows] == [
        "torch_random.rand.0",
        "tensor_random.normal_.0",
        "torch_random.rand.1",
        "python_random.choice.0",
        "numpy_random.rand.0",
    ]
    code = "values = [torch.rand(3), torch.ones(3).normal_(), torch.rand(3)]"
    assert rows[0][1].startswith(f"File {__file__}, line ")
    assert f"\n {code} \n" in rows[0][1]
    (file,) = (place / "drawn").iterdir()
    assert file.name.startswith(f"random_proc{os.getpid()}_20")
    # The numbers are the same, and nothing is left behind.
    probe.random_save_end()
    torch.manual_seed(0)
    again = [torch.rand(3), torch.ones(3).normal_(), torch.rand(3)]
    assert all(map(torch.equal, values, again))
    assert (torch.rand, torch.Tensor.normal_, random.choice, np.random.rand) == before
    assert len(draws(place / "drawn")) == len(rows) + 1


def test_a_disk_that_is_full_ends_no_program(
    place: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.random_save("drawn")
    write = os.write

    def full(file: int, data: bytes) -> int:
        if data.startswith(b"torch_random"):
            raise OSError(28, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(os, "write", full)
    assert torch.rand(2).shape == torch.rand(2).shape
    assert caplog.text.count("ends here: [Errno 28]") == 1


@pytest.mark.parametrize("bad", [3, "", None])
def test_a_folder_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="output_path"):
        probe.random_save(bad)


RANK = """
import torch, torch.distributed as dist
from msitd.probe import random_save
random_save("drawn")
torch.rand(1)
dist.init_process_group("gloo")
torch.rand(1)
dist.destroy_process_group()
"""


def test_each_rank_has_its_file(place: Path) -> None:
    (place / "rank.py").write_text(RANK)
    with_port = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*with_port, "--nproc-per-node=2", "rank.py"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    found = sorted(path.name.rpartition("_")[0] for path in Path("drawn").iterdir())
    assert found == ["random_rank0", "random_rank1"]
