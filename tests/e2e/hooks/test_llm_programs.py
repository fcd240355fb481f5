"""msitd.llm: programs that dump, and what they meet: daemons, ranks, interrupts."""

import csv
import doctest
import os
import runpy
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from llm_dumps import (
    FOLDERS,
    Model,
    batches,
    dump,
    dump_place,  # noqa: F401
    files_of,
    folders_of,
    load,
    tokens_of,
)
from msit_command import msit
from msitd import llm, query
from msitd._core.daemon import face_client, msitctl, private_daemon
from msitd.llm import registration
from torch import nn
from torch.nn import functional

from daemon import ROOT, Daemon


def test_several_dumps_of_a_process_are_apart(place: Path) -> None:
    model, other = Model(), nn.Sequential(nn.Linear(4, 2))
    first = llm.register_hook(model, llm.DumpConfig(dump_path="a", token_range=[0, 1]))
    second = llm.register_hook(other, llm.DumpConfig(dump_path="a"))
    model(batches()[0])
    other(batches()[0])
    second.remove()
    model(batches()[1])
    first.remove()
    first.remove()
    model(batches()[2])
    found = {}
    for handle in (first, second):
        assert handle.folder is not None
        (found[handle],) = (Path(handle.folder) / "torch_tensors").iterdir()
    assert first.run != second.run
    assert tokens_of(found[first]) == {"0", "1"}
    assert folders_of(found[second]) == {"root", "root.0"}


def test_functions_of_two_handles_are_refused_and_leave_nothing(place: Path) -> None:
    model, other = Model(), nn.Linear(4, 2)
    config = llm.DumpConfig(mode="api")
    with llm.register_hook(model, config):
        before = set(place.iterdir())
        with pytest.raises(RuntimeError, match="recorded already"):
            llm.register_hook(other, config)
        assert set(place.iterdir()) == before
        assert not other._forward_hooks


