"""Checks which modules of the Python package import which, and when.

Importing the package imports only itself and the standard library. Libraries
that a caller may not have, or that are slow to import, are imported where they
are used. A package is a folder, or a module at the top. PACKAGES lists, for
each package, the parts of msitd that it may import, and the libraries that it
may import inside functions or for the type checker. Packages import only lower
layers; check_layers.PYTHON_LAYERS has their order.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from check_layers import PYTHON_LAYERS

ROOT = "client/python/"
LINES_MAX = 600


@dataclass(frozen=True)
class Package:
    """The imports that a package is allowed, in addition to its own modules."""

    ours: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    # Libraries at the top of a module that is itself imported late, by its
    # name.
    at_top: tuple[str, ...] = ()


PACKAGES: dict[str, Package] = {
    # The public names.
    "msitd": Package(("msitd._core", "msitd.forcing", "msitd.injection")),
    # Runs the programs.
    "msitd.__main__": Package(("msitd",)),
    "msitd.injection": Package(("msitd._core", "msitd.query"), ("torch",)),
    # Used by everything that records.
    "msitd._core": Package(("msitd._msit",), ("torch",)),
    "msitd._core.seeding": Package((), ("numpy", "torch")),
    # A kernel must be a function of a module that imports Triton.
    "msitd._core.devices.triton_kernel": Package((), (), ("triton",)),
    "msitd.forcing": Package(("msitd._core.leaf.stand_ins",), ("torch",)),
    # Reads files, and needs no daemon.
    "msitd.formats": Package(
        ("msitd._formats", "msitd.query.arrays"), ("numpy", "torch")
    ),
    # The interface of msit, for models in torch and TorchAir.
    "msitd.llm": Package(
        ("msitd._core", "msitd._core.seeding"), ("numpy", "torch", "torchair")
    ),
    # The interface of msprobe.
    "msitd.probe": Package(("msitd._core", "msitd._core.seeding"), ("torch", "yaml")),
    # Code that `msitctl exec` runs in a command, and the names of other tools
    # there.
    "msitd._exec": Package(
        ("msitd._core", "msitd._compat", "msitd.injection", "msitd.query"),
        ("safetensors", "tokenizers", "torch"),
    ),
    "msitd._compat": Package(("msitd.llm", "msitd.probe")),
    # The same names, installed.
    "compat": Package(("msitd._compat",)),
    # Graphs of torch.compile and torch.export.
    "msitd.fx": Package(("msitd._core", "msitd.query"), ("functorch", "torch")),
    # Hooks in engines that call their models themselves.
    "msitd.engines": Package(
        ("msitd._core",),
        (
            "nvdlfw_inspect",
            "ray",
            "torch",
            "transformer_engine",
            "transformers",
            "vllm",
        ),
    ),
    "msitd.engines.sglang": Package(("msitd._core", "msitd.formats"), ("torch",)),
    # Queries several daemons with the code for one daemon.
    "msitd.fleet": Package(
        ("msitd._core.daemon", "msitd.query"), ("google", "pyarrow", "ray")
    ),
    # Compares runs in tests.
    "msitd.testing": Package(("msitd._core", "msitd.query")),
    "msitd.pytest_plugin": Package(("msitd._core", "msitd.testing"), (), ("pytest",)),
    # Makes the calls of a run again, in an interpreter of its own.
    "msitd.verify": Package(("msitd._core", "msitd.query"), ("torch",)),
    # The interface of msit.
    "components": Package(("msitd.formats",), ("numpy",)),
    # Connects to a daemon only over gRPC, and needs no recording code.
    "msitd.query": Package(
        (
            *("msitd._core.endpoints", "msitd._core.errors"),
            *("msitd._core.installed", "msitd._core.personal"),
        ),
        (
            *("google", "grpc", "matplotlib", "ml_dtypes", "numpy"),
            *("pandas", "pyarrow", "torch"),
        ),
    ),
}

LAYER_OF = {
    package: layer
    for layer, packages in enumerate(PYTHON_LAYERS)
    for package in packages
}

# For the type checker, everywhere.
_TYPING = ("typing_extensions",)


@dataclass(frozen=True)
class Import:
    """A module, or a name of a module, that a source imports."""

    line: int
    module: str
    is_late: bool  # In a function, or for the type checker.
    is_for_types: bool = False  # For the type checker only.


def module_of(file: str) -> str:
    """Returns the dotted name of a source."""
    path = file.removeprefix(ROOT).removesuffix(".py").removesuffix("/__init__")
    return path.replace("/", ".")


def package_of(module: str) -> str:
    """Returns the entry of PACKAGES for a module, or the module's own name."""
    name = module
    while name not in PACKAGES or (name == "msitd" and module != "msitd"):
        name, dot, _ = name.rpartition(".")
        if not dot:
            return module
    return name


