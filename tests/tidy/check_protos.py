"""Every element of our protos carries a comment, and error reasons are real."""

import re

_ELEMENT = re.compile(
    r"^\s*(?:"
    r"(?:service|message|enum)\s+(?P<block>\w+)\s*\{"
    r"|rpc\s+(?P<rpc>\w+)\s*\("
    r"|(?:repeated\s+|optional\s+)?(?:map\s*<[^>]+>|[.\w]+)\s+(?P<field>\w+)\s*=\s*\d+"
    r"|(?P<value>[A-Z][A-Z0-9_]*)\s*=\s*\d+"
    r")"
)
_REASON = re.compile(r"^\s*([A-Z][A-Z0-9_]*)\s*=\s*\d+", re.MULTILINE)
_USED_REASON = re.compile(r'WithReason\([^;]*?"([A-Z][A-Z0-9_]+)"\s*\)', re.DOTALL)


def check_comments(file: str, text: str) -> list[str]:
    """Returns the elements of a proto that have no comment right above them."""
    findings = []
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        match = _ELEMENT.match(line)
        if match and not before.startswith("//"):
            name = next(g for g in match.groups() if g)
            findings.append(f"{file}:{number}: {name} has no comment")
        before = line.strip()
    return findings


def reasons(error_reason_proto: str) -> set[str]:
    """Returns the names of all error reasons."""
    return set(_REASON.findall(error_reason_proto))


def check_reasons(file: str, text: str, known: set[str]) -> list[str]:
    """Returns uses of WithReason whose reason error_reason.proto lacks."""
    return [
        f"{file}: {reason} is no value of ErrorReason"
        for reason in _USED_REASON.findall(text)
        if reason not in known
    ]


def check_documented_reasons(file: str, text: str, known: set[str]) -> list[str]:
    """Returns reasons that the comments of a proto promise and nobody defines."""
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
