"""The unit tests of a changed file are found."""

import pytest
from changed_units import project_targets, targets, units
from tree import project_files

LISTS = {
    "tests/unit/daemon/CMakeLists.txt": (
        "msitd_test(a_test BORDER\n"
        "           SOURCES a/x_test.cc a/y_test.cc\n"
        "           ALONE a/b/z_test.cc DEPS gtest)\n"
        "  msitd_test(c_test SOURCES c/c_test.cc DEPS x LABELS grpc)\n"
    ),
    "tests/capi/CMakeLists.txt": "msitd_test(capi_test SOURCES capi_test.cc DEPS m)\n",
}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("daemon/a/x.cc", ["a_test"]),
        ("daemon/a/other.h", ["a_test"]),
        ("daemon/a/b/z.cc", ["a_test"]),
        ("daemon/a/untested/x.cc", ["a_test"]),
        ("daemon/x.h", ["a_test", "c_test"]),
        ("client/libmsit/capi/msit.cc", ["capi_test"]),
        ("tests/unit/daemon/c/c_test.cc", ["c_test"]),
        ("tests/unit/daemon/c/fixture.h", ["c_test"]),
        ("daemon/a/README.md", []),
        ("storage/x.cc", []),
        ("docs/a.h", []),
    ],
)
def test_units_of_a_file(file: str, expected: list[str]) -> None:
    assert units([file], targets(LISTS)) == expected


def test_every_unit_test_has_a_target() -> None:
    known = set().union(*project_targets().values())
    tests = {f for f in project_files() if f.startswith("tests/unit/")}
    assert {f for f in tests if f.endswith("_test.cc")} - known == set()
