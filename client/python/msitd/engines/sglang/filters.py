"""Filters of SGLang's dumper: Python expressions that are evaluated without
running code.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

_CHARS_MAX = 4096
_DEPTH_MAX = 64

_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_FUNCTIONS: dict[str, Callable[[str, str], Any]] = {
    "search": re.search,
    "match": re.match,
}


class Filter:
    """An expression over tags: names, literals, comparisons, `and`, `or`,
    `not`, `search(pattern, tag)` and `match(pattern, tag)`.

    A tag that a dump does not have is None.

    Raises:
        ValueError: The text is not such an expression.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        if len(text) > _CHARS_MAX:
            raise ValueError(f"a filter has at most {_CHARS_MAX} characters")
        try:
            self._body = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(f"filter {text!r}: {error}") from None
        self._check(self._body, 0)

    def accepts(self, tags: Mapping[str, Any]) -> bool:
        """Returns whether the expression is true for the tags of a dump.

        Raises:
            ValueError: The expression compares values that cannot be compared.
        """
        try:
            return bool(self._value(self._body, tags))
        except (TypeError, re.error) as error:
            raise ValueError(f"filter {self._text!r}: {error}") from None

    def _check(self, node: ast.expr, depth: int) -> None:
        if depth > _DEPTH_MAX:
            raise ValueError(f"a filter is at most {_DEPTH_MAX} expressions deep")
        children: list[ast.expr]
        if isinstance(node, (ast.Name, ast.Constant)):
            return
        if isinstance(node, ast.BoolOp):
            children = node.values
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            children = [node.operand]
        elif isinstance(node, ast.Compare):
            children = [node.left, *node.comparators]
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            children = node.elts
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _FUNCTIONS
            and len(node.args) == 2
            and not node.keywords
        ):
            children = node.args
        else:
            raise ValueError(
                f"filter {self._text!r}: {ast.unparse(node)} is no name, literal, "
                "comparison, search or match"
            )
        for child in children:
            self._check(child, depth + 1)

    def _value(self, node: ast.expr, tags: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return tags.get(node.id)
        if isinstance(node, ast.BoolOp):
            is_and = isinstance(node.op, ast.And)
            value: Any = is_and
            for child in node.values:
                value = self._value(child, tags)
                if bool(value) != is_and:
                    break
            return value
        if isinstance(node, ast.UnaryOp):
            value = self._value(node.operand, tags)
            return not value if isinstance(node.op, ast.Not) else -value
        if isinstance(node, ast.Compare):
            return self._compares(node, tags)
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            pattern, text = (self._value(each, tags) for each in node.args)
            return _FUNCTIONS[node.func.id](pattern, text)
        assert isinstance(node, (ast.List, ast.Tuple, ast.Set))
        return [self._value(each, tags) for each in node.elts]

    def _compares(self, node: ast.Compare, tags: Mapping[str, Any]) -> bool:
        left = self._value(node.left, tags)
        for how, comparator in zip(node.ops, node.comparators, strict=True):
            right = self._value(comparator, tags)
            if not _COMPARE[type(how)](left, right):
                return False
            left = right
        return True
