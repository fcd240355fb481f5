"""The sources and the findings of clang-tidy are read correctly."""

import json
import re
from pathlib import Path

import clang_tidy
from tree import project_files, read

OUTPUT = """\
/a/x.h:3:1: error: use nullptr [modernize-use-nullptr,-warnings-as-errors]
  int* a = 0;
           ^
/a/x.h:2:1: note: declared here
/a/x.cc:9:9: warning: moved [bugprone-use-after-move]
  b;
"""


def test_a_finding_has_its_notes() -> None:
    first, second = clang_tidy.findings(OUTPUT)
    assert first.startswith("/a/x.h:3:1") and first.endswith("declared here")
    assert second.startswith("/a/x.cc:9:9")
    assert clang_tidy.findings("") == []


def test_sources_are_the_handwritten_ones(tmp_path: Path) -> None:
    build = tmp_path / "build"
    build.mkdir()
    files = [tmp_path / "a.cc", tmp_path / "b.cc", build / "generated.cc"]
    text = json.dumps([{"file": str(file)} for file in files])
    (build / "compile_commands.json").write_text(text, encoding="utf-8")
    assert clang_tidy.sources(build, []) == files[:2]
    wanted = [str(tmp_path / "b.cc"), str(tmp_path / "b.h")]
    assert clang_tidy.sources(build, wanted) == files[1:2]


def test_every_folder_of_protos_has_its_headers_checked() -> None:
    (checked,) = re.findall(r"protos/\(([\w|]+)\)", read(".clang-tidy"))
    folders = {
        file.split("/")[1]
        for file in project_files()
        if file.startswith("protos/") and file.endswith(".h")
    }
    assert set(checked.split("|")) == folders
