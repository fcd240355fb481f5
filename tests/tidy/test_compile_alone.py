"""A source with a missing include is found, as is a build without sources."""

import json
import subprocess
import sys
from pathlib import Path

from compile_alone import failures
from precompiled import Includes, set_for

CHECKER = Path(__file__).with_name("compile_alone.py")

GOOD = "#include <string>\nstd::string F();\n"
# Compiles only after GOOD.
FORGETFUL = "std::string G();\n"


def check(folder: Path, sources: dict[str, str]) -> subprocess.CompletedProcess[str]:
    build = folder / "build"
    build.mkdir()
    entries = []
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="utf-8")
        entries.append(
            {
                "directory": str(build),
                "file": str(folder / name),
                "command": f"c++ -std=c++20 -o {name}.o -c {folder / name}",
            }
        )
    text = json.dumps(entries)
    (build / "compile_commands.json").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, CHECKER, build], capture_output=True, text=True, check=False
    )


def test_what_compiles_alone_passes(tmp_path: Path) -> None:
    done = check(tmp_path, {"good.cc": GOOD})
    assert done.returncode == 0, done.stdout
    assert "1 of 1 sources" in done.stdout


def test_a_forgotten_include_is_found(tmp_path: Path) -> None:
    done = check(tmp_path, {"good.cc": GOOD, "forgetful.cc": FORGETFUL})
    assert done.returncode == 1
    assert "forgetful.cc:1" in done.stdout
    assert "1 of 2 sources" in done.stdout


def test_a_set_of_headers_hides_no_forgotten_include(tmp_path: Path) -> None:
    uses = 'std::string G() { return fmt::format("{}", 1); }\n'
    sources = {f"good{i}.cc": f"#include <fmt/format.h>\n{uses}" for i in range(6)}
    sources["forgetful.cc"] = f"#include <string>\n{uses}"
    done = check(tmp_path, sources)
    assert done.returncode == 1
    assert "forgetful.cc:2" in done.stdout
    assert "6 of 7 sources" in done.stdout


def test_a_source_gets_the_first_set_that_it_has_whole() -> None:
    status = {"absl/status/statusor.h", "string"}
    assert set_for(status) == ("absl/status/statusor.h",)
    assert set_for({*status, "fmt/format.h"}) == (
        "absl/status/statusor.h",
        "fmt/format.h",
    )
    assert set_for({"string"}) == ()


def test_includes_are_followed_through_files_of_ours(tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text('#include "b.h"\n', encoding="utf-8")
    text = '#include "b.h"\n#include <fmt/format.h>\n'
    (tmp_path / "b.h").write_text(text, encoding="utf-8")
    assert Includes([tmp_path]).of(tmp_path / "a.cc") == {"fmt/format.h"}


def test_a_build_without_sources_is_no_success(tmp_path: Path) -> None:
    assert check(tmp_path, {}).returncode == 1


def test_a_warning_fails_only_if_warnings_are_checked(tmp_path: Path) -> None:
    source = tmp_path / "unused.cc"
    source.write_text("int F() { int a; return 1; }\n", encoding="utf-8")
    entry = {
        "directory": str(tmp_path),
        "file": str(source),
        "command": f"c++ -Wall -o unused.o -c {source}",
    }
    build = tmp_path / "build"
    build.mkdir()
    text = json.dumps([entry])
    (build / "compile_commands.json").write_text(text, encoding="utf-8")
    assert failures(build) == (1, [])
    count, found = failures(build, warnings=True)
    assert count == 1
    assert "unused.cc:1" in found[0]
