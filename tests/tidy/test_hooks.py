"""No hook of the Python package raises an exception into the program."""

import check_hooks
import pytest
from tree import project_files, read


def test_hooks_are_guarded() -> None:
    findings = []
    for file in project_files():
        if file.startswith(check_hooks.ROOT) and file.endswith(".py"):
            findings += check_hooks.check(file, read(file))
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    tensor.register_hook(skips.guarded(hook, op))\n",
        "def f():\n    hook = GuardedHook(g, h)\n    node.register_prehook(hook)\n",
        "def f():\n    register_hook(model, client)\n",
    ],
)
def test_checker_accepts(text: str) -> None:
    assert check_hooks.check("client/python/msitd/a.py", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    tensor.register_hook(hook)\n",
        "def f():\n    module.register_forward_hook(lambda *_: None)\n",
        "def f(hook):\n    def g():\n        hook = guarded(h)\n    node.register_hook(hook)\n",
        "queue_callback(self._end)\n",
    ],
)
def test_checker_refuses(text: str) -> None:
    assert len(check_hooks.check("client/python/msitd/a.py", text)) == 1
