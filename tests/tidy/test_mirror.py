"""Unit tests mirror the tree."""

import check_mirror
import pytest
from tree import project_files, read

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
OWN = SPDX + '#include "daemon/a/thing.h"\n\n#include <gtest/gtest.h>\n'
FILES = ["daemon/a/thing.h", "daemon/b/other.h", "daemon/b/c/deep.h"]


def test_unit_tests_lie_where_their_sources_do() -> None:
    files = project_files()
    texts = {f: read(f) for f in files if check_mirror.is_unit_test(f)}
    assert len(texts) > 100
    findings = check_mirror.check_places(files, texts, check_mirror.TESTED_ELSEWHERE)
    assert not findings, "\n".join(findings)


def test_every_room_has_tests() -> None:
    findings = check_mirror.check_rooms(project_files(), check_mirror.TESTED_ELSEWHERE)
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ("daemon/a/thing_test.cc", OWN),
        # A test may include a room's header, or a fixture of its own.
        ("daemon/a/all_test.cc", SPDX + '#include <x>\n#include "daemon/a/thing.h"\n'),
        ("daemon/a/all_test.cc", SPDX + '#include "tests/unit/daemon/a/fixture.h"\n'),
    ],
)
def test_checker_takes_a_test_in_its_place(test: str, text: str) -> None:
    file = f"tests/unit/{test}"
    assert check_mirror.check_places([*FILES, file], {file: text}, {}) == []


def test_checker_takes_a_test_of_a_room_that_is_tested_elsewhere() -> None:
    file = "tests/unit/daemon/b/thing_test.cc"
    texts = {file: SPDX + '#include <x>\n#include "daemon/b/other.h"\n'}
    elsewhere = {"daemon/a": "tests/unit/daemon/b"}
    assert check_mirror.check_places([*FILES, file], texts, elsewhere) == []
    assert len(check_mirror.check_places([*FILES, file], texts, {})) == 1


@pytest.mark.parametrize(
    ("test", "text", "finding"),
    [
        ("daemon/b/thing_test.cc", OWN, "its source is in daemon/a"),
        ("daemon/b/all_test.cc", OWN, "daemon/a/thing.h is of another room"),
        ("daemon/b/all_test.cc", SPDX + '#include <x>\n#include "daemon/a/thing.h"\n',
         "it includes nothing of daemon/b"),
        ("daemon/all_test.cc", OWN, "daemon has no header"),
        ("daemon/gone/all_test.cc", OWN, "daemon/gone has no header"),
    ],
)  # fmt: skip
def test_checker_finds_a_misplaced_test(test: str, text: str, finding: str) -> None:
    file = f"tests/unit/{test}"
    findings = check_mirror.check_places([*FILES, file], {file: text}, {})
    assert findings == [f"{file}: {finding}"]


def test_checker_finds_rooms_without_tests() -> None:
    tests = ["tests/unit/daemon/a/x_test.cc", "tests/unit/daemon/b/c/deep_test.cc"]
    assert check_mirror.check_rooms([*FILES, *tests], {}) == []
    assert len(check_mirror.check_rooms([*FILES, tests[0]], {})) == 2
    elsewhere = {"daemon/b": "tests/unit/daemon/a", "daemon/b/c": "tests/unit/daemon/a"}
    assert check_mirror.check_rooms([*FILES, tests[0]], elsewhere) == []
    # Entries that are useless, or that refer to nothing.
    assert len(check_mirror.check_rooms([*FILES, *tests], elsewhere)) == 2
    elsewhere["daemon/b"] = "tests/none"
    assert len(check_mirror.check_rooms([*FILES, tests[0]], elsewhere)) == 1
