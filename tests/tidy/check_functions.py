"""Checks the lengths of functions in C, C++ and Python.

The length of a function is the number of lines between its braces, or the number
of lines of its body without the docstring. Functions that are defined inside a
function, such as lambdas, count as lines of it.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree import CPP_SUFFIXES

FUNCTION_LINES_MAX = 70
PYTHON_FUNCTION_LINES_MAX = 60

# Longer functions, by file and name, with their lengths. An allowance may only
# fall, and ends when the function has been split.
ALLOWED: dict[tuple[str, str], int] = {}


@dataclass(frozen=True)
class Function:
    """A function with a body."""

    line: int  # The first line of the declaration.
    length: int
    name: str


class UnbalancedBraces(ValueError):
    """The braces of a source do not match."""


def check(
    file: str, text: str, allowed: dict[tuple[str, str], int] = ALLOWED
) -> list[str]:
    """Returns the functions of a source that are too long, and outdated allowances."""
    is_python = not file.endswith(CPP_SUFFIXES)
    try:
        found = python_functions(text) if is_python else cpp_functions(text)
    except UnbalancedBraces as error:
        return [f"{file}: {error}"]
    lines_max = PYTHON_FUNCTION_LINES_MAX if is_python else FUNCTION_LINES_MAX
    lengths = {name: 0 for of, name in allowed if of == file}
    findings = []
    for function in found:
        name = function.name
        lengths[name] = max(lengths.get(name, 0), function.length)
        limit = max(lines_max, allowed.get((file, name), 0))
        if function.length > limit:
            findings.append(
                f"{file}:{function.line}: {name} has {function.length} lines, "
                f"at most {limit} are allowed"
            )
    for (of, name), lines in allowed.items():
        if of == file and lengths[name] < lines:
            findings.append(
                f"{file}: {name} has {lengths[name]} lines: lower its allowance"
            )
    return findings


def cpp_functions(text: str) -> list[Function]:
    """Returns the functions of a C or C++ source.

    Only the structure of the source is parsed: the text before a brace decides
    what the brace opens.

    Raises:
        UnbalancedBraces: Branches of a conditional directive open a brace twice,
            for example.
    """
    return list(_Source(_blanked(text)).functions())


def python_functions(text: str) -> list[Function]:
    """Returns the functions and methods of a Python source."""
    found: list[Function] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                length = _body_lines(child)
                found.append(Function(child.lineno, length, prefix + child.name))
            else:
                visit(child, prefix)

    visit(ast.parse(text), "")
    return found


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        # Comments can precede the first statement.
        first = (body[0].end_lineno or body[0].lineno) + 1
    else:
        first = body[0].lineno
    return max(0, (function.end_lineno or first) - first + 1)


_TO_BLANK = re.compile(
    r"""
      //(?:\\\n|[^\n])*                           # comment up to the end of the line
    | /\*.*?\*/                                   # comment
    | R"(?P<end>[^()\\\s]{0,16})\(.*?\)(?P=end)"  # raw string
    | "(?:\\.|[^"\\\n])*"                         # string
    | (?<!\w)'(?:\\.|[^'\\\n])+'                  # character, unlike 1'000
    | ^[ \t]*\#(?:\\\n|[^\n])*                    # directive
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def _blanked(text: str) -> str:
    """Returns a C++ source without comments, literals and directives.

    All other characters stay at their offset and line.
    """
    return _TO_BLANK.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


_SIGN = re.compile(r"[{}();:]")
_ACCESS = re.compile(r"\s*(?:public|private|protected)\s*")
_ATTRIBUTE = re.compile(r"\[\[.*?\]\]|\balignas\s*\(\)", re.DOTALL)
_TYPE = re.compile(r"(?:typedef\s+)?(?:class|struct|union|enum)\b")
_MACRO_CALL = re.compile(r"\b[A-Z][A-Z0-9_]+\s*\(\)")
_OPERATOR = re.compile(r"\boperator\s*(?:\(\)|\[\s*\]|[^\w\s(]+)")
_ASSIGNMENT = re.compile(r"(?<![=!<>])=(?!=)")
_COLON = re.compile(r"(?<!:):(?!:)")
_LAMBDA = re.compile(r"=\s*\[[^\]]*\]\s*(?:<.*>\s*)?(?:\(\))?[^;=]*$", re.DOTALL)
_NESTED_REQUIREMENT = re.compile(r"\brequires\s+requires\s*(?:\(\))?$")


