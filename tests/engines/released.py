"""Signatures from the source of a released package, which need not be importable."""

import ast
from pathlib import Path


def signatures(path: Path, name: str) -> dict[str, list[str]]:
    """Returns the parameters of each method of a class, with their defaults."""
    return {
        each.name: _parameters(each.args)
        for each in _class(path, name).body
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def fields(path: Path, name: str) -> dict[str, str]:
    """Returns the defaults of each field of a dataclass."""
    return {
        each.target.id: ast.unparse(each.value)
        for each in _class(path, name).body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and each.value is not None
    }


def _class(path: Path, name: str) -> ast.ClassDef:
    for each in ast.parse(path.read_text()).body:
        if isinstance(each, ast.ClassDef) and each.name == name:
            return each
    raise AssertionError(f"{path} has no class {name}")


def _parameters(args: ast.arguments) -> list[str]:
    names = [each.arg for each in args.posonlyargs + args.args]
    defaults = ["=" + ast.unparse(each) for each in args.defaults]
    defaults = [""] * (len(names) - len(defaults)) + defaults
    out = [name + default for name, default in zip(names, defaults, strict=True)]
    if args.vararg:
        out.append(f"*{args.vararg.arg}")
    elif args.kwonlyargs:
        out.append("*")
    for keyword, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        text = "" if default is None else f"={ast.unparse(default)}"
        out.append(keyword.arg + text)
    if args.kwarg:
        out.append(f"**{args.kwarg.arg}")
    return out