def test_what_could_not_be_written_is_written_at_the_end(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model()
    config = llm.DumpConfig(token_range=[0, 1], dump_weight=True)
    with llm.register_hook(model, config) as handle:
        assert handle.folder is not None
        folder = Path(handle.folder)
        # No export can create its folder here.
        hidden = folder.rename(folder.with_name("hidden"))
        model(batches()[0])
        deadline = time.monotonic() + 20
        while "lacks something" not in caplog.text:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        hidden.rename(folder)
        model(batches()[1])
    (device,) = (folder / "torch_tensors").iterdir()
    assert tokens_of(device) == {"0", "1"}
    assert folders_of(device) == FOLDERS
    assert len(files_of(device / "weights")) == 4


def test_a_removed_handle_leaves_nothing_behind() -> None:
    model = Model()
    relu = functional.relu
    dump(model, mode=["module", "api"])
    assert functional.relu is relu
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_token_appears_while_the_model_runs() -> None:
    model = Model()
    with llm.register_hook(model, llm.DumpConfig(token_range=[0, 1])) as handle:
        model(batches()[0])
        assert handle.folder is not None
        tensors = Path(handle.folder) / "torch_tensors"
        deadline = time.monotonic() + 20
        while not list(tensors.glob("*/0/root/output_logits.pth")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert not list(tensors.glob("*/1"))


@pytest.mark.parametrize("mode", [["module"], ["api"], ["module", "api"]])
def test_a_compiled_model_is_dumped_as_it_is(mode: list[str]) -> None:
    model = Model()
    handle = llm.register_hook(model, llm.DumpConfig(mode=mode))
    torch.compile(model, backend="aot_eager", fullgraph=True)(batches()[0])
    handle.remove()
    assert handle.folder is not None
    (device,) = (Path(handle.folder) / "torch_tensors").iterdir()
    found = folders_of(device)
    assert found & FOLDERS == (FOLDERS if "module" in mode else set())
    # A graph does not show which of its modules is running.
    functions = {"linear", "linear.1", "linear.2", "relu", "softmax"}
    in_graph = {f"root.{name}" for name in functions} if "api" in mode else set()
    assert found - FOLDERS == in_graph


def test_a_part_that_is_compiled_keeps_its_names() -> None:
    model = Model()
    model.block = torch.compile(model.block, backend="aot_eager")  # type: ignore[assignment]
    device = dump(model, dump_weight=True)
    assert folders_of(device) == FOLDERS
    assert "root.block.fc.weight.pth" in files_of(device / "weights")


def test_the_run_and_an_import_of_the_folder_have_the_same_tensors(
    daemon: Daemon,
) -> None:
    model = Model()
    config = llm.DumpConfig(
        token_range=[0, 1], dump_weight=True, mode=["module", "api"]
    )
    with llm.register_hook(model, config) as handle:
        for batch in batches():
            model(batch)
    assert handle.folder is not None
    daemon.ctl("run", "import", handle.folder, "--run", "imported")
    with query.connect() as connection:
        recorded, imported = (
            {
                key_of(tensor): connection.tensors.read(tensor).tobytes()
                for tensor in connection.tensors.list(run)
            }
            for run in (handle.run, "imported")
        )
    assert len(recorded) > 40
    assert imported == recorded


def key_of(tensor: query.Tensor) -> tuple[object, ...]:
    """Returns the identity of a tensor, independent of the way it was recorded."""
    op, call = tensor.op, tensor.call
    # A folder does not distinguish the second call of an op from another op.
    if call > 0:
        op, call = f"{op}.{call}", 0
    return tensor.token, op, call, tensor.io, tensor.index


def test_msit_compares_two_dumps(place: Path) -> None:
    torch.manual_seed(0)
    model = Model()
    golden = dump(model, dump_path="golden")
    with torch.no_grad():
        model.head.weight[0] *= 2
    mine = dump(model, dump_path="mine")
    msit(
        place,
        *("llm", "compare", "-gp", str(golden / "0"), "-mp", str(mine / "0")),
        *("-o", str(place / "report"), "-cl", "logits"),
    )
    (report,) = (place / "report").glob("*.csv")
    rows = list(csv.DictReader(report.read_text().splitlines()))
    wrong = {
        Path(row["golden_data_path"]).parent.name
        for row in rows
        if row["max_absolute_error"] not in ("0", "0.0", "")
    }
    assert len(rows) > 2
    assert wrong == {"root", "root.head"}


_RANK = """
import sys
import torch
from msitd.llm import DumpConfig, register_hook

torch.manual_seed(int(sys.argv[1]))
model = torch.nn.Linear(4, 4)
register_hook(model, DumpConfig("ranks", [0, 1], True))
for _ in range(2):
    model(torch.ones(1, 4))
"""


def test_ranks_share_a_folder_and_a_run(daemon: Daemon, place: Path) -> None:
    (place / "rank.py").write_text(_RANK)
    ranks = [
        subprocess.Popen(
            [sys.executable, "rank.py", str(rank)],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]
    assert [rank.wait(100) for rank in ranks] == [0, 0]
    (folder,) = (place / "ranks").iterdir()
    devices = {path.name: path for path in (folder / "torch_tensors").iterdir()}
    assert set(devices) == {f"cpu_{rank.pid}" for rank in ranks}
    for device in devices.values():
        assert tokens_of(device) == {"0", "1"}
        assert (device / "model_tree.json").exists()
    lines = (folder / "tensor_analyze.csv").read_text().splitlines()
    # A header, and one input and one output of each token and rank.
    assert len(lines) == 1 + 2 * 2 * 2
    with query.connect() as connection:
        (run,) = connection.runs.list()
        assert run.name == folder.name
        assert {t.rank for t in connection.tensors.list(folder.name)} == {0, 1}


_ENDLESS = """
import time
import torch
from msitd.llm import DumpConfig, register_hook

model = torch.nn.Linear(4, 4)
register_hook(model, DumpConfig("dump", [0, 1, 2]))
for number in range(10**9):
    model(torch.ones(1, 4))
    print(number, flush=True)
    if number == 1:
        time.sleep(1000)
"""


def test_ctrl_c_leaves_all_that_ran_by_then(place: Path) -> None:
    (place / "endless.py").write_text(_ENDLESS)
    program = subprocess.Popen(
        [sys.executable, "endless.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert program.stdout is not None
    while program.stdout.readline() != "1\n":
        assert program.poll() is None
    # Like a terminal, which signals all processes that the program has started.
    os.killpg(program.pid, signal.SIGINT)
    _, said = program.communicate(timeout=100)
    assert program.returncode != 0
    assert "KeyboardInterrupt" in said
    assert "lacks" not in said
    (device,) = (place / "dump").glob("msit_dump_*/torch_tensors/cpu_*")
    assert tokens_of(device) == {"0", "1"}
    for token in (0, 1):
        files = files_of(device / str(token) / "root")
        assert files == {"input_0.pth", "output.pth"}


def test_without_a_daemon_one_is_started_and_ends(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv("MSITD_ENDPOINT")
    monkeypatch.delenv("MSITCTL_ENDPOINT")
    monkeypatch.setattr(face_client, "why_no_daemon", lambda: "a test wants none")
    started = []

    class Noted(private_daemon.PrivateDaemon):
        def __init__(self, folder: str) -> None:
            super().__init__(folder)
            started.append(self._process)

    monkeypatch.setattr(face_client, "PrivateDaemon", Noted)
    device = dump()
    assert folders_of(device) == FOLDERS
    assert "a test wants none" in caplog.text
    (process,) = started
    assert process is not None
    assert process.returncode is not None
    assert [path.name for path in place.iterdir()] == [device.parents[1].name]


def test_what_cannot_be_written_stays_in_the_store(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv("MSITD_ENDPOINT")
    monkeypatch.delenv("MSITCTL_ENDPOINT")
    monkeypatch.setattr(face_client, "why_no_daemon", lambda: "a test wants none")
    monkeypatch.setattr(msitctl, "find_program", lambda _: "/bin/false")
    model = Model()
    with llm.register_hook(model, llm.DumpConfig()) as handle:
        model(torch.ones(2, 4))
    (store,) = place.glob(".msitd-*/data")
    assert f"--data-dir {store}" in caplog.text
    later = Daemon(tmp_path)
    later.data_dir = store
    later.start()
    try:
        assert handle.run is not None
        listed = later.ctl("tensor", "list", handle.run, "-o", "name").stdout
        assert "root.head" in listed
    finally:
        later.clean()


def test_a_missing_program_is_named_before_anything_is_hooked(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(place))
    model = Model()
    with pytest.raises(FileNotFoundError, match="there is no msitctl"):
        llm.register_hook(model, llm.DumpConfig())
    assert not any(m._forward_hooks for m in model.modules())
    assert not list(place.iterdir())


_SCRIPT = """
import torch
from transformers import AutoTokenizer, LlamaForCausalLM
from msitd.llm import DumpConfig, register_hook

config = DumpConfig(dump_path="./torch_dump/", token_range=[0, 1, 2, 3], seed=2345)
tokenizer = AutoTokenizer.from_pretrained("weights", trust_remote_code=True)
model = LlamaForCausalLM.from_pretrained("weights", trust_remote_code=True).to("cpu")

if __name__ == "__main__":
    register_hook(model, config)
    with torch.no_grad():
        inputs = tokenizer("What is it?", return_tensors="pt").to("cpu")
        model.generate(**inputs, do_sample=False, max_new_tokens=10)
"""


class Tokens(dict[str, torch.Tensor]):
    """The output of a tokenizer."""

    def to(self, _device: str) -> "Tokens":
        return self


class Llama(nn.Module):
    """A minimal language model with the names of a large one."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.ModuleDict({"embed_tokens": nn.Embedding(11, 4)})
        self.lm_head = nn.Linear(4, 11)

    @classmethod
    def from_pretrained(cls, _path: str, **_: object) -> "Llama":
        return cls()

    def forward(self, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.lm_head(self.model["embed_tokens"](input_ids))}

    def generate(
        self, input_ids: torch.Tensor, do_sample: bool, max_new_tokens: int
    ) -> torch.Tensor:
        assert not do_sample
        for _ in range(max_new_tokens):
            last = self(input_ids=input_ids)["logits"][:, -1].argmax(-1, keepdim=True)
            input_ids = torch.cat([input_ids, last], dim=1)
        return input_ids


class Tokenizer:
    """Returns the same tokens for every text."""

    @classmethod
    def from_pretrained(cls, _path: str, **_: object) -> "Tokenizer":
        return cls()

    def __call__(self, _text: str, return_tensors: str) -> Tokens:
        assert return_tensors == "pt"
        return Tokens(input_ids=torch.tensor([[1, 2, 3]]))


def test_a_script_of_msit_runs_with_another_import(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library: Any = types.ModuleType("transformers")
    library.AutoTokenizer, library.LlamaForCausalLM = Tokenizer, Llama
    monkeypatch.setitem(sys.modules, "transformers", library)
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(registration.atexit, "register", at_exit.append)
    (place / "script.py").write_text(_SCRIPT)
    runpy.run_path("script.py", run_name="__main__")
    # Libraries may register functions of their own.
    (end,) = [each for each in at_exit if each.__module__.startswith("msitd.")]
    end()
    (device,) = (place / "torch_dump").glob("msit_dump_*/torch_tensors/cpu_*")
    assert tokens_of(device) == {"0", "1", "2", "3"}
    assert folders_of(device, 3) == {"root", "root.model.embed_tokens", "root.lm_head"}
    # The prompt of three tokens, and one more with each forward.
    logits = load(device / "3/root.lm_head/output.pth")
    assert logits.shape == (1, 6, 11)


def test_every_line_of_the_page_prints_what_it_says() -> None:
    page = ROOT / "docs" / "llm.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 15
    assert result.failed == 0
