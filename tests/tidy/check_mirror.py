"""Checks that unit tests mirror their sources, and that every folder has tests.

tests/unit/PATH is for the folder PATH. TESTED_ELSEWHERE names the folders that
are tested through another folder, or through a program.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping

UNIT = "tests/unit/"
LAYERS = ("protos/", "storage/", "daemon/", "client/")

# The location of the tests of a folder that has none below tests/unit.
TESTED_ELSEWHERE = {
    "client/libmsit/capi": "tests/capi",
    "client/libmsit/include/msit": "tests/capi",
    "client/msitctl/node": "tests/e2e/cli",
    "client/msitctl/run": "tests/unit/client/msitctl",
    "client/msitctl/verb": "tests/unit/client/msitctl",
    "client/msitctl/web": "tests/e2e/web",
    "client/ask/report/schema": "tests/unit/client/msitctl/compare",
    "client/python": "tests/python",
    "storage/face": "tests/unit/storage",
    "storage/index/scan": "tests/unit/storage",
    "storage/upkeep": "tests/unit/storage",
}

_TEST = re.compile(r"_test\.cc?$|/test_\w+\.py$")
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
_OWN_HEADER = re.compile(r'\A// SPDX[^\n]*\n+#include "([^"]+)"\n(?:\n|\Z)')


def _folder(file: str) -> str:
    return file.rpartition("/")[0]


def _stem(file: str) -> str:
    return file.rpartition("/")[2].partition(".")[0]


def is_unit_test(file: str) -> bool:
    """Returns whether a file is a unit test in C++."""
    return file.startswith(UNIT) and file.endswith("_test.cc")


def check_places(
    files: Collection[str], texts: Mapping[str, str], elsewhere: Mapping[str, str]
) -> list[str]:
    """Returns the unit tests that are in the folder of another room.

    Args:
        files: All files of the project.
        texts: The texts of the unit tests.
        elsewhere: TESTED_ELSEWHERE.
    """
    rooms = {_folder(f) for f in files if f.startswith(LAYERS) and f.endswith(".h")}
    places = defaultdict(set)
    for file in files:
        if file.startswith(LAYERS) and file.endswith(".h"):
            places[_stem(file)].add(_folder(file))
    findings = []

    def tests_of(room: str) -> str:
        return elsewhere.get(room, UNIT + room)

    for file in sorted(filter(is_unit_test, files)):
        folder = _folder(file)
        room = folder.removeprefix(UNIT)
        named = places[_stem(file).removesuffix("_test")]
        included = _INCLUDE.findall(texts[file])
        own = _OWN_HEADER.match(texts[file])
        if room not in rooms:
            findings.append(f"{file}: {room} has no header")
        elif named and folder not in map(tests_of, named):
            findings.append(f"{file}: its source is in {', '.join(sorted(named))}")
        elif own and own[1].startswith(LAYERS) and tests_of(_folder(own[1])) != folder:
            findings.append(f"{file}: {own[1]} is of another room")
        elif not any(folder in (_folder(i), tests_of(_folder(i))) for i in included):
            findings.append(f"{file}: it includes nothing of {room}")
    return findings


def check_rooms(files: Collection[str], elsewhere: Mapping[str, str]) -> list[str]:
    """Returns the folders that lack tests."""
    tested = {_folder(f) for f in files if _TEST.search(f)}

    def has_tests(folder: str) -> bool:
        return any(f == folder or f.startswith(folder + "/") for f in tested)

    rooms = {_folder(f) for f in files if f.startswith(LAYERS) and f.endswith(".h")}
    findings = []
    for room in sorted(rooms | elsewhere.keys()):
        place = elsewhere.get(room)
        if place is None and not has_tests(UNIT + room):
            findings.append(f"{room}: there are no tests in {UNIT}{room}")
        elif place is not None and (room not in rooms or has_tests(UNIT + room)):
            findings.append(f"{room}: needs no entry in TESTED_ELSEWHERE")
        elif place is not None and not has_tests(place):
            findings.append(f"{room}: there are no tests in {place}")
    return findings
