"""Rules for every C++ source."""

import re

SOURCE_LINES_MAX = 600
TEST_LINES_MAX = 800

SPDX = "// SPDX-License-Identifier: Apache-2.0"
BANNED_STEMS = ("utils", "util", "helpers", "helper", "misc", "common")

_LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_USING_NAMESPACE = re.compile(r"^\s*using\s+namespace\b")
# Names of types that do not say what they describe.
BANNED_TYPES = ("Place", "Found", "Part", "Loader", "Thing")
_BARE_TYPE = re.compile(rf"^\s*(struct|class) ({'|'.join(BANNED_TYPES)})\b[^;]*$")
_BANNER = re.compile(r"^\s*//\s*([-=*/#~])\1{4,}")


def check(file: str, text: str) -> list[str]:
    """Returns the violations in one C or C++ source."""
    lines = text.splitlines()
    findings = [f"{file}: {what}" for what in _of_whole(file, text, lines)]
    for number, line in enumerate(lines, 1):
        for what in _of_line(line):
            findings.append(f"{file}:{number}: {what}")
    return findings


def _of_whole(file: str, text: str, lines: list[str]) -> list[str]:
    findings = []
    limit = TEST_LINES_MAX if file.startswith("tests/") else SOURCE_LINES_MAX
    if len(lines) > limit:
        findings.append(f"{len(lines)} lines, {limit} may be")
    first = lines[0] if lines else ""
    if first not in (SPDX, f"/* {SPDX[3:]} */"):
        findings.append("the first line is not the SPDX line")
    if file.endswith("-inl.h"):
        # Included once for each target of Highway, or once for each source.
        if "HWY_TARGET_TOGGLE" not in text and "#pragma once" not in lines:
            findings.append("has neither the guard of Highway nor #pragma once")
    elif file.endswith((".h", ".hpp")) and "#pragma once" not in lines:
        findings.append("#pragma once is missing")
    # User input may be in any script, so tests contain other characters.
    if not text.isascii() and not file.startswith("tests/"):
        findings.append("has bytes that are not ASCII")
    if not text.endswith("\n"):
        findings.append("does not end with a new line")
    stem = file.rsplit("/", 1)[-1].split(".")[0]
    if set(stem.split("_")) & set(BANNED_STEMS):
        findings.append("is named after no thing")
    return findings


def _of_line(line: str) -> list[str]:
    findings = []
    if _LEFTOVER.search(line):
        findings.append("a left-over marker")
    if _BARE_TYPE.match(line):
        findings.append("a type whose name does not say of what it is")
    if _USING_NAMESPACE.match(line):
        findings.append("using namespace")
    if _BANNER.match(line):
        findings.append("a banner line")
    if line != line.rstrip():
        findings.append("blanks at the end")
    return findings