def imports_of(tree: ast.Module) -> Iterator[Import]:
    """Yields the imports of a source; for `from a import b` both `a` and `a.b`."""

    def walk(node: ast.AST, late: tuple[bool, bool]) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(child.lineno, alias.name, *late)
            elif isinstance(child, ast.ImportFrom):
                module = "." * child.level + (child.module or "")
                for alias in child.names:
                    yield Import(child.lineno, f"{module}.{alias.name}", *late)
            else:
                types = late[1] or _is_for_types(child)
                yield from walk(child, (late[0] or types or _is_late(child), types))

    return walk(tree, (False, False))


def check(file: str, text: str) -> list[str]:
    """Returns the violations in the imports of one source of the package."""
    module = module_of(file)
    package = package_of(module)
    if package not in PACKAGES:
        return [f"{file}: in no package of tests/tidy/check_python_layers.py"]
    if not is_placed(module):
        return [f"{file}: in no layer of tests/tidy/check_layers.py"]
    findings = [
        f"{file}:{found.line}: {found.module}: {why}"
        for found in imports_of(ast.parse(text))
        if (why := _refuse(package, found) or _refuse_upwards(module, found))
    ]
    count = text.count("\n")
    if count > LINES_MAX:
        findings.append(f"{file}: {count} lines, {LINES_MAX} may be")
    return findings


def _is_late(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def _is_for_types(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def layered_package(name: str) -> str | None:
    """Returns the package of a Python module, or of a name in it; None if unknown."""
    while name and name not in LAYER_OF:
        name = name.rpartition(".")[0]
    return name or None


def is_placed(module: str) -> bool:
    """Returns whether a Python module is in a layer.

    A package that contains other packages stands only for its own `__init__`, so
    that a module beside them needs a place of its own.
    """
    package = layered_package(module)
    has_packages = any(other.startswith(f"{package}.") for other in LAYER_OF)
    return package is not None and (package == module or not has_packages)


def imports_by_module(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Returns the modules of ours that each module imports, at any time.

    Args:
        sources: The texts of all modules, by file.
    """
    modules = {module_of(file) for file in sources}

    def imported(name: str) -> str:
        """Returns the module that defines a name."""
        while name and name not in modules:
            name = name.rpartition(".")[0]
        return name

    edges = {}
    for file, text in sources.items():
        found = {imported(each.module) for each in imports_of(ast.parse(text))}
        # The public names are imported with each module.
        edges[module_of(file)] = found - {"", "msitd", module_of(file)}
    return edges


def _refuse_upwards(module: str, found: Import) -> str | None:
    """Returns why an import does not point to a lower layer; None if it may."""
    own, other = layered_package(module), layered_package(found.module)
    if found.is_for_types or own is None or other is None or own == other:
        return None
    if LAYER_OF[other] < LAYER_OF[own]:
        return None
    return f"{own} is not above {other}: see PYTHON_LAYERS"


def _refuse(package: str, found: Import) -> str | None:
    rule = PACKAGES[package]
    top = found.module.partition(".")[0]
    if top == "":
        return "is relative; imports name the package"
    if top == "msitd":
        for allowed in (package, *rule.ours):
            whole = package != "msitd" or allowed != "msitd"
            if whole and f"{found.module}.".startswith(f"{allowed}."):
                return None
        return f"{package} may not import that"
    if top in sys.stdlib_module_names or top == "__future__" or top in rule.at_top:
        return None
    if top not in (*rule.libraries, *_TYPING):
        return f"{package} may not use {top}"
    return None if found.is_late else "is imported before it is needed"
