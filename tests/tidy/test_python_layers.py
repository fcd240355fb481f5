"""The Python package follows its layers."""

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
    found = {layers.package_of(layers.module_of(file)) for file in sources()}
    assert found == set(layers.PACKAGES)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("__init__.py", "from msitd._core.client import Client\n"),
        ("forcing.py", "def f():\n    import torch\n"),
        ("_core/a.py", "from msitd import _msit\nimport sys\n"),
        ("_core/a.py", "from msitd._core import compiled\n"),
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
        ("_core/a.py", "from msitd import query\n"),
        ("_core/a.py", "def f():\n    from msitd.query import connect\n"),
        ("_core/a.py", "import torch\n"),
        ("_core/a.py", "from msitd import Client\n"),
        ("_core/a.py", "from . import hooks\n"),
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
