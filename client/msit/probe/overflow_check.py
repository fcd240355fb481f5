"""Finds the calls in which NaN or infinities begin, for `msprobe overflow_check`.

msprobe runs this program in python3. Its arguments are the folder of a step, which has
folders of ranks, and the folder of the result.

A call is an origin if no maximum or minimum of its inputs is NaN or infinite, and one
of its outputs has such an extreme. Later origins on the same rank are ignored, and so
are origins on other ranks that a communication connects with an earlier one: a call
happens after another one if it follows it on its rank, or if a collective or a message
between both ranks lies between them.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DUMP_BYTES_MAX = 1 << 32
RANK = re.compile(r"rank(?P<rank>\d*)|proc(?P<process>\d+)")
# Results of these calls are memory that was not written yet.
IGNORED = re.compile(r"Torch\.(empty|fill)\.\d+\.")
COMMUNICATION = re.compile(r"Distributed\.(?P<name>\w+)\.(?P<call>\d+)\.forward")
SENDS = ("send", "isend")
RECEIVES = ("recv", "irecv")
PASS = re.compile(r"\.(forward|backward)(?:\.\d+)?$")
PARTS = {
    "forward": (("input_args", "input_kwargs", "input"), ("output",)),
    "backward": (("input",), ("output",)),
}


def log(level: str, text: str) -> None:
    """Writes a line in the format of msprobe."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    text = re.sub(r"[\x00-\x1f\x7f]", "_", text)
    print(f"{now} ({os.getpid()}) [{level}] {text}")


def is_bad(value: Any) -> bool:
    """Returns whether an extreme is NaN or infinite, also if it is a text."""
    if isinstance(value, str):
        return value.lower() in ("nan", "inf", "-inf", "infinity", "-infinity")
    return isinstance(value, float) and not math.isfinite(value)


def tensors_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yields the tensors in a part of a record."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            if "dtype" in each and "shape" in each:
                yield each
            else:
                waiting += each.values()


def pass_of(name: str) -> str:
    """Returns `forward` or `backward`. The names of modules may contain both words."""
    match = PASS.search(name)
    return match[1] if match else "forward"


def has_bad(record: dict[str, Any], parts: tuple[str, ...]) -> bool:
    """Returns whether a part of a record has a NaN or an infinity."""
    return any(
        is_bad(tensor.get("Max")) or is_bad(tensor.get("Min"))
        for part in parts
        for tensor in tensors_in(record.get(part))
    )


def read_json(path: Path) -> Any:
    """Returns the content of a file; `{}` if it does not exist."""
    if not path.exists():
        return {}
    if path.stat().st_size > DUMP_BYTES_MAX:
        raise ValueError(f"{path}: it has more than {DUMP_BYTES_MAX} bytes")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: it is not JSON: {error}") from None


