"""Dumps of msprobe whose files arrive later, by an import or under a watch."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from watching import Watch, tensor_count, wait_for, wait_until_gone

from daemon import Daemon

PARTIAL = 4


def leaf(name: str, tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": list(tensor.shape),
        "Max": tensor.max().item(),
        "Min": tensor.min().item(),
        "Mean": tensor.mean().item(),
        "Norm": tensor.norm().item(),
        "requires_grad": False,
        "data_name": f"{name}.pt",
    }


class Step:
    """The folder of a step, with functions that have one tensor each."""

    def __init__(self, root: Path, step: int, count: int = 3) -> None:
        self.folder = root / f"step{step}/rank0"
        self.tensors = {
            f"Torch.exp.{call}.forward.output.0": torch.full((4,), 10.0 * step + call)
            for call in range(count)
        }

    def path(self, name: str) -> Path:
        return self.folder / "dump_tensor_data" / f"{name}.pt"

    def save(self, *names: str) -> None:
        self.path("x").parent.mkdir(parents=True, exist_ok=True)
        for name in names or self.tensors:
            torch.save(self.tensors[name], self.path(name))

    def write_json(self, count: int | None = None) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        data = {
            name.removesuffix(".output.0"): {
                "input_args": [{"type": "int", "value": 7}],
                "input_kwargs": {},
                "output": [leaf(name, tensor)],
            }
            for name, tensor in list(self.tensors.items())[:count]
        }
        whole = {"task": "tensor", "level": "L1", "framework": "pytorch"}
        whole |= {"dump_data_dir": "/gone", "data": data}
        (self.folder / "dump.json").write_text(json.dumps(whole, indent=1))
        (self.folder / "construct.json").write_text("{}")
        stacks = {"0": [list(data), ["File a.py, line 1, in f, \n f()"]]}
        (self.folder / "stack.json").write_text(json.dumps(stacks, indent=1))


def counters(daemon: Daemon, run: str) -> dict[str, int]:
    found = daemon.ctl_json("run", "get", run)["counters"]
    names = ("tensor_count", "statistics_count", "conflict_count")
    return {name: int(found.get(name, 0)) for name in names}


def state(daemon: Daemon, run: str) -> str:
    return str(daemon.ctl_json("run", "get", run)["state"])


def test_import_is_completed_once_the_files_exist(
    daemon: Daemon, tmp_path: Path
) -> None:
    step = Step(tmp_path / "d", 0)
    step.write_json()
    names = list(step.tensors)
    step.save(names[0])
    words = ("run", "import", str(tmp_path / "d"), "--run", "r")
    first = daemon.ctl(*words, expect=PARTIAL)
    assert "run r stays open" in first.stderr
    assert "--seal" in first.stderr
    assert state(daemon, "r") != "SEALED"
    assert counters(daemon, "r")["tensor_count"] == 1
    step.save()
    second = daemon.ctl_json(*words)
    assert int(second["problem_count"]) == 0
    assert counters(daemon, "r") == {
        "tensor_count": 3,
        "statistics_count": 0,
        "conflict_count": 0,
    }
    assert state(daemon, "r") == "SEALED"


def test_import_is_sealed_without_files_if_asked(
    daemon: Daemon, tmp_path: Path
) -> None:
    step = Step(tmp_path / "d", 0)
    step.write_json()
    step.save(next(iter(step.tensors)))
    words = ("run", "import", str(tmp_path / "d"), "--run", "r")
    daemon.ctl(*words, expect=PARTIAL)
    daemon.ctl(*words, "--seal", expect=PARTIAL)
    assert state(daemon, "r") == "SEALED"
    found = counters(daemon, "r")
    assert (found["tensor_count"], found["statistics_count"]) == (1, 2)


@pytest.mark.parametrize("source", ["msprobe", "msit"])
def test_watch_waits_for_a_tree(
    source: str, daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "d"
    root.mkdir()
    flags = ("--source", source, "--until-idle", "2s")
    watches.append(Watch(daemon, root, *flags))
    assert watches[0].end(stop=False)["imported"].get("file_count", 0) in (0, "0")


def test_files_before_their_list_are_no_problem(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "d"
    root.mkdir()
    watches.append(Watch(daemon, root, "--source", "msprobe", "--delete", "--seal"))
    steps = [Step(root, number) for number in range(3)]
    for step in steps:
        names = list(step.tensors)
        step.save(*names[:2])
        # The list is written twice, and names a file that arrives after it.
        step.write_json(1)
        wait_for(daemon, 3 * steps.index(step) + 1)
        step.write_json()
        wait_for(daemon, 3 * steps.index(step) + 2)
        step.save(names[2])
        wait_for(daemon, 3 * steps.index(step) + 3)
    wait_until_gone(*(steps[0].folder / name for name in ("dump.json", "stack.json")))
    result = watches[0].end()
    imported = result["imported"]
    assert int(imported.get("problem_count", 0)) == 0
    assert int(imported.get("conflict_count", 0)) == 0
    assert imported["sealed"]
    assert tensor_count(daemon) == 9
    assert [path for path in root.rglob("*") if path.is_file()] == []
    listed = daemon.ctl_json("tensor", "list", "--run", "r", "--kind", "document")
    documents = {(one.get("token", "0"), one["op"]) for one in listed["tensors"]}
    assert len(documents) == 9


def test_file_that_never_arrives_is_a_problem_at_the_end(
    daemon: Daemon, tmp_path: Path, watches: list[Watch]
) -> None:
    root = tmp_path / "d"
    step = Step(root, 0)
    names = list(step.tensors)
    step.save(*names[:2])
    step.write_json()
    watches.append(Watch(daemon, root, "--delete", "--seal", "--until-idle", "3s"))
    result = watches[0].end(stop=False, expect=PARTIAL)
    assert int(result["imported"]["problem_count"]) == 1
    assert "does not exist" in result["imported"]["problems"][0]["reason"]
    assert not result["imported"].get("sealed", False)
    assert (step.folder / "dump.json").exists()
    assert not step.path(names[0]).exists()
    step.save(names[2])
    watches.append(Watch(daemon, root, "--delete", "--seal", "--until-idle", "3s"))
    result = watches[1].end(stop=False)
    assert result["imported"]["sealed"]
    assert tensor_count(daemon) == 3
    assert counters(daemon, "r")["conflict_count"] == 0
    assert not (step.folder / "dump.json").exists()
