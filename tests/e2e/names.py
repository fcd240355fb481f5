"""Resource names of tensors, as the API documents them."""

import re


def tensor_name(
    run: str,
    op: str,
    *,
    rank: int = 0,
    device: str = "cpu:0",
    token: int = 0,
    call: int = 0,
    io: str = "output",
    index: str = "0",
) -> str:
    """Returns the resource name of a tensor."""
    return (
        f"runs/{escape(run)}/ranks/{rank}/devices/{escape(device)}/tokens/{token}"
        f"/ops/{escape(op)}/calls/{call}/{io}/{escape(index)}"
    )


def escape(component: str) -> str:
    """Percent-encodes slashes, percent signs, blanks and control characters."""
    return re.sub(r"[\x00-\x20/%\x7f]", lambda m: f"%{ord(m[0]):02X}", component)
