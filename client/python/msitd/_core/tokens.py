"""The tokens that the hooks of a client record.

Code of this package names tokens by references, which `_msit.Client.token`
returns; see msit_token_reference in msit.h. References are token numbers,
except for a client that appends and does not wait for the daemon. The tokens of
such a client get their numbers with the first answer of the daemon.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msitd import _msit

# The reference to the first token of a client whose tokens have no numbers yet.
FIRST_REFERENCE = 1 << 60


class CountedTokens(Collection[int]):
    """References to tokens that the user counted from the first token of a client."""

    def __init__(self, tokens: Collection[int]) -> None:
        self._tokens = tokens

    def __contains__(self, token: object) -> bool:
        return isinstance(token, int) and token - FIRST_REFERENCE in self._tokens

    def __iter__(self) -> Iterator[int]:
        return (FIRST_REFERENCE + token for token in self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)


def references(
    native: _msit.Client, tokens: Collection[int] | None
) -> Collection[int] | None:
    """Returns the tokens that a user selects, as `_msit.Client.token` names them.

    The first token of a client that has not waited for the daemon counts as 0
    here, because its number is not known yet.
    """
    if tokens is None or native.token() < FIRST_REFERENCE:
        return tokens
    return CountedTokens(tokens)
