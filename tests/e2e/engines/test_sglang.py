"""msitd.engines.sglang: dumps of a program, and files written by SGLang."""

import importlib
import json
import os
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from engine_places import places, signature, values
from engine_sglang import Decoder, Mode, batch_of
from msitd._core.daemon import face_client
from msitd.engines.sglang import Dumper, DumperConfig, import_dumps, plugin, recording
from msitd.engines.sglang.filters import Filter
from msitd.engines.sglang.model import rows_of
from torch import nn

from daemon import BIN_DIR, ROOT, Daemon

GOLDEN = json.loads((ROOT / "tests/golden/engines/sglang.json").read_text())
# Fields with other defaults than in SGLang, because files are written only on
# request.
OTHER_DEFAULTS = {"dir", "enable_output_console"}


@pytest.fixture(autouse=True)
def place(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A daemon at the default endpoint of clients."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{daemon.socket_dir}")
    monkeypatch.delenv("MSITD_RUN", raising=False)
    yield


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Returns a function that creates a dumper which records into the run `r`."""
    made: list[Dumper] = []

    def dumper(**fields: Any) -> Dumper:
        made.append(Dumper(DumperConfig(enable=True, exp_name="r", **fields)))
        return made[-1]

    yield dumper
    for each in made:
        each.reset()


def test_methods_and_switches_are_those_of_the_released_dumper() -> None:
    for name, parameters in GOLDEN["dumper"].items():
        member = vars(Dumper)[name]
        function = member.fget if isinstance(member, property) else member
        assert signature(function) == parameters, name
    ours = DumperConfig()
    for name, default in GOLDEN["fields"].items():
        if name.startswith("grafter_") or name in (
            "source_patcher_config",
            "collective_timeout",
            "include_parallel_rank_in_filename",
        ):
            assert not hasattr(ours, name)
        elif name not in OTHER_DEFAULTS:
            assert repr(getattr(ours, name)) == default.replace('"', "'"), name


def test_a_dump_is_an_op_with_its_tags(make: Any, daemon: Daemon) -> None:
    dumper = make()
    dumper.dump("embed", torch.ones(2))
    dumper.set_ctx(layer_id=3, phase="decode")
    dumper.dump("attn", lambda: torch.ones(2), dims="t h", kind="q")
    dumper.set_ctx(layer_id=None)
    dumper.step()
    for _ in range(2):
        dumper.dump("attn", (torch.zeros(1), torch.ones(1)))
    dumper.dump_dict("cfg", {"rids": ["a"], "n": torch.ones(1)})
    dumper.close()
    assert places(daemon) == [
        (0, 0, "embed", "output 0"),
        (0, 0, "attn___kind=q___layer_id=3___phase=decode", "output 0"),
        (1, 0, "attn___phase=decode", "output 0"),
        (1, 0, "attn___phase=decode", "output 1"),
        (1, 1, "attn___phase=decode", "output 0"),
        (1, 1, "attn___phase=decode", "output 1"),
        (1, 0, "cfg_n___phase=decode", "output 0"),
    ]
    assert "t h" in values(daemon)
    assert "a" in values(daemon)


def test_each_reset_begins_another_run(make: Any, daemon: Daemon) -> None:
    dumper = make()
    for number in range(3):
        for _ in range(number + 1):
            dumper.dump("x", torch.full((1,), number))
            dumper.step()
        dumper.reset()
    for number, run in enumerate(("r", "r-2", "r-3")):
        assert len(places(daemon, run)) == number + 1


def test_nothing_is_recorded_until_it_is_enabled(daemon: Daemon) -> None:
    dumper = Dumper(DumperConfig(exp_name="r"))
    dumper.dump("a", lambda: pytest.fail("it is not wanted"))
    dumper.step()
    assert not dumper.may_enable
    assert dumper.get_state()["step"] == 0
    assert daemon.ctl_json("run", "list").get("runs", []) == []
    dumper.configure(enable=True)
    dumper.dump("a", torch.ones(1))
    dumper.configure(enable=False)
    dumper.dump("b", torch.ones(1))
    dumper.close()
    assert [op for _, _, op, _ in places(daemon)] == ["a"]


def test_gradients_belong_to_the_call_and_the_step_of_their_dump(
    make: Any, daemon: Daemon
) -> None:
    dumper = make(enable_grad=True, enable_model_value=True, enable_model_grad=True)
    model = nn.Linear(2, 1, bias=False)
    first = model(torch.ones(1, 2))
    second = first * 2
    dumper.set_ctx(layer_id=0)
    dumper.dump("x", first)
    dumper.dump("x", second)
    dumper.set_ctx(layer_id=None)
    dumper.step()
    second.sum().backward()
    dumper.dump_model(model, step=7)
    dumper.close()
    found = places(daemon)
    assert sorted(found) == sorted(
        [
            (0, 0, "x___layer_id=0", "output 0"),
            (0, 1, "x___layer_id=0", "output 0"),
            (0, 0, "x___layer_id=0", "grad_output 0"),
            (0, 1, "x___layer_id=0", "grad_output 0"),
            (7, 0, "param__weight", "weight 0"),
            (7, 0, "param__weight", "grad_weight 0"),
        ]
    )
    rows = daemon.ctl_json(
        "tensor", "list", "--run", "r", "--io", "grad_output", "--limit", "0"
    )["tensors"]
    assert [row["summary"]["max"] for row in rows] == [2, 1]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("layer_id in [0, 2]", [0, 2]),
        ("layer_id is None", [None]),
        ("search('at+n', name) and not layer_id == 1", [0, 2, None]),
        ("layer_id is not None and 0 < layer_id <= 2", [1, 2]),
        ("match('x', name) or layer_id == -1", []),
    ],
)
def test_a_filter_chooses_by_tags(
    text: str, kept: list[Any], make: Any, daemon: Daemon
) -> None:
    dumper = make(filter=text)
    for layer in (0, 1, 2, None):
        dumper.set_ctx(layer_id=layer)
        dumper.dump("attn", torch.ones(1))
    dumper.close()
    if not kept:
        assert daemon.ctl_json("run", "list").get("runs", []) == []
        return
    ops = ["attn" if one is None else f"attn___layer_id={one}" for one in kept]
    assert [op for _, _, op, _ in places(daemon)] == ops


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch owned')",
        "name.__class__",
        "search('a', name, 0)",
        "[x for x in name]",
        "(lambda: 1)()",
        "open('owned', 'w')",
        "name[0]",
        "layer_id ==",
        "not " * 100 + "name",
        "(" * 3000 + ")" * 3000,
        "a" * 5000,
    ],
)
def test_a_filter_runs_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="filter"):
        Filter(text)
    with pytest.raises(ValueError, match="filter"):
        DumperConfig(filter=text)
    assert not Path("owned").exists()


def test_the_environment_has_the_switches(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = DumperConfig.from_env(
        {
            "DUMPER_ENABLE": "True",
            "DUMPER_FILTER": "layer_id == 0",
            "DUMPER_DIR": "d",
            "DUMPER_EXP_NAME": "e",
            "DUMPER_ENABLE_GRAD": "1",
            "DUMPER_ENABLE_VALUE": "0",
            "DUMPER_SERVER_PORT": "reuse",
            "DUMPER_NON_INTRUSIVE_MODE": "all",
            "DUMPER_GRAFTER_ENABLE": "1",
        }
    )
    assert config == DumperConfig(
        enable=True,
        filter="layer_id == 0",
        dir="d",
        exp_name="e",
        enable_grad=True,
        enable_value=False,
        server_port="reuse",
        non_intrusive_mode="all",
    )
    assert "DUMPER_GRAFTER_ENABLE has no effect here: msitd.inject" in caplog.text
    dumper = Dumper(DumperConfig(server_port="reuse"))
    assert dumper.may_enable
    with pytest.raises(ValueError, match="grafter_enable has no effect"):
        dumper.configure(grafter_enable=True)
    with pytest.raises(ValueError, match="colour is none of"):
        dumper.configure(colour=1)
    with pytest.raises(TypeError, match="enable: 'yes'"):
        dumper.configure(enable="yes")
    monkeypatch.setenv("DUMPER_FILTER", "name == 'x'")
    dumper.configure_default(filter="name == 'y'", enable_grad=True)
    state = dumper.get_state()["config"]
    assert (state["filter"], state["enable_grad"]) == (None, True)


def test_its_files_are_read_into_a_run_that_equals_the_recorded_one(
    make: Any, daemon: Daemon
) -> None:
    dumper = make(dir="dumps", enable_model_value=True)
    for step in range(3):
        dumper.dump("x", torch.full((2, 2), step, dtype=torch.bfloat16), layer_id=step)
        dumper.dump("x", torch.full((2,), 0.5), layer_id=step)
        dumper.step()
    dumper.dump("both", {"k": torch.ones(1), "v": torch.zeros(1)})
    dumper.dump_model(nn.Linear(2, 2))
    dumper.close()
    files = sorted(os.listdir("dumps/r"))
    assert files[0] == (
        "step=0___rank=0___dump_index=1___name=x___recompute_status=disabled"
        "___layer_id=0.pt"
    )
    assert set(torch.load(f"dumps/r/{files[0]}")) == {"value", "meta"}
    done = import_dumps("dumps/r", "files")
    assert (done.files, done.tensors, dict(done.left_out)) == (9, 10, {})
    assert places(daemon, "files") == places(daemon)
    daemon.ctl("compare", "run", "r", "files")
    compared = daemon.ctl_json("compare", "get", "c-000001")
    assert int(compared["pass_count"]) == 10
    assert compared.get("fail_count", "0") == "0"


@pytest.mark.parametrize(
    "name",
    ["", "n" * 3000, "../../owned", "a\0b", "lone\udce4", "a b*?[c]"],
    ids=["empty", "long", "path", "zero", "surrogate", "pattern"],
)
def test_no_name_stops_the_program_or_leaves_the_folder(
    name: str, make: Any, daemon: Daemon, tmp_path: Path
) -> None:
    dumper = make(dir="dumps")
    dumper.dump(name, torch.ones(1))
    dumper.dump("good", torch.ones(1))
    dumper.close()
    written = [path for path in tmp_path.rglob("*.pt") if "daemon-" not in str(path)]
    assert {path.parent for path in written} == {tmp_path / "dumps/r"}
    assert "good" in {op for _, _, op, _ in places(daemon)}


def test_whatever_is_dumped_is_recorded_or_counted(make: Any, daemon: Daemon) -> None:
    dumper = make(enable_grad=True)
    leaf = torch.ones(2, requires_grad=True)
    for name, value in {
        "object": object(),
        "generator": (i for i in range(3)),
        "meta": torch.ones(2, device="meta"),
        "sparse": torch.eye(2).to_sparse(),
        "leaf": leaf,
    }.items():
        dumper.dump(name, value)
    (leaf * 2).sum().backward()
    # These tags belong to the user, even if the recorder uses the same names.
    dumper.dump("tags", torch.ones(1), token=5, op="x", io="y", call=2)
    with torch.inference_mode():
        dumper.dump("inference", torch.ones(1))

    @torch.compile(backend="aot_eager")
    def compiled(x: torch.Tensor) -> torch.Tensor:
        dumper.dump("compiled", x * 2)
        return x + 1

    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == [2, 2]
    pid = os.fork()
    if pid == 0:
        dumper.dump("child", torch.ones(1))
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    dumper.close()
    found = places(daemon)
    assert (0, 0, "leaf", "grad_output 0") in found
    assert (0, 1, "compiled", "output 0") in found
    ops = {op for _, _, op, _ in found}
    assert {"tags___call=2___io=y___op=x___token=5", "inference", "sparse"} <= ops
    assert "child" not in ops
    assert any("meta" in value for value in values(daemon, kind="other"))


def test_threads_dump_at_once(make: Any, daemon: Daemon) -> None:
    dumper = make()

    def work(number: int) -> None:
        for _ in range(50):
            dumper.dump(f"x{number}", torch.ones(4))
            dumper.dump("all", torch.ones(1))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    dumper.close()
    found = places(daemon)
    assert len(found) == len(set(found)) == 400
    assert dumper.get_state()["dump_index"] == 400


def test_files_of_several_ranks_and_of_others_are_read_or_counted(
    daemon: Daemon,
) -> None:
    folder = Path("dumps")
    folder.mkdir()

    def write(name: str, value: Any) -> None:
        torch.save({"value": value, "meta": {"rank": 0}}, folder / f"{name}.pt")

    head = "step=0___rank={}___dump_index={}___name={}___recompute_status={}"
    hooks = "non_intrusive__"
    for rank in (0, 1):
        for index, name in enumerate(
            (
                f"{hooks}model.layers.0.mlp.inputs.0",
                f"{hooks}model.layers.0.mlp.output",
                f"{hooks}inputs.input_embeds",
                f"{hooks}output.next_token_logits",
                "grad__x",
                "param__fc.weight",
            ),
            start=1,
        ):
            write(head.format(rank, index, name, "disabled"), torch.ones(2) * rank)
    write(head.format(0, 10, "y", "original"), torch.ones(1))
    write(head.format(0, 11, "y", "recompute"), torch.ones(1))
    # An older file contains only the tensor.
    torch.save(torch.ones(3), folder / "step=1___rank=0___dump_index=12___name=z.pt")
    write(head.format(0, 13, "rids", "disabled"), ["a", "b"])
    write("step=x___rank=0___dump_index=1___name=q", torch.ones(1))
    write("step=0___rank=-1___dump_index=1___name=q", torch.ones(1))
    write("noname", torch.ones(1))
    (folder / "step=0___rank=0___dump_index=14___name=cut.pt").write_bytes(b"PK\3\4")
    done = import_dumps(folder, "r")
    assert done.files == 15
    assert sorted(done.left_out.values()) == [1, 1, 1, 2]
    assert done.left_out["its value is no tensor"] == 1
    found = places(daemon, "r", "--ranks", "1")
    assert sorted(found) == sorted(
        [
            (0, 0, "root.model.layers.0.mlp", "input 0"),
            (0, 0, "root.model.layers.0.mlp", "output 0"),
            (0, 0, "root", "input input_embeds"),
            (0, 0, "root", "output next_token_logits"),
            (0, 0, "x", "grad_output 0"),
            (0, 0, "param__fc.weight", "weight 0"),
        ]
    )
    ops = {op for _, _, op, _ in places(daemon, "r", "--ranks", "0")}
    assert {"y", "y___recompute_status=recompute", "z"} <= ops
    assert daemon.ctl_json("run", "get", "r")["world_size"] == 2


class Boom:
    """Leaves a file if pickle loads it."""

    def __reduce__(self) -> Any:
        return (open, ("owned", "w"))


def test_no_file_runs_anything(daemon: Daemon) -> None:
    Path("dumps").mkdir()
    name = (
        "dumps/step=0___rank=0___dump_index=1___name=x___recompute_status=disabled.pt"
    )
    torch.save({"value": torch.ones(2), "meta": {"tokenizer": Boom()}}, name)
    command = [sys.executable, "-m", "msitd.engines.sglang", "dumps", "--run", "r"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not Path("owned").exists()
    assert done.returncode in (0, 4), done.stderr
    Path("empty").mkdir()
    command[3:] = ["empty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "empty has no file of a dump" in done.stderr


def serve(model: Decoder, dumper: Dumper) -> list[torch.Tensor]:
    """Runs a prefill and two decodes, as SGLang's ModelRunner does."""
    if dumper.may_enable:
        dumper.apply_source_patches()
        dumper.register_non_intrusive_dumper(model)
    results = []
    for rids, lengths in ((["a", "b"], [3, 2]), (["b", "a"], None), (["a"], None)):
        batch = batch_of(rids, lengths)
        out = model.forward(batch.input_ids, batch.positions, forward_batch=batch)
        results.append(out.next_token_logits)
        if dumper.may_enable:
            dumper.step()
    return results


