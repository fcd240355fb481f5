"""Lists of daemons, in the syntax of `msitctl --endpoints`."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from msitd.query.connection import target_of

# The same as in client/ask/fanout. Each node needs a thread and a channel.
NODES_MAX = 1024
NODE_PORT = 7741

_DNS = "dns:///"
_SLURM = "slurm:"
_FILE_BYTES_MAX = 1 << 20
_PIECES = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True)
class NodeAddress:
    """The address of one daemon."""

    endpoint: str
    host: str = ""
    """For a name with several addresses: the host name in the certificate."""


def parse_nodes(lists: str | Iterable[str]) -> tuple[NodeAddress, ...]:
    """Parses lists of endpoints, `dns:///HOST:PORT`, `slurm:` or `slurm:PORT`.

    Returns each node once, in the order of the lists.

    Raises:
        ValueError: A list is invalid, or names no node or more than 1024.
        OSError: A name has no address.
    """
    found: dict[str, NodeAddress] = {}
    for text in (lists,) if isinstance(lists, str) else lists:
        for part in _split(text):
            for node in _nodes_of(part):
                found.setdefault(node.endpoint, node)
                _check_count(len(found))
    if not found:
        raise ValueError("the list names no node")
    return tuple(found.values())


def read_nodes(path: str | os.PathLike[str]) -> tuple[NodeAddress, ...]:
    """Reads a file with one list per line; `#` starts a comment.

    Raises:
        ValueError: See `parse_nodes`; or the file is larger than 1 MiB.
        OSError: The file cannot be read, or see `parse_nodes`.
    """
    with Path(path).open("rb") as file:
        data = file.read(_FILE_BYTES_MAX + 1)
    if len(data) > _FILE_BYTES_MAX:
        raise ValueError(f"{path} has more than {_FILE_BYTES_MAX} bytes")
    lines = data.decode(errors="replace").splitlines()
    return parse_nodes(line.partition("#")[0] for line in lines)


def expand_hosts(text: str) -> list[str]:
    """Expands `node[01-03,7],gpu5`, the notation of Slurm, to host names.

    Raises:
        ValueError: `text` is not such a list, or is empty or too long.
    """
    out: list[str] = []
    for part in _split(text):
        choices: list[list[str]] = []
        count = 1
        for numbers, plain in _PIECES.findall(part):
            choices.append([plain] if plain else _expand_ranges(numbers))
            count *= len(choices[-1])
            _check_count(len(out) + count)
        out += ("".join(pieces) for pieces in product(*choices))
    if not out:
        raise ValueError("the list of nodes is empty")
    return out


def _split(text: str) -> Iterator[str]:
    """Yields the parts between commas that are outside brackets."""
    if not re.fullmatch(r"[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*", text):
        raise ValueError(f"{text!r}: the brackets are not balanced")
    for part in re.split(r",(?![^\[]*\])", text):
        if part.strip():
            yield part.strip()


def _expand_ranges(text: str) -> list[str]:
    out: list[str] = []
    for part in filter(None, text.split(",")):
        match = _RANGE.fullmatch(part)
        first = int(match[1]) if match else 0
        last = int(match[2] or first) if match else -1
        if match is None or last < first:
            raise ValueError(f"{part!r} is not a range of numbers")
        _check_count(len(out) + last - first + 1)
        out += (f"{n:0{len(match[1])}}" for n in range(first, last + 1))
    if not out:
        raise ValueError(f"[{text}] is empty")
    return out


def _check_count(count: int) -> None:
    if count > NODES_MAX:
        raise ValueError(f"more than {NODES_MAX} nodes")


def _nodes_of(part: str) -> Iterator[NodeAddress]:
    if part.startswith(_SLURM):
        yield from _nodes_of_job(part.removeprefix(_SLURM))
    elif part.startswith(_DNS):
        yield from _nodes_of_name(part.removeprefix(_DNS))
    elif "@" in part:
        raise ValueError(f"{part!r}: an endpoint in a list must not contain @")
    else:
        target_of(part)
        yield NodeAddress(part)


def _nodes_of_job(port: str) -> Iterator[NodeAddress]:
    number = int(port or NODE_PORT) if port.isascii() and port.isdigit() else 0
    if port == "":
        number = NODE_PORT
    if not 1 <= number <= 65535:
        raise ValueError(f"slurm:{port}: the port is not in 1..65535")
    for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        if os.environ.get(name):
            for host in expand_hosts(os.environ[name]):
                yield NodeAddress(f"{host}:{number}")
            return
    raise ValueError(
        "slurm: neither SLURM_JOB_NODELIST nor SLURM_NODELIST is set: this is not a "
        "Slurm job"
    )


def _nodes_of_name(name: str) -> Iterator[NodeAddress]:
    target_of(name)
    host, _, port = name.rpartition(":")
    host = host.strip("[]")
    found = set()
    for family, _, _, _, address in socket.getaddrinfo(
        host, int(port), type=socket.SOCK_STREAM
    ):
        form = "[{}]:{}" if family is socket.AF_INET6 else "{}:{}"
        found.add(form.format(address[0], port))
    # Sorted, because name servers return the addresses in varying order.
    for endpoint in sorted(found):
        yield NodeAddress(endpoint, host)
