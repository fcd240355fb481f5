"""msitctl batch: commands that arrive on stdin."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msitd._core.daemon.msitctl import Msitctl

from daemon import BIN_DIR, Daemon


def batch(
    daemon: Daemon, *lines: str, expect: int = 0
) -> tuple[list[dict[str, Any]], str]:
    """Returns the answers, and the messages of msitctl itself."""
    done = subprocess.run(
        [BIN_DIR / "msitctl", "batch"],
        input="".join(line + "\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "MSITCTL_ENDPOINT": daemon.endpoint},
    )
    assert done.returncode == expect, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_commands_answer_as_they_do_alone(daemon: Daemon) -> None:
    lines = [
        ["run", "create", "a"],
        ["run", "list", "-o", "name"],
        ["run", "get", "b"],
        ["run", "lst"],
        ["--version"],
        ["tensor", "list", "--help"],
        [],
    ]
    answers, said = batch(daemon, *map(json.dumps, lines))
    assert said == ""
    for words, answer in zip(lines[1:], answers[1:], strict=True):
        alone = daemon.ctl(*words, expect=answer["exit_code"])
        found = answer["exit_code"], answer["stdout"], answer["stderr"]
        assert found == (alone.returncode, alone.stdout, alone.stderr)
    assert answers[0]["exit_code"] == 0


@pytest.mark.parametrize("line", ["", "x", "{}", '"run"', "[1]", '["run"', "[" * 9999])
def test_a_line_that_is_none_ends_nothing(line: str, daemon: Daemon) -> None:
    answers, _ = batch(daemon, line, '["--version"]')
    assert answers[0]["exit_code"] == 2
    assert "the line is not a JSON array of strings" in answers[0]["stderr"]
    assert answers[1]["stdout"].startswith("msitctl ")


def test_a_line_without_an_end_is_bounded(daemon: Daemon) -> None:
    answers, said = batch(daemon, "[" + " " * (2 << 20), expect=3)
    assert answers == []
    assert "a line of stdin is longer than 1048576 bytes" in said


def test_commands_do_not_read_the_lines_of_others(daemon: Daemon) -> None:
    lines = ['["exec", "--", "cat"]', '["batch"]', '["--version"]']
    answers, _ = batch(daemon, *lines)
    assert [answer["exit_code"] for answer in answers] == [0, 0, 0]
    assert answers[2]["stdout"].startswith("msitctl ")


def test_what_is_no_text_is_shown_as_such(daemon: Daemon) -> None:
    (answer,) = batch(daemon, '["exec", "--", "printf", "\\\\377a"]')[0]
    assert answer["stdout"] == "\N{REPLACEMENT CHARACTER}a"


def test_a_command_that_prints_too_much_fails(daemon: Daemon) -> None:
    line = json.dumps(["exec", "--", "head", "-c", str(65 << 20), "/dev/zero"])
    answers, _ = batch(daemon, line, '["--version"]')
    assert answers[0]["exit_code"] != 0
    assert len(answers[0]["stdout"]) <= 64 << 20
    assert answers[1]["stdout"].startswith("msitctl ")


def test_a_signal_ends_it_while_it_waits(daemon: Daemon) -> None:
    process = subprocess.Popen(
        [BIN_DIR / "msitctl", "batch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "MSITCTL_ENDPOINT": daemon.endpoint},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'["run", "list"]\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["exit_code"] == 0
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130


@pytest.fixture
def msitctl(user_place: Path) -> Msitctl:
    """The class with which interfaces run commands."""
    return Msitctl(None)


def test_a_face_has_one_process_for_all_commands(
    msitctl: Msitctl, user_place: Path
) -> None:
    msitctl.run(["run", "create", "a"])
    process = msitctl._process
    assert msitctl.run(["run", "list", "-o", "name"]).text == "a\n"
    assert msitctl._process is process
    with pytest.raises(RuntimeError, match="no run b"):
        msitctl.run(["run", "get", "b"])
    # It uses the working directory of the program.
    other = user_place / "other"
    other.mkdir()
    os.chdir(other)
    msitctl.run(["run", "export", "a", "--format", "npy", "--out", "here"])
    assert (other / "here").is_dir()
    assert process is not None
    assert process.returncode == 0
    msitctl.close()
    assert msitctl._process is None
    assert msitctl.run(["run", "list", "-o", "name"]).text == "a\n"
    msitctl.close()


def test_a_process_that_was_killed_is_told_and_started_again(msitctl: Msitctl) -> None:
    msitctl.begin()
    assert msitctl._process is not None
    msitctl._process.kill()
    msitctl._process.wait()
    with pytest.raises(RuntimeError, match="msitctl has ended with -9"):
        msitctl.run(["run", "list"])
    assert msitctl.run(["run", "list", "-o", "name"]).text == ""
    msitctl.close()


def test_a_forked_child_does_not_hold_the_process(msitctl: Msitctl) -> None:
    msitctl.begin()
    process = msitctl._process
    assert process is not None
    assert process.stdin is not None
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(read, 1)
        os._exit(0 if msitctl._process is None else 1)
    # The child is still alive, but the process ends.
    process.stdin.close()
    assert process.wait(10) == 0
    os.write(write, b"x")
    assert os.waitpid(child, 0)[1] == 0
    msitctl._process = None
    for each in (read, write):
        os.close(each)
