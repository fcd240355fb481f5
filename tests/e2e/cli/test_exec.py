"""msitctl exec: records and exit codes of commands that do not use msitd themselves."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from executing import (
    FORWARD,
    HEAD,
    execute,
    places,
    runs,
    script,
    state,
)

from daemon import BIN_DIR, ROOT, Daemon

pytestmark = pytest.mark.usefixtures("place")

OWN_FAILURE = 125

CANNOT_RUN = 126

NOT_FOUND = 127


def test_a_plain_script_is_recorded_from_its_first_call_on(daemon: Daemon) -> None:
    done = script(FORWARD * 2 + "print(out.sum().item())\n")
    assert float(done.stdout) > 0
    assert set(places(daemon)) == {
        (token, 0, op, place)
        for token in (0, 1)
        for op, place in (
            ("root", "input 0"),
            ("root", "input scale"),
            ("root.fc", "input 0"),
            ("root.fc", "output 0"),
            ("root", "output 0"),
        )
    }
    assert "sealed" in state(daemon).lower()
    assert "recorded r; to show it: msitctl run get r" in done.stderr


def test_a_loss_is_beside_the_model(daemon: Daemon) -> None:
    script(
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "loss_of = nn.MSELoss()\n"
        "for _ in range(2):\n"
        "    loss = loss_of(model(torch.ones(2, 4)), torch.zeros(2, 4))\n"
        "    loss.backward()\n"
        "    optimizer.step()\n",
        "--gradients",
    )
    found = places(daemon)
    assert {(token, op) for token, _, op, _ in found} == {
        (token, op) for token in (0, 1) for op in ("root", "root.fc", "MSELoss")
    }
    assert (1, 0, "root.fc", "grad_weight weight") in found


def test_models_that_are_loaded_one_by_one_have_names_of_their_own(
    daemon: Daemon,
) -> None:
    script(FORWARD + "other = Net()\n_ = other(out)\nthird = Net()\n_ = third(out)\n")
    assert {op for _, _, op, _ in places(daemon)} == {
        "root",
        "root.fc",
        "Net",
        "Net.fc",
        "Net.1",
        "Net.1.fc",
    }


@pytest.mark.parametrize(
    "flags, expected",
    [
        (("--ops", "*.fc"), {"root.fc"}),
        (("--level", "api"), {"Torch.relu", "Functional.linear", "Tensor.__mul__"}),
        (
            ("--level", "mix", "--ops", "root*", "--ops", "*relu"),
            {"root", "root.fc", "Torch.relu"},
        ),
        (("--weights", "--ops", "root.fc"), {"root.fc"}),
    ],
)
def test_flags_choose_what_is_recorded(
    flags: tuple[str, ...], expected: set[str], daemon: Daemon
) -> None:
    script(FORWARD, *flags)
    found = places(daemon)
    assert {op for _, _, op, _ in found} - {"Torch.ones", "Torch.full"} == expected
    has_weight = any(place.startswith("weight") for *_, place in found)
    assert has_weight == ("--weights" in flags)


def test_stacks_name_the_script(daemon: Daemon) -> None:
    script(FORWARD, "--stack", "caller")
    (tensor,) = daemon.ctl_json(
        "tensor", "list", "--run", "r", "--ops", "root.fc", "--io", "output"
    )["tensors"]
    got = daemon.ctl_json("tensor", "get", tensor["name"])
    assert "script.py:" in got["stack"]


@pytest.mark.parametrize(
    "end, code",
    [
        ("raise ValueError", 1),
        ("sys.exit(9)", 9),
        ("import time; time.sleep(0.2); os._exit(3)", 3),
        ("import time; time.sleep(0.2); os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("import time; time.sleep(0.2); os.abort()", 134),
    ],
)
def test_the_code_is_that_of_the_script_and_the_run_is_sealed(
    end: str, code: int, daemon: Daemon
) -> None:
    script(FORWARD + end, expect=code)
    assert (0, 0, "root.fc", "output 0") in places(daemon)
    assert "sealed" in state(daemon).lower()


def test_failures_of_exec_have_codes_of_their_own(place: Path) -> None:
    execute("no-such-program", expect=NOT_FOUND)
    (place / "file").write_text("x")
    execute("./file", expect=CANNOT_RUN)
    execute("true", expect=OWN_FAILURE, flags=("--map-path", "x"))
    execute("true", expect=OWN_FAILURE, flags=("--level", "deep"))
    execute(expect=OWN_FAILURE)
    done = subprocess.run(
        [BIN_DIR / "msitctl", "exec", "python", "train.py", "--lr", "3"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == OWN_FAILURE
    assert "arguments after -- are passed to the command" in done.stderr
    away = {**os.environ, "MSITCTL_ENDPOINT": "127.0.0.1:1"}
    execute("true", expect=OWN_FAILURE, env=away)


def test_arguments_reach_the_script_as_they_are(place: Path) -> None:
    text = "import sys; print(sys.argv[1:])"
    words = ["--run", "x", "", "a b", "--", "-h"]
    done = execute(sys.executable, "-c", text, *words)
    assert done.stdout.strip() == str(words)


def test_input_reaches_the_script() -> None:
    text = "import sys; print(sys.stdin.read())"
    assert execute(sys.executable, "-c", text, input="hello").stdout == "hello\n"


def test_what_calls_no_model_says_so(place: Path) -> None:
    done = execute(sys.executable, "-c", "import json")
    assert "nothing was recorded: no torch module was called" in done.stderr
    done = execute("true")
    assert "nothing was recorded: the command ran no Python" in done.stderr
    done = execute(sys.executable, "-I", "-c", "import json")
    assert "ignores PYTHONPATH" in done.stderr
    assert list(place.iterdir()) == []


def test_a_python_without_the_package_says_so(place: Path) -> None:
    text = "import sys; print(sys.version_info[0])"
    done = execute("/usr/bin/python3", "-S", "-c", text)
    # Without site, nothing runs before the program.
    assert "no Python" in done.stderr
    done = execute("/usr/bin/python3", "-c", text)
    assert done.stdout == "3\n"
    assert "/usr/bin/python3 has no package msitd" in done.stderr


def test_torch_is_not_imported_for_it() -> None:
    text = (
        "import sys; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    execute(sys.executable, "-c", text)


def test_a_script_may_ask_for_torch_before_it_imports_it(daemon: Daemon) -> None:
    script(
        FORWARD,
        head="import importlib.util\n"
        "spec = importlib.util.find_spec('torch')\n"
        "assert spec.loader.get_filename('torch') == spec.origin\n" + HEAD,
    )
    assert (0, 0, "root.fc", "output 0") in places(daemon)


def test_a_sitecustomize_of_the_user_runs_too(place: Path) -> None:
    (place / "site").mkdir()
    (place / "site/sitecustomize.py").write_text("import builtins; builtins.mine = 7")
    done = execute(
        sys.executable,
        "-c",
        "import sitecustomize; print(mine, sitecustomize.__file__)",
        env={**os.environ, "PYTHONPATH": str(place / "site")},
    )
    assert done.stdout.split() == ["7", str(place / "site/sitecustomize.py")]


def test_a_run_that_is_there_stays(daemon: Daemon) -> None:
    script(FORWARD)
    script(FORWARD)
    assert runs(daemon) == {"r", "r-2"}
    assert places(daemon) == places(daemon, "r-2")


def test_only_runs_of_the_command_are_sealed(daemon: Daemon) -> None:
    Path("waiting.py").write_text(
        HEAD + FORWARD + "print('ready', flush=True)\nsys.stdin.read()\n" + FORWARD
    )
    first = subprocess.Popen(
        [BIN_DIR / "msitctl", "exec", "--run", "r", "--", sys.executable, "waiting.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "ready\n"
    done = script(FORWARD)
    assert "recorded r-2;" in done.stderr
    assert "sealed" not in state(daemon, "r").lower()
    _, said = first.communicate("", timeout=60)
    assert said.startswith("msitctl exec: recorded r;")
    assert {token for token, *_ in places(daemon, "r")} == {0, 1}
    assert "sealed" in state(daemon, "r").lower()


def test_runs_have_any_name_that_the_daemon_takes(daemon: Daemon) -> None:
    name = "a/b\nc"
    Path("script.py").write_text(HEAD + FORWARD)
    execute(sys.executable, "script.py", flags=("--run", name))
    assert runs(daemon) == {name}
    done = execute("true", flags=("--run", "x" * 129), expect=OWN_FAILURE)
    assert "has 129 bytes; it must have 1 to 128 bytes of UTF-8" in done.stderr


def test_a_failure_to_record_is_not_said_to_be_the_scripts() -> None:
    done = script(FORWARD, head="import os\nos.environ['RANK'] = 'x'\n" + HEAD)
    assert "nothing more is recorded" in done.stderr
    assert "no torch module" not in done.stderr


def test_compiled_models_are_recorded(daemon: Daemon) -> None:
    script(
        "model = torch.compile(model, backend='aot_eager', fullgraph=True)\n"
        + FORWARD * 2
        + "import torch._dynamo.utils as utils\n"
        "assert utils.counters['graph_break'] == {}, utils.counters\n"
    )
    assert [place for place in places(daemon) if place[2] == "root.fc"] == [
        (token, 0, "root.fc", place)
        for token in (0, 1)
        for place in ("input 0", "output 0")
    ]


def test_a_script_for_msitd_has_its_own_run_alone(daemon: Daemon) -> None:
    done = script(
        "import msitd\n"
        "with msitd.Client() as client, msitd.register_hook(model, client):\n"
        "    model(torch.ones(2, 4))\n"
    )
    assert runs(daemon) == {"r"}
    assert done.stderr == ("msitctl exec: recorded r; to show it: msitctl run get r\n")


COMPILED = """
import copy, io, math
assert model(torch.ones(2, 4)).sum() != 0
torch.jit.script(model.fc)(torch.ones(2, 4))
traced = torch.jit.trace(Net(), torch.ones(2, 4))
traced(torch.ones(2, 4))
def make():
    def add(x): return x + 3
    @torch.jit.script
    def function(x): return torch.relu(add(x))
    return function(torch.ones(1))
