"""Namespaces of the clients are named after their folders."""

import check_namespaces
import pytest
from tree import cpp_files, read


def test_namespaces_equal_folders() -> None:
    findings = []
    for file in cpp_files():
        findings += check_namespaces.check(file, read(file))
    assert not findings, "\n".join(findings)


def _block(name: str, body: str) -> str:
    return f"namespace msitd::{name} {{\n{body}}}  // namespace msitd::{name}\n"


@pytest.mark.parametrize(
    ("file", "namespace"),
    [
        ("client/ask/text/a.h", "text"),
        ("client/foreign/trees/json/a.h", "foreign"),
        ("client/msit/pair/a.cc", "msit"),
        ("tests/unit/client/msitctl/run/a_test.cc", "run"),
    ],
)
def test_checker_refuses(file: str, namespace: str) -> None:
    assert check_namespaces.check(file, _block(namespace, "void Run();\n"))


@pytest.mark.parametrize(
    ("file", "namespace"),
    [
        ("client/ask/text/a.h", "ask"),
        ("client/foreign/trees/json/a.h", "trees"),
        ("client/msit/pair/a.cc", "msit_command"),
        ("tests/unit/client/msitctl/run/a_test.cc", "msitctl"),
        ("daemon/query/a.h", "anything"),
    ],
)
def test_checker_accepts(file: str, namespace: str) -> None:
    assert not check_namespaces.check(file, _block(namespace, "void Run();\n"))


def test_checker_accepts_forward_declarations() -> None:
    text = _block("ask", "class Connection;\nstruct Outcome;\n")
    assert not check_namespaces.check("client/foreign/fill/a.h", text)
