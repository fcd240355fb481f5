"""Checks that every element of our protos has a comment, and that error reasons
exist.
"""

import re
from collections.abc import Container

_ELEMENT = re.compile(
    r"^\s*(?:"
    r"(?:service|message|enum)\s+(?P<block>\w+)\s*\{"
    r"|rpc\s+(?P<rpc>\w+)\s*\("
    r"|(?:repeated\s+|optional\s+)?(?:map\s*<[^>]+>|[.\w]+)\s+(?P<field>\w+)\s*=\s*\d+"
    r"|(?P<value>[A-Z][A-Z0-9_]*)\s*=\s*\d+"
    r")"
)
_REASON = re.compile(r"^\s*([A-Z][A-Z0-9_]*)\s*=\s*(\d+)", re.MULTILINE)
_ENUMERATOR = re.compile(r"^\s*(k\w+) = (\d+),", re.MULTILINE)
_NAME_ROW = re.compile(r'\{ErrorReason::(k\w+),\s*"(\w+)"\}')
_GIVEN_REASON = re.compile(r"ErrorReason::(k\w+)")


def check_comments(file: str, text: str) -> list[str]:
    """Returns the elements of a proto that have no comment directly above them."""
    findings = []
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        match = _ELEMENT.match(line)
        if match and not before.startswith("//"):
            name = next(g for g in match.groups() if g)
            findings.append(f"{file}:{number}: {name} has no comment")
        before = line.strip()
    return findings


def reasons(error_reason_proto: str) -> dict[str, int]:
    """Returns the number of each error reason of the API; 0 is not a reason."""
    found = {name: int(number) for name, number in _REASON.findall(error_reason_proto)}
    return {name: number for name, number in found.items() if number}


def cpp_reasons(header: str, source: str) -> dict[str, tuple[str, int]]:
    """Returns the name and number in C++ of each error reason that has a name."""
    numbers = {name: int(number) for name, number in _ENUMERATOR.findall(header)}
    return {
        text: (name, numbers.pop(name, -1)) for name, text in _NAME_ROW.findall(source)
    } | {name: (name, number) for name, number in numbers.items() if number}


def check_cpp_reasons(
    api: dict[str, int], cpp: dict[str, tuple[str, int]], texts: list[str]
) -> list[str]:
    """Returns reasons that differ in C++, or that no source uses."""
    given = {name for text in texts for name in _GIVEN_REASON.findall(text)}
    findings = [
        f"{name} is {api.get(name)} in the API and {cpp.get(name, ('', None))[1]} in C++"
        for name in sorted(api.keys() | cpp.keys())
        if api.get(name) != cpp.get(name, ("", None))[1]
    ]
    return findings + [
        f"{text} is a reason that nothing gives"
        for text, (name, _) in sorted(cpp.items())
        if name not in given
    ]


def check_documented_reasons(file: str, text: str, known: Container[str]) -> list[str]:
    """Returns reasons that the comments of a proto mention but that are not defined."""
    codes = {
        "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
        "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
    }  # fmt: skip
    findings = []
    errors = re.findall(r"^\s*// \* .*(?:\n\s*//   .*)*", text, re.MULTILINE)
    for name in re.findall(r"`([A-Z][A-Z0-9_]+)`", "\n".join(errors)):
        if name not in codes and name not in known:
            findings.append(f"{file}: {name} is neither a code nor an ErrorReason")
    return findings
