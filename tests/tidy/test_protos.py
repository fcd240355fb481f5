"""The API says what every element means."""

import check_protos
from tree import cpp_files, project_files, read

REASONS = "protos/msitd/v1/error_reason.proto"


def _ours() -> list[str]:
    return [
        f
        for f in project_files()
        if f.startswith("protos/msitd/") and f.endswith(".proto")
    ]


def test_every_element_is_commented() -> None:
    findings = []
    for file in _ours():
        findings += check_protos.check_comments(file, read(file))
    assert len(_ours()) >= 8
    assert not findings, "\n".join(findings)


def test_reasons_in_use_are_defined() -> None:
    known = check_protos.reasons(read(REASONS))
    assert len(known) > 30
    findings = []
    for file in cpp_files():
        if not file.startswith("tests/"):
            findings += check_protos.check_reasons(file, read(file), known)
    assert not findings, "\n".join(findings)


def test_promised_errors_are_defined() -> None:
    known = check_protos.reasons(read(REASONS))
    findings = []
    for file in _ours():
        findings += check_protos.check_documented_reasons(file, read(file), known)
    assert not findings, "\n".join(findings)


def test_checker_finds_bare_elements() -> None:
    text = """
message Bare {
  int64 a = 1;
  // Good.
  repeated string b = 2;
  map<string, string> c = 3;
  // Good.
  optional double d = 4;
}
// Good.
enum E {
  ZERO = 0;
}
// Good.
service S {
  rpc Get(A) returns (B);
}
"""
    found = check_protos.check_comments("x.proto", text)
    assert [f.split(": ")[1].split()[0] for f in found] == [
        "Bare",
        "a",
        "c",
        "ZERO",
        "Get",
    ]


def test_checker_finds_unknown_reasons() -> None:
    text = 'return WithReason(absl::NotFoundError("x"),\n  "NO_SUCH_REASON");'
    assert check_protos.check_reasons("x.cc", text, {"RUN_NOT_FOUND"})
    assert not check_protos.check_reasons("x.cc", text, {"NO_SUCH_REASON"})
    proto = "// * `NOT_FOUND`: `MADE_UP`.\n"
    assert check_protos.check_documented_reasons("x.proto", proto, set())
    assert not check_protos.check_documented_reasons("x.proto", proto, {"MADE_UP"})
