"""C++ sources follow the rules of the project."""

import check_sources
import pytest
from tree import cpp_files, read

GOOD = check_sources.SPDX + "\n#pragma once\n\nint F();\n"


def test_sources_keep_the_rules() -> None:
    findings = []
    for file in cpp_files():
        findings += check_sources.check(file, read(file))
    assert not findings, "\n".join(findings)


def test_checker_accepts_a_good_header() -> None:
    assert check_sources.check("daemon/a/b.h", GOOD) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("daemon/a/b.h", "#pragma once\n"),
        ("daemon/a/b.h", check_sources.SPDX + "\nint F();\n"),
        ("daemon/a/b-inl.h", GOOD.replace("#pragma once", "")),
        ("daemon/a/b.h", GOOD + "using namespace std;\n"),
        ("daemon/a/b.h", GOOD + "// TODO: later\n"),
        ("daemon/a/b.h", GOOD + "struct Place {\n"),
        ("daemon/a/b.h", GOOD + "  class Found final : public B {\n"),
        ("daemon/a/b.h", GOOD + "int x;  // FIXME\n"),
        ("daemon/a/b.h", GOOD + "//------------\n"),
        ("daemon/a/b.h", GOOD + "// caf\u00e9\n"),
        ("daemon/a/b.h", GOOD + "int x; \n"),
        ("daemon/a/b.h", GOOD + "int x;"),
        ("daemon/a/fd_utils.h", GOOD),
        ("daemon/a/b.h", GOOD + "int x;\n" * 600),
        ("tests/unit/a/b.h", GOOD + "int x;\n" * 800),
    ],
)
def test_checker_refuses(file: str, text: str) -> None:
    assert check_sources.check(file, text)
