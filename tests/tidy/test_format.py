"""Formatters and linters report nothing."""

import subprocess
import sys
from pathlib import Path

from tree import ROOT, cpp_files, project_files, python_files

CLANG_FORMAT = "clang-format-14"


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_cpp_is_formatted() -> None:
    result = _run(CLANG_FORMAT, "--dry-run", "-Werror", *cpp_files())
    assert result.returncode == 0, result.stderr


def test_cpp_formatter_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "bad.cc"
    bad.write_text("int   x ;\n")
    style = f"--style=file:{ROOT}/.clang-format"
    assert _run(CLANG_FORMAT, style, "--dry-run", "-Werror", str(bad)).returncode != 0


def test_python_is_formatted() -> None:
    result = _run(sys.executable, "-m", "ruff", "format", "--check", *python_files())
    assert result.returncode == 0, result.stdout + result.stderr


def test_python_is_clean() -> None:
    result = _run(sys.executable, "-m", "ruff", "check", *python_files())
    assert result.returncode == 0, result.stdout + result.stderr


def test_shell_scripts_parse() -> None:
    for file in project_files():
        with open(ROOT / file, "rb") as f:
            is_bash = f.readline(80).startswith(
                (b"#!/bin/bash", b"#!/usr/bin/env bash")
            )
        if is_bash:
            result = _run("bash", "-n", file)
            assert result.returncode == 0, result.stderr