@pytest.mark.parametrize("mode", ["all", "core", "off"])
def test_hooks_record_batches_requests_and_modules(
    mode: str, make: Any, daemon: Daemon
) -> None:
    torch.manual_seed(0)
    model = Decoder()
    plain = serve(model, Dumper(DumperConfig()))
    dumper = make(non_intrusive_mode=mode)
    recorded = serve(model, dumper)
    dumper.reset()
    assert all(map(torch.equal, recorded, plain))
    assert "forward" not in vars(model)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    if mode == "off":
        assert daemon.ctl_json("run", "list").get("runs", []) == []
        return
    ops = [op for token, _, op, _ in places(daemon) if token == 1]
    core = ["input_ids", "positions", "seq_lens", "req_pool_indices"]
    modules = {"root", "root.embed", "root.layers.0", "root.layers.1"}
    assert set(ops) == {*core, *(modules if mode == "all" else ())}
    of_a = daemon.ctl_json("tensor", "list", "--run", "r", "--request", "a")
    assert {int(row.get("token", 0)) for row in of_a["tensors"]} == {0, 1, 2}
    of_b = daemon.ctl_json("tensor", "list", "--run", "r", "--request", "b")
    assert {int(row.get("token", 0)) for row in of_b["tensors"]} == {0, 1}