assert make() == 4
copy.deepcopy(model)(torch.ones(2, 4))
torch.save(model, io.BytesIO())
class Equal(nn.Module):
    def __eq__(self, other): return True
    def forward(self, x): return x
Equal()(torch.ones(1))
model(torch.ones(2, 4))
"""


@pytest.mark.parametrize("level", ["module", "mix"])
def test_what_a_script_does_with_its_models_goes_on(level: str, daemon: Daemon) -> None:
    done = script(COMPILED, "--level", level)
    assert "no TopLevelTracedModule is recorded: it is compiled" in done.stderr
    assert (1, 0, "root.fc", "output 0") in places(daemon)


MSIT = """
from msit_llm import DumpConfig, register_hook
config = DumpConfig(dump_path="torch_dump", token_range=[0, 1])
register_hook(model, config)
with torch.no_grad():
    for _ in range(3):
        model(torch.ones(2, 4))
"""


def test_what_is_installed_by_such_a_name_is_hidden_and_said(place: Path) -> None:
    (place / "msprobe").mkdir()
    (place / "msprobe/__init__.py").write_text("raise AssertionError")
    (place / "script.py").write_text("import msprobe.pytorch\nimport msit_llm\n")
    done = execute(sys.executable, "script.py")
    assert done.stderr.splitlines()[:-1] == [
        f"msitctl exec: msprobe is that of msitd, not {place}/msprobe/__init__.py"
    ]


def test_a_script_for_msit_llm_runs_as_it_is(daemon: Daemon, place: Path) -> None:
    done = script(MSIT)
    (device,) = (place / "torch_dump").glob("msit_dump_*/torch_tensors/cpu_*")
    assert {path.name for path in (device / "1/root.fc").iterdir()} == {
        "input_0.pth",
        "output.pth",
    }
    # Its own run, and no other.
    assert runs(daemon) == {"r"}, done.stderr
    assert {token for token, *_ in places(daemon)} == {0, 1}


MSPROBE = """
import torch_npu
from msprobe.pytorch import PrecisionDebugger
torch.npu.set_device("npu:0")
model = model.to(torch.device("npu:0")).npu()
debugger = PrecisionDebugger("/config/config.json", model=model)
debugger.start()
x = torch.ones(2, 4, device="npu:0").npu()
loss = model(x).sum()
loss.backward()
debugger.stop()
debugger.step()
assert torch.npu.is_available()
"""


def test_a_script_for_msprobe_and_an_npu_runs_as_it_is(
    daemon: Daemon, place: Path
) -> None:
    (place / "here").mkdir()
    (place / "here/config.json").write_text(
        '{"task": "tensor", "level": "mix", "dump_path": "/no/such/dump"}'
    )
    maps = ("--map-path", "/config=here", "--map-path", "/no/such=.")
    script(MSPROBE, "--map-device", "npu=cpu", *maps)
    files = {
        path.name for path in (place / "dump/step0/rank/dump_tensor_data").iterdir()
    }
    assert "Module.fc.Linear.forward.0.input.0.pt" in files
    assert "Functional.linear.0.backward.input.0.pt" in files
    assert runs(daemon) == {"r"}


def test_without_a_daemon_there_is_one_whose_store_stays(
    place: Path, tmp_path: Path
) -> None:
    (place / "script.py").write_text(HEAD + FORWARD)
    store = tmp_path / "store"
    done = execute(
        sys.executable, "script.py", flags=("--run", "r", "--data-dir", str(store))
    )
    assert f"msitd --data-dir {store}" in done.stderr
    later = Daemon(tmp_path)
    later.data_dir = store
    later.start()
    try:
        assert (0, 0, "root.fc", "output 0") in places(later)
    finally:
        later.stop()


def test_a_store_of_an_earlier_command_stays(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MSITCTL_ENDPOINT")
    private = ("--run", "r", "--private")
    execute("true", flags=private)
    assert list(place.iterdir()) == []
    (place / "script.py").write_text(HEAD + FORWARD)
    done = execute(sys.executable, "script.py", flags=private)
    assert "to start it again: msitd --data-dir msitd-r" in done.stderr
    before = set((place / "msitd-r/segments").iterdir())
    assert before
    execute("true", flags=private)
    execute("no-such-program", expect=NOT_FOUND, flags=private)
    assert set((place / "msitd-r/segments").iterdir()) >= before


@pytest.mark.skipif(
    os.geteuid() != 0 or os.path.exists("/run/msitd"),
    reason="needs root, and no service",
)
def test_root_records_into_a_daemon_of_the_command(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MSITCTL_ENDPOINT")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    assert "MSITD_START is 0" in execute("true", expect=OWN_FAILURE).stderr
    monkeypatch.delenv("MSITD_START")
    (place / "script.py").write_text(HEAD + FORWARD)
    done = execute(sys.executable, "script.py")
    assert "no msitd runs on this machine; this command starts one" in done.stderr
    assert "which msitctl finds: MSITD_START=1" in done.stderr
    assert (place / "msitd-r/segments").is_dir()


def test_a_daemon_of_the_recording_side_is_found(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MSITCTL_ENDPOINT")
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{daemon.socket_dir}")
    script(FORWARD)
    assert runs(daemon) == {"r"}
    assert "sealed" in state(daemon).lower()


def test_a_script_may_open_a_client_of_its_own_behind_a_model(daemon: Daemon) -> None:
    script(
        FORWARD
        + "import msitd\n"
        + "with msitd.Client() as client:\n"
        + "    client.record(torch.ones(3), op='mine')\n"
        + FORWARD
    )
    found = {op for _, _, op, _ in places(daemon)}
    # From then on, the script controls what is recorded.
    assert {"root.fc", "mine"} <= found
    # Its client continues after the model's token.
    assert {(op, token) for token, _, op, _ in places(daemon)} >= {
        ("root.fc", 0),
        ("mine", 1),
    }
    assert "sealed" in state(daemon).lower()


def test_the_page_shows_what_happens(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    page = (ROOT / "docs/exec.md").read_text()
    blocks = re.findall(r"^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    for block in blocks:
        shown = ""
        lines = ["code=0"]
        for part in re.split(r"^(?=\$ )", block, flags=re.MULTILINE):
            if not part:
                continue
            command, _, output = part.removeprefix("$ ").partition("\n")
            if command.startswith("cat "):
                (place / command.removeprefix("cat ")).write_text(output)
                continue
            shown += part
            asked = command.replace("$?", "$code")
            lines += [f"echo {shlex.quote('$ ' + command)}", f"{asked}; code=$?"]
        done = subprocess.run(
            ["bash", "-c", "exec 2>&1\n" + "\n".join(lines)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        log = place / "log"
        assert done.stdout == shown, log.read_text() if log.exists() else ""
