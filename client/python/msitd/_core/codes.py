"""Maps the return codes of libmsit to exceptions."""

from __future__ import annotations

from msitd import _msit
from msitd._core.errors import MsitError


def raise_for(code: int) -> None:
    """Raises the exception for the return code of the last call of libmsit,
    unless it is OK.
    """
    if code == _msit.OK:
        return
    message = _msit.last_error()
    if code == _msit.INVALID_ARGUMENT:
        raise ValueError(message)
    if code == _msit.TIMEOUT:
        raise TimeoutError(message)
    raise MsitError(message)
