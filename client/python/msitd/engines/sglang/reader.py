"""Imports the files that SGLang's dumper has written."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from msitd import formats
from msitd._core.client import Client
from msitd.engines.sglang.names import Place, place_of, tags_of_file

_MAX_BLOCK_S = 600.0
_RANKS_MAX = 1 << 20


@dataclass(frozen=True)
class _File:
    path: str
    step: int
    rank: int
    number: int
    name: str
    place: Place


@dataclass
class Imported:
    """The result of an import.

    Attributes:
        run: Name of the run.
        files: Number of files that were read.
        tensors: Number of tensors in the run.
        left_out: Number of files that were skipped, by reason.
    """

    run: str
    files: int = 0
    tensors: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def import_dumps(
    folder: str | os.PathLike[str],
    run: str | None = None,
    *,
    world_size: int | None = None,
    endpoint: str | None = None,
    if_exists: str = "fail",
) -> Imported:
    """Imports the folder of one experiment, DUMPER_DIR/EXP_NAME, into a run.

    Ops, steps and calls are those that `msitd.engines.sglang.dumper` assigns.
    No code in a file is executed; values other than tensors are skipped.

    Args:
        folder: Folder with the files of all ranks.
        run: Default: the name of the folder.
        world_size: Default: the number of ranks that have files.
        endpoint: See `msitd.Client`, as for `if_exists`.

    Raises:
        ValueError: The folder contains no dump files.
        OSError: The folder cannot be read.
        MsitError: The daemon refuses the data.
    """
    folder = os.fspath(folder)
    done = Imported(run or os.path.basename(os.path.abspath(folder)))
    ranks: dict[int, list[_File]] = {}
    for file in _files_of(folder, done.left_out):
        ranks.setdefault(file.rank, []).append(file)
    if not ranks:
        raise ValueError(f"{folder} has no file of a dump, such as step=0___rank=0…pt")
    size = max(ranks) + 1 if world_size is None else world_size
    for rank, files in sorted(ranks.items()):
        with Client(
            done.run,
            rank,
            size,
            endpoint,
            if_exists=if_exists,
            max_block=_MAX_BLOCK_S,
        ) as client:
            for file in sorted(files, key=lambda each: each.number):
                _record(client, file, done)
    return done


def _files_of(folder: str, left_out: Counter[str]) -> Iterator[_File]:
    for entry in os.scandir(folder):
        if not entry.name.endswith(".pt") or not entry.is_file():
            continue
        tags = tags_of_file(entry.name)
        try:
            step, rank = int(tags["step"]), int(tags["rank"])
            number, name = int(tags["dump_index"]), tags["name"]
        except (KeyError, ValueError):
            left_out["its name has no step, rank, dump_index and name"] += 1
            continue
        if step < 0 or not 0 <= rank < _RANKS_MAX:
            left_out["its name has a step or rank that none can be"] += 1
            continue
        yield _File(entry.path, step, rank, number, name, place_of(name, tags))


def _record(client: Client, file: _File, done: Imported) -> None:
    place = file.place
    count = 0
    try:
        dump = formats.read_dump_data(file.path)
        for tensor in dump.tensors:
            if tensor.problem:
                done.left_out[tensor.problem] += 1
                continue
            count += client.record(
                tensor.torch(),
                op=place.op,
                io=place.io,
                index=_index_of(tensor.name, file.name, place.index),
                token=file.step,
            )
    except (ValueError, OSError) as error:
        done.left_out[str(error).removeprefix(f"{file.path}: ")] += 1
        return
    if count == 0:
        if not dump.tensors:
            done.left_out["its value is no tensor"] += 1
        return
    if place.io == "output" and "dims" in dump.attributes:
        dims = dump.attributes["dims"]
        client.record_value(
            dims, op=place.op, io="state", index="dims", token=file.step
        )
    done.files += 1
    done.tensors += count


def _index_of(path: str, name: str, index: str) -> str:
    """Returns the index of a tensor at `path` in a file.

    Args:
        name: Name of the dump.
        index: Index of a tensor that is the whole dump.
    """
    if path in ("", name):
        return index
    rest = path.removeprefix(f"{name}.")
    return rest if index == "0" else f"{index}.{rest}"