def _opened_by(head: str) -> str:
    """Returns what a brace outside of functions opens.

    Args:
        head: The code since the last declaration, with the contents of its
            parentheses and braces left out.

    Returns:
        "scope" for a namespace or type, "function", or "initializer".
    """
    head = _ATTRIBUTE.sub(" ", _without_template(head)).strip()
    if re.search(r"(?:^|\s)namespace\b", head) or head == "extern":
        return "scope"
    assigned = _ASSIGNMENT.search(_OPERATOR.sub("operator", head))
    if assigned is not None:
        return "function" if _LAMBDA.search(head) else "initializer"
    if _TYPE.match(head) and "(" not in _COLON.split(_MACRO_CALL.sub("", head))[0]:
        return "scope"
    _, parentheses, rest = _OPERATOR.sub("operator", head).partition("()")
    if not parentheses or _NESTED_REQUIREMENT.search(head):
        return "initializer"
    # A constructor initializes its members before its body.
    if _COLON.search(rest) and re.search(r"[\w>]$", rest):
        return "initializer"
    return "function"


def _without_template(head: str) -> str:
    """Returns a declaration without the parameters of its templates."""
    head = head.strip()
    while found := re.match(r"template\s*<", head):
        depth, end = 1, found.end()
        while depth > 0 and end < len(head):
            depth += {"<": 1, ">": -1}.get(head[end], 0)
            end += 1
        head = head[end:].strip()
    return head


class _Source:
    """A scan over a source without comments and literals."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._head = ""  # See _opened_by.
        self._head_at = 0

    def functions(self) -> Iterator[Function]:
        depth = at = 0
        while found := _SIGN.search(self._text, at):
            self._head += self._text[at : found.start()]
            at = found.end()
            sign = found[0]
            if sign == "(":
                at = self._end_of("(", ")", at)
                self._head += "()"
            elif sign == "{":
                opened = _opened_by(self._head)
                if opened == "scope":
                    depth += 1
                    self._begin(at)
                    continue
                end = self._end_of("{", "}", at)
                if opened == "initializer":
                    self._head += "{}"
                else:
                    yield self._function(at, end)
                    self._begin(end)
                at = end
            elif sign == ":" and not _ACCESS.fullmatch(self._head):
                self._head += sign
            else:
                depth -= sign == "}"
                if depth < 0:
                    raise UnbalancedBraces(f"line {self._line(at)}: no brace is open")
                self._begin(at)
        if depth > 0:
            raise UnbalancedBraces("the last brace is missing")

    def _begin(self, at: int) -> None:
        self._head, self._head_at = "", at

    def _end_of(self, opening: str, closing: str, at: int) -> int:
        """Returns the offset after the parenthesis that closes an open one."""
        depth = 1
        for found in re.compile(f"[{opening}{closing}]").finditer(self._text, at):
            depth += 1 if found[0] == opening else -1
            if depth == 0:
                return found.end()
        raise UnbalancedBraces(f"line {self._line(at)}: {opening} is not closed")

    def _function(self, body: int, end: int) -> Function:
        head = self._text[self._head_at : body - 1]
        first = self._head_at + len(head) - len(head.lstrip())
        length = self._line(end - 1) - self._line(body - 1) - 1
        return Function(self._line(first), max(0, length), _name(head))

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1


_NAME = re.compile(r"(operator\s*[^\s\w(]+|operator\s*\(\s*\)|[~\w][\w:~]*)\s*\(")


def _name(head: str) -> str:
    """Returns the name of a function; for a test, its suite and name."""
    found = _NAME.search(_without_template(_ATTRIBUTE.sub(" ", head)))
    if found is None:
        return "(lambda)"
    if re.fullmatch(r"TEST(_[A-Z])?|TYPED_TEST\w*", found[1]):
        arguments = head[head.index("(") + 1 : head.index(")")]
        return ".".join(word.strip() for word in arguments.split(","))
    return found[1]
