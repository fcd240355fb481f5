"""The API documents the meaning of every element."""

import check_protos
from tree import cpp_files, project_files, read

REASONS = "protos/msitd/v1/error_reason.proto"
CPP_REASONS = "protos/base/error_reason"


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


def test_reasons_are_those_of_the_api_and_all_are_given() -> None:
    api = check_protos.reasons(read(REASONS))
    assert len(api) > 30
    cpp = check_protos.cpp_reasons(read(f"{CPP_REASONS}.h"), read(f"{CPP_REASONS}.cc"))
    givers = [
        read(file)
        for file in cpp_files()
        if not file.startswith(("tests/", CPP_REASONS))
    ]
    findings = check_protos.check_cpp_reasons(api, cpp, givers)
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


def test_checker_finds_reasons_that_differ_or_are_never_given() -> None:
    api = check_protos.reasons("  NONE = 0;\n  RUN_GONE = 1;\n  RUN_BUSY = 2;\n")
    assert api == {"RUN_GONE": 1, "RUN_BUSY": 2}
    header = "  kNone = 0,\n  kRunGone = 1,\n  kRunBusy = 2,\n"
    source = (
        '{ErrorReason::kRunGone, "RUN_GONE"},\n{ErrorReason::kRunBusy, "RUN_BUSY"},'
    )
    givers = ["ErrorReason::kRunGone", "ErrorReason::kRunBusy"]

    def findings(header: str, source: str, givers: list[str]) -> int:
        cpp = check_protos.cpp_reasons(header, source)
        return len(check_protos.check_cpp_reasons(api, cpp, givers))

    assert findings(header, source, givers) == 0
    assert findings(header, source, givers[:1]) == 1
    assert findings(header.replace("2", "3"), source, givers) == 1
    # An enumerator without a name: the API has a name that C++ does not.
    assert findings(header, source.splitlines()[0], givers) == 2
    assert findings(header, source.replace("RUN_B", "RUN_L"), givers) == 2


def test_checker_finds_promised_reasons_that_are_not_defined() -> None:
    proto = "// * `NOT_FOUND`: `MADE_UP`.\n"
    assert check_protos.check_documented_reasons("x.proto", proto, set())
    assert not check_protos.check_documented_reasons("x.proto", proto, {"MADE_UP"})