class Rank:
    """The dump of a rank, in the order of its calls."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.folder = folder
        dump = read_json(folder / "dump.json")
        data = dump.get("data") if isinstance(dump, dict) else None
        if not isinstance(data, dict):
            text = f"{folder / 'dump.json'}: it has no data"
            raise ValueError(text)  # noqa: TRY004 - the file is wrong
        self.data: dict[str, Any] = {
            name: record for name, record in data.items() if isinstance(record, dict)
        }
        self.names = list(self.data)

    def has_bad_values(self) -> bool:
        """Returns whether any tensor has a NaN or an infinity."""
        return any(has_bad(record, tuple(record)) for record in self.data.values())

    def origin(self) -> int | None:
        """Returns the position of the first call in which bad values begin."""
        for position, name in enumerate(self.names):
            if IGNORED.match(name):
                continue
            inputs, outputs = PARTS[pass_of(name)]
            record = self.data[name]
            if has_bad(record, outputs) and not has_bad(record, inputs):
                return position
        return None

    def communications(self) -> dict[tuple[Any, ...], tuple[int, bool]]:
        """Returns the position of each communication, and whether this rank sends
        data, by the identity that all participants of one share.
        """
        found: dict[tuple[Any, ...], tuple[int, bool]] = {}
        counts: dict[tuple[Any, ...], int] = {}
        for position, name in enumerate(self.names):
            match = COMMUNICATION.match(name)
            if match is None:
                continue
            kind = self._kind(match["name"], self.data[name])
            counts[kind] = counts.get(kind, 0) + 1
            found[(*kind, counts[kind])] = position, match["name"] not in RECEIVES
        return found

    def _kind(self, name: str, record: dict[str, Any]) -> tuple[Any, ...]:
        keywords, positions = record.get("input_kwargs"), record.get("input_args")
        keywords = keywords if isinstance(keywords, dict) else {}
        positions = positions if isinstance(positions, list) else []

        def value_of(key: str) -> Any:
            leaf = keywords.get(key, positions[1] if len(positions) > 1 else None)
            value = leaf.get("value") if isinstance(leaf, dict) else None
            return value if isinstance(value, int) else None

        if name in SENDS:
            return "message", self.number, value_of("dst")
        if name in RECEIVES:
            return "message", value_of("src"), self.number
        leaves = [*keywords.values(), *positions]
        groups = [str(leaf["group_id"]) for leaf in leaves if _is_group(leaf)]
        return name, groups[0] if groups else None

    def describe(self, position: int) -> dict[str, Any]:
        """Returns the call as the result has it."""
        name = self.names[position]
        return {
            "op_name": name,
            "data_info": self.data[name],
            "construct_info": self._parents(name),
            "stack_info": self._stack(name),
        }

    def _parents(self, name: str) -> list[str]:
        parents = read_json(self.folder / "construct.json")
        chain = [name]
        while isinstance(parents, dict):
            above = parents.get(chain[0])
            # Under Megatron, the parent is in a list with the micro step.
            if isinstance(above, list) and above:
                above = above[0]
            if not isinstance(above, str) or above in chain:
                break
            chain.insert(0, above)
        return chain

    def _stack(self, name: str) -> list[Any]:
        stacks = read_json(self.folder / "stack.json")
        if not isinstance(stacks, dict):
            return []
        for key, value in stacks.items():
            if not isinstance(value, list):
                continue
            is_group = len(value) == 2 and all(isinstance(each, list) for each in value)
            if is_group and name in value[0]:
                return list(value[1])
            if key == name:
                return value
        return []


def _is_group(leaf: Any) -> bool:
    return isinstance(leaf, dict) and "group_id" in leaf


def reach(
    ranks: list[Rank],
    shared: list[list[tuple[int, int, bool]]],
    index: int,
    origin: int,
) -> dict[int, int]:
    """Returns the first position on every rank that an origin can affect."""
    reached = {index: origin}
    is_changed = True
    while is_changed:
        is_changed = False
        for members in shared:
            if not any(
                is_source and at >= reached.get(i, len(ranks[i].names))
                for i, at, is_source in members
            ):
                continue
            for i, at, is_source in members:
                is_sender = is_source and not all(each[2] for each in members)
                if not is_sender and at < reached.get(i, len(ranks[i].names)):
                    reached[i] = at
                    is_changed = True
    return reached


def first_origins(ranks: list[Rank]) -> dict[int, int]:
    """Returns the first origin of each rank that no origin of another rank affects."""
    places: dict[tuple[Any, ...], list[tuple[int, int, bool]]] = {}
    for index, rank in enumerate(ranks):
        for identity, (position, is_source) in rank.communications().items():
            places.setdefault(identity, []).append((index, position, is_source))
    shared = [each for each in places.values() if len(each) > 1]
    origins = {}
    for index, rank in enumerate(ranks):
        origin = rank.origin()
        if origin is not None:
            origins[index] = origin
    reached = {i: reach(ranks, shared, i, origin) for i, origin in origins.items()}

    def affects(i: int, j: int) -> bool:
        return origins[j] >= reached[i].get(j, len(ranks[j].names))

    return {
        j: origin
        for j, origin in origins.items()
        # In a collective, both ranks affect each other.
        if not any(i != j and affects(i, j) and not affects(j, i) for i in origins)
    }


def ranks_in(folder: Path) -> list[Rank]:
    """Returns the ranks of a step, by their numbers."""
    found = []
    for path in folder.iterdir():
        match = RANK.fullmatch(path.name)
        if match is not None and (path / "dump.json").is_file():
            found.append((int(match["rank"] or match["process"] or 0), path))
    return [Rank(number, path) for number, path in sorted(found)]


def keys_of(ranks: list[Rank]) -> list[str]:
    """Returns a key for each rank, with its folder if another one has its number."""
    numbers = [rank.number for rank in ranks]
    return [
        f"rank_{rank.number}"
        if numbers.count(rank.number) == 1
        else f"rank_{rank.number} ({rank.folder.name})"
        for rank in ranks
    ]


def write(folder: Path, found: dict[str, Any]) -> Path:
    """Writes the result, completely or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"anomaly_analyze_{time.time_ns()}.json"
    temporary = folder / f".{path.name}.{os.getpid()}"
    try:
        temporary.write_text(json.dumps(found, indent=2))
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def main(step: str, output: str) -> int:
    """Analyzes a step. Returns the exit code."""
    try:
        ranks = ranks_in(Path(step))
        if not ranks:
            raise ValueError(f"{step}: it has no folder of a rank with a dump.json")
        origins = first_origins(ranks)
        if not origins:
            bad = sum(rank.has_bad_values() for rank in ranks)
            log(
                "WARNING" if bad else "INFO",
                f"{bad} of {len(ranks)} ranks have NaN or infinities, but no call in "
                "which they begin; no file is written",
            )
            return 0
        keys = keys_of(ranks)
        found = {
            keys[i]: [ranks[i].describe(origin)]
            for i, origin in sorted(origins.items())
        }
        path = write(Path(output), found)
    except (OSError, ValueError) as error:
        print(f"msprobe: {error}", file=sys.stderr)
        return 1
    for name, calls in found.items():
        log("INFO", f"{name}: NaN or infinities begin in {calls[0]['op_name']}")
    log("INFO", f"The analyze result is saved in: {path}")
    return 0


sys.exit(main(*sys.argv[1:]))