def test_rows_have_the_position_of_their_batch() -> None:
    def text(batch: Any) -> dict[str, str]:
        parts = rows_of(batch, batch.rids)
        return {id_: "" if part is None else part.text() for id_, part in parts.items()}

    prefill = batch_of(["a", "b"], [3, 2], [0, 7])
    assert text(prefill) == {"a": "0:3@0/5", "b": "3:5@7/5"}
    # Without the prefixes, the lengths of the sequences are known.
    assert text(batch_of(["a"], [3])) == {"a": "0:3@0/3"}
    decode = batch_of(["a", "b"], None)
    assert text(decode) == {"a": "0:1@8/2", "b": "1:2@8/2"}
    # The batch is padded, and its lengths are on the host.
    decode.input_ids = torch.arange(4)
    decode.seq_lens_cpu = torch.tensor([4, 5])
    assert text(decode) == {"a": "0:1@3/4", "b": "1:2@4/4"}
    drafts = batch_of(["a", "b"], None)
    drafts.forward_mode = Mode.TARGET_VERIFY
    assert text(drafts) == {"a": "", "b": ""}
    drafts.spec_info = SimpleNamespace(draft_token_num=3)
    assert text(drafts) == {"a": "", "b": ""}
    drafts.input_ids = torch.arange(6)
    assert text(drafts) == {"a": "0:3/6", "b": "3:6/6"}
    unknown = batch_of(["a"], None)
    unknown.forward_mode = Mode.EXTEND
    assert text(unknown) == {"a": ""}


