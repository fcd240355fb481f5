"""msit llm dump and llm logitsdump: commands that run with the variables of a tool."""

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msit_command import log_of, msit

from daemon import BIN_DIR

# Writes its environment and exits with code 3.
CHILD = """
import json, os, sys
json.dump(dict(os.environ), open(sys.argv[1], "w"))
sys.exit(3)
"""


def library(path: Path, symbol: str) -> None:
    """Builds a shared library with one symbol."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(f"void {symbol}(void) {{}}\n")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", path, source], check=True, timeout=60
    )
    path.chmod(0o755)


@pytest.fixture
def toolkit(tmp_path: Path) -> dict[str, str]:
    """Stands in for CANN and ATB; returns the environment that names them."""
    probes = tmp_path / "cann/tools/ait_backend/dump"
    for abi in (0, 1):
        library(probes / f"libatb_probe_abi{abi}.so", f"probe{abi}")
    library(tmp_path / "atb/lib/libatb.so", "_ZN5Probe4SaveB5cxx11Ev")
    (tmp_path / "child.py").write_text(CHILD)
    return {
        "ASCEND_TOOLKIT_HOME": str(tmp_path / "cann"),
        "ATB_HOME_PATH": str(tmp_path / "atb"),
    }


def dump(folder: Path, given: dict[str, str], *words: str) -> dict[str, str]:
    """Runs `msit llm dump`; returns the environment of its child."""
    command = f"{sys.executable} child.py found.json"
    done = msit(
        folder,
        *("llm", "dump", "--exec", command, *words),
        expect=3,
        environment=given,
    )
    assert log_of(done.stderr)[-1][1:] == ("ERROR", "The command exited with 3")
    found = json.loads((folder / "found.json").read_text())
    return {str(k): str(v) for k, v in found.items()}


def test_child_has_what_the_flags_say(tmp_path: Path, toolkit: dict[str, str]) -> None:
    found = dump(tmp_path, toolkit)
    probes = tmp_path / "cann/tools/ait_backend/dump"
    assert found["LD_PRELOAD"] == str(probes / "libatb_probe_abi1.so")
    assert found["ATB_OUTPUT_DIR"] == f"{tmp_path}/"
    assert found["ATB_DUMP_TYPE"] == "tensor|model"
    assert "PYTHONHASHSEED" not in found and "ATB_SAVE_TENSOR_IDS" not in found

    # Variables in the environment are overridden, but other preloads are kept.
    other = {
        **toolkit,
        "LD_PRELOAD": str(probes / "libatb_probe_abi0.so"),
        "ATB_SAVE_TENSOR_IDS": "9",
        "ATB_SAVE_CHILD": "7",
    }
    (tmp_path / "c.json").write_text("{}")
    words = ("--type", "tensor", "stats", "-child", "False", "-sd", "-er", "1,3")
    more = ("-time", "0", "-stp", "1", "-opname", "Linear", "-o", "out", "-tiling")
    last = ("-device", "2", "-symlink", "-config", "c.json", "-l", "debug", "-seed")
    found = dump(tmp_path, other, *words, *more, *last)
    assert found["LD_PRELOAD"] == (
        f"{probes}/libatb_probe_abi1.so:{probes}/libatb_probe_abi0.so"
    )
    wanted = {
        "ATB_DUMP_TYPE": "tensor|stats",
        "ATB_SAVE_TENSOR_STATISTICS": "1",
        "ATB_SAVE_CHILD": "0",
        "ATB_SAVE_TENSOR": "2",
        "ATB_SAVE_TENSOR_RANGE": "1,3",
        "ATB_SAVE_TENSOR_TIME": "0",
        "ATB_SAVE_TENSOR_PART": "1",
        "ATB_SAVE_TENSOR_RUNNER": "linear",
        "ATB_OUTPUT_DIR": f"{tmp_path}/out/",
        "ATB_SAVE_TILING": "1",
        "ATB_DEVICE_ID": "2",
        "ATB_SAVE_SYMLINK": "1",
        "ATB_DUMP_CONFIG": f"{tmp_path}/c.json",
        "ATB_AIT_LOG_LEVEL": "0",
        "PYTHONHASHSEED": "2024",
        "LCCL_DETERMINISTIC": "1",
    }
    assert {name: found.get(name) for name in wanted} == wanted
    assert "ATB_SAVE_TENSOR_IDS" not in found
    assert dump(tmp_path, toolkit, "-seed", "5")["PYTHONHASHSEED"] == "5"
    assert dump(tmp_path, toolkit, "-seed=6", "-ids", "1_2")["PYTHONHASHSEED"] == "6"


def test_old_abi_has_the_other_probe(tmp_path: Path, toolkit: dict[str, str]) -> None:
    library(tmp_path / "atb/lib/libatb.so", "_ZN5Probe4SaveEv")
    assert dump(tmp_path, toolkit)["LD_PRELOAD"].endswith("_abi0.so")
    (tmp_path / "atb/lib/libatb.so").write_bytes(b"\x7fELF" + os.urandom(4000))
    assert dump(tmp_path, toolkit)["LD_PRELOAD"].endswith("_abi0.so")


def test_onnx_leaves_no_folder_of_its_own(
    tmp_path: Path, toolkit: dict[str, str]
) -> None:
    found = dump(tmp_path, toolkit, "--type", "onnx", "-o", "out")
    assert found["ATB_DUMP_TYPE"] == "onnx|model|op"
    folder = Path(found["ATB_DUMP_SUB_PROC_INFO_SAVE_PATH"])
    assert folder.parent == tmp_path / "out" and not folder.exists()


def test_what_is_missing_is_one_line(tmp_path: Path, toolkit: dict[str, str]) -> None:
    gone = {**toolkit, "ASCEND_TOOLKIT_HOME": str(tmp_path / "none")}
    no_atb = {**toolkit, "ATB_HOME_PATH": str(tmp_path / "none")}
    unset = {**toolkit, "ASCEND_TOOLKIT_HOME": ""}
    (tmp_path / "file").touch()
    for given, words, code, said in (
        (gone, ("--exec", "true"), 1, "the CANN toolkit is not in"),
        (unset, ("--exec", "true"), 1, "the CANN toolkit is not in"),
        (no_atb, ("--exec", "true"), 1, "ATB is not in"),
        (toolkit, ("--exec", "true", "-config", "none"), 1, "none: no such file"),
        (toolkit, ("--exec", "true $X"), 1, "--exec"),
        (toolkit, ("--exec", ""), 1, "the command is empty"),
        (toolkit, ("--exec", "no-such-program"), 1, "no-such-program"),
        (toolkit, (), 2, "--exec"),
        (toolkit, ("--exec", "true", "-time", "4"), 2, "--save-time"),
        (toolkit, ("--exec", "true", "-stp", "3"), 2, "--save-tensor-part"),
        (toolkit, ("--exec", "true", "-ids", "a"), 2, "--save-operation-ids"),
        (toolkit, ("--exec", "true", "-er", "1-2"), 2, "--execute-range"),
        (toolkit, ("--exec", "true", "--type", "x"), 2, "--type"),
        (toolkit, ("--exec", "true", "-child", "perhaps"), 2, "--save-operation-child"),
        (toolkit, ("--exec", "true", "-device", "-1"), 2, "--device-id"),
        (toolkit, ("--exec", "true", "-seed", "x"), 2, "--seed"),
    ):
        done = msit(tmp_path, "llm", "dd", *words, expect=code, environment=given)
        last = done.stderr.splitlines()[-1]
        assert last.startswith("msit: ") and said in last, last
    (tmp_path / "cann/tools/ait_backend/dump/libatb_probe_abi1.so").chmod(0o775)
    done = msit(
        tmp_path, *("llm", "dd", "--exec", "true"), expect=1, environment=toolkit
    )
    assert "it is writable for users other than its owner" in done.stderr


def test_child_ends_as_a_shell_says(tmp_path: Path, toolkit: dict[str, str]) -> None:
    verb = ("llm", "dump", "--exec")
    msit(tmp_path, *verb, "true", environment=toolkit)
    msit(tmp_path, *verb, "false", expect=1, environment=toolkit)
    (tmp_path / "kill.sh").write_text("kill -KILL $$\n")
    msit(tmp_path, *verb, "sh kill.sh", expect=137, environment=toolkit)


def test_signals_reach_the_child(tmp_path: Path, toolkit: dict[str, str]) -> None:
    (tmp_path / "wait.sh").write_text(
        "trap 'exit 9' TERM\necho ready\nwhile :; do sleep 0.05; done\n"
    )
    with subprocess.Popen(
        [BIN_DIR / "msit", "llm", "dump", "--exec", "sh wait.sh"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **toolkit},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 9


def logitsdump(folder: Path, keys: str, *words: str, expect: int = 0) -> str:
    """Runs `msit llm logitsdump` with a program called modeltest."""
    program = folder / "bin" / "modeltest"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!{sys.executable}\n{CHILD.replace('exit(3)', 'exit(0)')}")
    program.chmod(0o755)
    (folder / "bad.csv").write_text(keys)
    path = f"{program.parent}:{os.environ['PATH']}"
    verb = ("llm", "logitsdump", "-bcr", "bad.csv", "-e", "modeltest found.json")
    done = msit(folder, *verb, *words, expect=expect, environment={"PATH": path})
    return done.stderr


@pytest.mark.parametrize(
    ("keys", "cases"),
    [
        ("key,passed\n3,true\n11,false\n", [3, 11]),
        ("key\nHumanEval/4\nHumanEval/0\n", [4, 0]),
        ("a,key\n1,Go/7\n1,Python/2\n1,Go/1\n", [[], [7, 1], [], [], [2]]),
    ],
)
def test_bad_cases_are_a_list(tmp_path: Path, keys: str, cases: list[object]) -> None:
    log = log_of(logitsdump(tmp_path, keys, "-tr", "4"))
    assert "has successfully finished" in log[-1][2]
    found = json.loads((tmp_path / "found.json").read_text())
    assert ast.literal_eval(found["BAD_CASE_LIST"]) == cases
    assert found["LOGITS_DUMP_TOKEN_MAX_LENGTH"] == "4"
    assert found["BAD_CASE_LOGITS_DUMP"] == "True"


@pytest.mark.parametrize(
    ("keys", "words", "code", "said"),
    [
        ("key\n", (), 1, "no bad case"),
        ("other\n1\n", (), 1, "no column key"),
        ("key\n1\nHumanEval/1\n", (), 1, "does not match the first one"),
        ("key\nHumanEval/1\n1\n", (), 1, "does not match the first one"),
        ("key\nGo/1\nHumanEval/1\n", (), 1, "does not match the first one"),
        ("key\nRust/1\n", (), 1, "does not match the first one"),
        ("key\n-1\n", (), 1, "does not match the first one"),
        ("key\nGo/x\n", (), 1, "does not match the first one"),
        ("key\n1\n", ("-tr", "0"), 2, "--token-range"),
        ("key\n1\n", ("-e", "python x.py"), 1, "torchrun or modeltest"),
        ("key\n1\n", ("-bcr", "none.csv"), 1, "none.csv"),
        ("key\n1\n", ("-bcr", "none.txt"), 1, "does not end with .csv"),
    ],
)
def test_wrong_cases_are_refused(
    tmp_path: Path, keys: str, words: tuple[str, ...], code: int, said: str
) -> None:
    text = logitsdump(tmp_path, keys, *words, expect=code)
    last = text.splitlines()[-1]
    assert last.startswith("msit: ") and said in last
    assert not (tmp_path / "found.json").exists()
