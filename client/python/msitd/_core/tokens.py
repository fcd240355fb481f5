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


class Numbering:
    """Whether the program numbers the tokens of a client itself.

    A program that sets the token, for example to its training step, means these
    numbers when it selects tokens. Otherwise tokens are counted from the first one of
    the client.
    """

    def __init__(self) -> None:
        self.is_by_program = False


class CountedTokens(Collection[int]):
    """References to the tokens that a user selects before their numbers are known."""

    def __init__(
        self, native: _msit.Client, numbering: Numbering, tokens: Collection[int]
    ) -> None:
        self._native = native
        self._numbering = numbering
        self._tokens = tokens

    def _first(self) -> int:
        """Returns what the user calls the first token of the client."""
        if not self._numbering.is_by_program:
            return 0
        return self._native.token_number(FIRST_REFERENCE)

    def __contains__(self, token: object) -> bool:
        return (
            isinstance(token, int)
            and token - FIRST_REFERENCE + self._first() in self._tokens
        )

    def __iter__(self) -> Iterator[int]:
        first = self._first()
        return (FIRST_REFERENCE + token - first for token in self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)


def references(
    native: _msit.Client, numbering: Numbering, tokens: Collection[int] | None
) -> Collection[int] | None:
    """Returns the tokens that a user selects, as `_msit.Client.token` names them.

    The first token of a client that has not waited for the daemon is 0 here, because
    its number is not known, unless the program sets the numbers of tokens itself.
    """
    if tokens is None or native.token() < FIRST_REFERENCE:
        return tokens
    return CountedTokens(native, numbering, tokens)
