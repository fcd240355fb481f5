"""Heavy foreign headers, compiled once for all sources that include them.

A source is compiled with a set of headers if it, together with the headers of
ours that it includes, names each header of the set. It then compiles with the
set only if it would also compile without it, because the set contains nothing
that the source does not include itself.
"""

import re
import shlex
import subprocess
from collections import Counter
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SERVICES = ("attachment", "capture", "comparison", "node", "run", "tensor")
_STATUS = ("absl/status/statusor.h", "fmt/format.h")
_STUBS = tuple(f"msitd/v1/{name}_service.grpc.pb.h" for name in _SERVICES)

# The first matching set is used.
SETS: tuple[tuple[str, ...], ...] = (
    (*_STATUS, *_STUBS, "CLI/CLI.hpp"),
    (*_STATUS, *_STUBS),
    (*_STATUS, "msitd/v1/comparison_service.pb.h"),
    ("msitd/v1/comparison_service.pb.h",),
    (*_STATUS, "nlohmann/json.hpp"),
    _STATUS,
    ("absl/status/statusor.h",),
    ("CLI/CLI.hpp",),
    ("fmt/format.h",),
)
# A set is not worthwhile for fewer sources.
SOURCES_MIN = 6

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
# Options whose value is the next word, and that apply to one source only.
_OF_ONE_SOURCE = ("-o", "-MT", "-MF")
_ALONE = ("-c", "-MD")


@dataclass
class Includes:
    """The headers that files below some folders include, directly and indirectly."""

    folders: list[Path]
    _known: dict[Path, tuple[list[Path], list[str]]] = field(default_factory=dict)

    def of(self, source: Path) -> set[str]:
        """Returns the foreign headers that a source reaches."""
        seen = {source}
        open_files = [source]
        foreign: set[str] = set()
        while open_files:
            ours, others = self._direct(open_files.pop())
            foreign.update(others)
            open_files.extend(file for file in ours if file not in seen)
            seen.update(ours)
        return foreign

    def _direct(self, file: Path) -> tuple[list[Path], list[str]]:
        if file not in self._known:
            ours, others = [], []
            for name in _INCLUDE.findall(file.read_text(encoding="utf-8")):
                found = next((f for f in self._places(name) if f.is_file()), None)
                others.append(name) if found is None else ours.append(found)
            self._known[file] = ours, others
        return self._known[file]

    def _places(self, name: str) -> list[Path]:
        return [folder / name for folder in self.folders]


def set_for(headers: set[str]) -> tuple[str, ...]:
    """Returns the set for a source that reaches `headers`; empty if none matches."""
    return next((s for s in SETS if headers.issuperset(s)), ())


def without_source(command: list[str], source: str) -> list[str]:
    """Returns a compiler command without the parts for one source."""
    words: list[str] = []
    rest = iter(command)
    for word in rest:
        if word in _OF_ONE_SOURCE:
            next(rest, None)
        elif word not in _ALONE and word != source:
            words.append(word)
    return words


def _group(options: list[str]) -> tuple[str, ...]:
    """Returns the options for which a set is compiled; folders do not matter."""
    return tuple(w for w in options if not w.startswith(("-I", "-isystem", "/")))


# The headers of a set, and the options that it is compiled for.
_Key = tuple[tuple[str, ...], tuple[str, ...]]


class Precompiled:
    """The worthwhile sets for the sources of one build.

    Args:
        entries: The entries of compile_commands.json, with the words of each
            command.
        includes: See Includes.
        folder: Output folder of the sets.
        pool: Compiles the sets.
    """

    def __init__(
        self,
        entries: list[tuple[dict[str, Any], list[str]]],
        includes: Includes,
        folder: Path,
        pool: Executor,
    ) -> None:
        self._keys: dict[str, _Key] = {}
        # The command and the folder with which one of the sources is compiled.
        makers: dict[_Key, tuple[list[str], str]] = {}
        for entry, words in entries:
            headers = set_for(includes.of(Path(entry["file"])))
            if headers:
                options = without_source(words, entry["file"])
                key = (headers, _group(options))
                self._keys[entry["file"]] = key
                makers.setdefault(key, (options, entry["directory"]))
        counts = Counter(self._keys.values())
        self._files = {
            key: folder / f"set-{number}.h"
            for number, key in enumerate(makers)
            if counts[key] >= SOURCES_MIN
        }
        jobs = [
            pool.submit(_make, file, key[0], *makers[key])
            for key, file in self._files.items()
        ]
        for job in jobs:
            job.result()

    def options(self, source: str) -> list[str]:
        """Returns the compiler options for a source."""
        key = self._keys.get(source)
        file = None if key is None else self._files.get(key)
        return [] if file is None else ["-include", str(file)]


def _make(
    file: Path, headers: tuple[str, ...], options: list[str], directory: str
) -> None:
    text = "".join(f"#include <{header}>\n" for header in headers)
    file.write_text(text, encoding="utf-8")
    # If that fails, the compiler reads the headers themselves.
    command = [*options, "-w", "-x", "c++-header", str(file), "-o", f"{file}.gch"]
    subprocess.run(command, cwd=directory, capture_output=True, check=False)


def words_of(command: str) -> list[str]:
    """Returns the words of a command, without the cache before the compiler."""
    words = shlex.split(command)
    return words[1:] if Path(words[0]).name == "ccache" else words
