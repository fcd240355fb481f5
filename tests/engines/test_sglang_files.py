"""Files that SGLang's own dumper writes, and its signatures."""

import ast
import importlib
import importlib.util
import json
import sys
import types
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import released
import torch
from engine_places import places
from msitd.engines.sglang import Dumper, DumperConfig, import_dumps, register

from daemon import ROOT, Daemon

# Modules of SGLang that the dumper imports, which need packages for
# accelerators.
AROUND = {
    "zmq": (),
    "sglang": (),
    "sglang.srt": (),
    "sglang.srt.managers": (),
    "sglang.srt.managers.io_struct": ("sock_recv", "sock_send", "wrap_as_pickle"),
    "sglang.srt.runtime_context": ("get_parallel", "get_server_args", "get_serving"),
    "sglang.srt.utils": ("get_device",),
}


def source(name: str = "debug_utils/dumper.py") -> Path:
    [path] = [
        file.locate()
        for file in metadata.files("sglang") or ()
        if str(file) == f"sglang/srt/{name}"
    ]
    return Path(path)


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the released dumper."""
    for name, names in AROUND.items():
        module = types.ModuleType(name)
        vars(module).update(dict.fromkeys(names))
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location("released_dumper", source())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "released_dumper", module)
    spec.loader.exec_module(module)
    yield module


def use(dumper: Any) -> None:
    """Dumps the tensors of a small model."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    for _ in range(2):
        dumper.set_ctx(phase="train")
        hidden = model[0](torch.ones(2, 4, dtype=torch.float32))
        dumper.dump("hidden", hidden, layer_id=0, dims="b h")
        dumper.dump("hidden", hidden.bfloat16(), layer_id=0)
        dumper.set_ctx(phase=None)
        dumper.dump("out", {"logits": model[1](hidden)})
        dumper.dump_model(model)
        dumper.step()


def test_their_files_equal_what_ours_records(
    theirs: Any, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{daemon.socket_dir}")
    options: dict[str, Any] = {"enable": True, "exp_name": "r"}
    options["enable_model_value"] = True
    use(theirs._Dumper(config=theirs.DumperConfig(dir=str(tmp_path), **options)))
    done = import_dumps(tmp_path / "r", "theirs")
    assert not done.left_out
    ours = Dumper(DumperConfig(**options))
    use(ours)
    ours.reset()
    assert places(daemon, "theirs") == places(daemon, "r")
    daemon.ctl("compare", "run", "theirs", "r")
    compared = daemon.ctl_json("compare", "get", "c-000001")
    assert int(compared["pass_count"]) == done.tensors == 14
    assert int(compared.get("fail_count", 0)) == 0


def test_the_golden_file_is_that_of_this_version() -> None:
    golden = json.loads((ROOT / "tests/golden/engines/sglang.json").read_text())
    found = released.signatures(source(), "_Dumper")
    public = {k: v for k, v in found.items() if not k.startswith("_")}
    assert golden["version"] == metadata.version("sglang")
    assert golden["dumper"] == public
    assert golden["fields"] == released.fields(source(), "DumperConfig")


def test_the_plugin_is_where_sglang_looks_and_its_runner_calls_the_dumper() -> None:
    names = ast.parse(source("plugins/__init__.py").read_text())
    [group] = [
        each.value.value
        for each in names.body
        if isinstance(each, ast.Assign)
        and isinstance(each.value, ast.Constant)
        and getattr(each.targets[0], "id", "") == "GENERAL_PLUGINS_GROUP"
    ]
    [entry] = metadata.entry_points(group=group, name="msitd")
    assert entry.load() is register
    calls = {
        each.attr
        for each in ast.walk(
            ast.parse(source("model_executor/model_runner.py").read_text())
        )
        if isinstance(each, ast.Attribute) and getattr(each.value, "id", "") == "dumper"
    }
    assert calls
    assert all(hasattr(Dumper, name) for name in calls)
    assert {"may_enable", "register_non_intrusive_dumper", "step"} <= calls
