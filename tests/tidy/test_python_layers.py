"""The Python package follows its layers."""

import check_layers
import check_python_layers as layers
import pytest
from tree import project_files, read


def sources() -> list[str]:
    return [
        file
        for file in project_files()
        if file.startswith(layers.ROOT) and file.endswith(".py")
    ]


def test_packages_import_what_they_may() -> None:
    findings = []
    for file in sources():
        findings += layers.check(file, read(file))
    assert not findings, "\n".join(findings)


def test_every_package_is_there() -> None:
    modules = [layers.module_of(file) for file in sources()]
    assert {layers.package_of(module) for module in modules} == set(layers.PACKAGES)
    extensions = {"msitd._formats", "msitd._msit"}
    placed = {layers.layered_package(module) for module in modules}
    assert placed == set(layers.LAYER_OF) - extensions


def test_no_module_is_in_a_circle() -> None:
    edges = layers.imports_by_module({file: read(file) for file in sources()})
    assert check_layers.circle(edges) == []


def test_a_circle_of_modules_is_found() -> None:
    texts = {
        "msitd/llm/a.py": "def f():\n    from msitd.llm.b import B\n",
        "msitd/llm/b.py": "if TYPE_CHECKING:\n    from msitd.llm import a\n",
        "msitd/llm/c.py": "from msitd.llm.a import A\n",
    }
    sources = {f"{layers.ROOT}{file}": text for file, text in texts.items()}
    assert check_layers.circle(layers.imports_by_module(sources)) == [
        "msitd.llm.a",
        "msitd.llm.b",
        "msitd.llm.a",
    ]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("__init__.py", "from msitd._core.client import Client\n"),
        ("forcing.py", "def f():\n    import torch\n"),
        ("_core/leaf/a.py", "from msitd import _msit\nimport sys\n"),
        ("_core/api/a.py", "from msitd._core import patterns\n"),
        ("_core/module/a.py", "from msitd._core.graph.sites import Site\n"),
        (
            "_core/leaf/a.py",
            "if TYPE_CHECKING:\n    from msitd._core.client import Client\n",
        ),
        ("query/a.py", "from msitd._core.errors import MsitError\n"),
        ("query/a.py", "if TYPE_CHECKING:\n    import pandas\n"),
        ("query/a.py", "if TYPE_CHECKING:\n    from typing_extensions import Self\n"),
    ],
)
def test_checker_accepts(file: str, text: str) -> None:
    assert layers.check(f"{layers.ROOT}msitd/{file}", text) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("__init__.py", "from msitd import query\n"),
        ("_core/api/a.py", "from msitd import query\n"),
        ("_core/api/a.py", "def f():\n    from msitd.query import connect\n"),
        ("_core/api/a.py", "import torch\n"),
        ("_core/api/a.py", "from msitd import Client\n"),
        ("_core/api/a.py", "from . import hooks\n"),
        ("_core/new_module.py", "import sys\n"),
        ("_core/leaf/a.py", "from msitd._core.client import Client\n"),
        ("_core/leaf/a.py", "def f():\n    from msitd._core.graph import sites\n"),
        ("_core/api/a.py", "from msitd._core.module.hooks import HookHandle\n"),
        ("_core/gradient/a.py", "from msitd._core.module.steps import Steps\n"),
        ("injection.py", "def f():\n    from msitd._exec import recording\n"),
        ("query/a.py", "from msitd._core.client import Client\n"),
        ("query/a.py", "from msitd import _msit\n"),
        ("query/a.py", "import grpc\n"),
        ("query/a.py", "class A:\n    import numpy\n"),
        ("query/a.py", "def f():\n    import requests\n"),
        ("new_face/a.py", "import sys\n"),
        ("new_module.py", "import sys\n"),
        ("query/a.py", "x = 1\n" * 601),
    ],
)
def test_checker_refuses(file: str, text: str) -> None:
    assert layers.check(f"{layers.ROOT}msitd/{file}", text)
