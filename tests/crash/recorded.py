"""The tensors of a rank, whose bytes are derived from their keys."""

import hashlib
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

KIB = 1 << 10
MIB = 1 << 20
OPS_MAX = 5
# Interval in tokens at which the first op has the same bytes again.
REPEAT_TOKENS = 4
REPEATED_BYTES = 50_000


@dataclass(frozen=True, order=True)
class Key:
    """The key of a tensor for one seed."""

    run: str
    rank: int
    token: int
    op: str


def ops_of(seed: int, run: str, rank: int, token: int) -> list[str]:
    """Returns the ops that a rank records in a token."""
    rng = random.Random(f"{seed}/{run}/{rank}/{token}")
    return [f"op.{i}" for i in range(rng.randint(1, OPS_MAX))]


def tensor_bytes(seed: int, key: Key) -> bytes:
    """Returns the bytes of a tensor: usually small, sometimes of several parts."""
    if key.op == "op.0" and key.token % REPEAT_TOKENS == 0:
        rng = random.Random(f"{seed}/{key.run}/repeated")
        return rng.randbytes(REPEATED_BYTES)
    rng = random.Random(f"{seed}/{key.run}/{key.rank}/{key.token}/{key.op}")
    size_max = rng.choices(
        (4 * KIB, 64 * KIB, MIB, 5 * MIB), weights=(800, 180, 17, 3)
    )[0]
    return rng.randbytes(rng.randint(0, size_max))


def hash_of(data: bytes) -> str:
    """Returns the hash as ledgers store it."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass
class Entries:
    """The content of one ledger."""

    # Tokens that may have recorded tensors.
    begun: set[int] = field(default_factory=set)
    # Acknowledged tensors: (token, op) to hash.
    acknowledged: dict[tuple[int, str], str] = field(default_factory=dict)


class Ledger:
    """The log of what one rank did, in a file that only grows.

    `begin` is written before the first record of a token, `ack` after the
    acknowledgement. Any thread may write, and any number of readers may read.
    An unfinished line, from a rank that was killed while it wrote, does not
    count. The daemon does not access the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, token: int) -> None:
        """Logs that tensors of the token may exist from now on."""
        self._append(f"begin {token}\n")

    def acknowledge(self, tensors: list[tuple[int, str, str]]) -> None:
        """Logs that tensors (token, op, hash) are durable."""
        self._append("".join(f"ack {t} {op} {digest}\n" for t, op, digest in tensors))

    def read(self) -> Entries:
        """Returns the contents of all complete lines."""
        entries = Entries()
        if not self.path.exists():
            return entries
        text = self.path.read_text()
        for line in text[: text.rfind("\n") + 1].splitlines():
            word, token, *rest = line.split()
            if word == "begin":
                entries.begun.add(int(token))
            else:
                op, digest = rest
                entries.acknowledged[int(token), op] = digest
        return entries

    def cut_torn_line(self) -> None:
        """Removes an unfinished line, before another rank continues the file."""
        if self.path.exists():
            data = self.path.read_bytes()
            os.truncate(self.path, data.rfind(b"\n") + 1)

    def _append(self, text: str) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            data = text.encode()
            assert os.write(file, data) == len(data)
        finally:
            os.close(file)
