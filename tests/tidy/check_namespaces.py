"""Namespaces of the clients are named after their folders.

A product has one namespace for all of its rooms; each room of client/foreign has its
own. Forward declarations of other namespaces are allowed.
"""

import re

# client/foreign is not listed: its rooms have a namespace each.
PRODUCTS = {
    "ask": "ask",
    "libmsit": "libmsit",
    "msitctl": "msitctl",
    # `msit` is the namespace of the public header msit.hpp.
    "msit": "msit_command",
    "python": "python",
}

_BLOCK = re.compile(
    r"^namespace msitd::(\w+) \{\n(.*?)^\}  // namespace msitd::\1$",
    re.DOTALL | re.MULTILINE,
)
_FORWARD = re.compile(r"(?:\s*(?:class|struct|enum class) \w+(?: : \w+)?;)*\s*")


def namespace_of(file: str) -> str | None:
    """Returns the namespace below msitd that a file declares names in, if any."""
    parts = file.removeprefix("tests/unit/").split("/")
    if parts[0] != "client" or len(parts) < 3:
        return None
    if parts[1] == "foreign":
        return parts[2]
    return PRODUCTS.get(parts[1])


def check(file: str, text: str) -> list[str]:
    """Returns what is wrong with the namespaces of one source."""
    wanted = namespace_of(file)
    if wanted is None:
        return []
    # Messages of an API are forward-declared, and given printers in tests.
    return [
        f"{file}: namespace msitd::{name}, msitd::{wanted} by its folder"
        for name, body in _BLOCK.findall(text)
        if name not in (wanted, "v1") and not _FORWARD.fullmatch(body)
    ]