def test_hooks_come_and_go_while_an_engine_runs(make: Any, daemon: Daemon) -> None:
    model = Decoder()
    dumper = make(non_intrusive_mode="all", server_port="reuse")
    dumper.configure(enable=False)
    serve(model, dumper)
    assert daemon.ctl_json("run", "list").get("runs", []) == []
    [answer] = dumper._http_manager.handle_request(method="get_state", body={})
    assert answer["config"]["enable"] is False
    dumper._http_manager.handle_request(
        method="configure",
        body={"enable": True, "filter": "layer_id == 1 or search('embed', name)"},
    )
    serve(model, dumper)
    dumper.reset()
    ops = {op for _, _, op, _ in places(daemon)}
    assert ops == {"root.embed", "root.layers.1"}


def test_the_plugin_puts_it_where_sglang_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = types.ModuleType("sglang.srt.debug_utils.dumper")
    runner = types.ModuleType("sglang.srt.model_executor.model_runner")
    other = types.ModuleType("sglang.other")
    theirs.dumper = runner.dumper = object()
    other.dumper = "another thing"
    for module in (theirs, runner, other):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(importlib, "import_module", lambda name: sys.modules[name])
    before = theirs.dumper
    plugin.register()
    assert theirs.dumper is before
    monkeypatch.setenv("MSITD_RUN", "r")
    plugin.register()
    assert theirs.dumper is runner.dumper is plugin.dumper
    assert other.dumper == "another thing"


def test_without_a_daemon_one_of_the_process_keeps_what_it_recorded(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    make: Any,
    tmp_path: Path,
) -> None:
    monkeypatch.delenv("MSITD_ENDPOINT")
    monkeypatch.setenv("PATH", f"{BIN_DIR}:{os.environ['PATH']}")
    monkeypatch.setattr(face_client, "why_no_daemon", lambda: "a test wants none")
    monkeypatch.setattr(recording, "_FOLDER", str(tmp_path / "out"))
    dumper = make()
    dumper.dump("x", torch.ones(2))
    dumper.close()
    assert "a test wants none" in caplog.text
    (store,) = Path("out").glob(".msitd-*/data")
    later = Daemon(tmp_path)
    later.data_dir = store.absolute()
    later.start()
    try:
        assert [op for _, _, op, _ in places(later)] == ["x"]
    finally:
        later.clean()
    # With files, the store is not needed.
    dumper.configure(dir="files")
    dumper.dump("x", torch.ones(2))
    dumper.close()
    assert [path.name for path in Path("files").iterdir()] == ["r"]
