"""Checks that functions which the Python package passes to torch raise nothing.

Arguments of torch functions that register hooks must be made by `guarded` of
`msitd._core.guard`, directly or through a name that the same function binds to
it.
"""

import ast
from collections.abc import Iterator

ROOT = "client/python/msitd/"

# Functions that register their first argument.
REGISTERING = frozenset(
    {
        "queue_callback",
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
        "register_hook",
        "register_load_state_dict_post_hook",
        "register_module_forward_hook",
        "register_module_forward_pre_hook",
        "register_module_full_backward_hook",
        "register_module_module_registration_hook",
        "register_multi_grad_hook",
        "register_optimizer_step_post_hook",
        "register_optimizer_step_pre_hook",
        "register_post_accumulate_grad_hook",
        "register_prehook",
        "register_step_post_hook",
        "register_step_pre_hook",
        "saved_tensors_hooks",
    }
)

GUARDS = frozenset({"GuardedHook", "_guarded", "guarded"})

# Hooks that catch their exceptions themselves, by file.
THEMSELVES = {
    # Other code recognizes it by its class.
    "_core/gradient/gradients.py": frozenset({"_OutputHook"}),
    # Dynamo must know the function.
    "_core/module/optimizers.py": frozenset({"_tell"}),
    # Another frame for each call of each module would be slow.
    "_core/module/placed_hooks.py": frozenset({"UncopiedHook"}),
}


def check(file: str, text: str) -> list[str]:
    """Returns the violations in the source text of a file below ROOT."""
    tree = ast.parse(text)
    allowed = GUARDS | THEMSELVES.get(file.removeprefix(ROOT), frozenset())
    findings = []
    for function, call in _registrations(tree):
        hook = call.args[0]
        name = _name_of(hook.func) if isinstance(hook, ast.Call) else _name_of(hook)
        if name in allowed or name in _bound_to(function, allowed):
            continue
        findings.append(
            f"{file}:{call.lineno}: {ast.unparse(hook)} is registered as a hook and "
            "not guarded: see client/python/msitd/_core/guard.py"
        )
    return findings


def _registrations(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.Call]]:
    """Yields the calls that register hooks, each with the function that contains it."""
    functions: list[ast.AST] = [tree]
    functions += [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    for function in functions:
        for node in _own_nodes(function):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            # register_hook(model, client) is msitd's own function.
            is_ours = (
                isinstance(node.func, ast.Name) and node.func.id == "register_hook"
            )
            if _name_of(node.func) in REGISTERING and not is_ours:
                yield function, node


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes of a function, without those of nested functions."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _own_nodes(child)


def _bound_to(function: ast.AST, makers: frozenset[str]) -> set[str]:
    """Returns the names that a function binds to the result of one of `makers`.

    An argument that is annotated with such a class counts, too.
    """
    names = set()
    for node in _own_nodes(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if _name_of(node.value.func) in makers:
                names |= {_name_of(target) for target in node.targets}
        elif isinstance(node, ast.arguments):
            names |= {
                argument.arg
                for argument in node.args
                if argument.annotation is not None
                and _name_of(argument.annotation) in makers
            }
    return names


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""
