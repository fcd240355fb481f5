"""Documents: links resolve, module folders have a README, examples are real."""

import fnmatch
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
_ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>$', re.MULTILINE)
_FENCE = re.compile(r"```.*?```", re.DOTALL)
_HEX_LINE = re.compile(
    r"^([0-9a-f]{8})((?: [0-9a-f]{2}){1,16})(?:\s{2,}.*)?$", re.MULTILINE
)


def anchors(text: str) -> set[str]:
    """Returns the anchors of a Markdown text: of headings, and explicit ones."""
    out = set(_ANCHOR.findall(_FENCE.sub("", text)))
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
        out.add(plain.strip().replace(" ", "-"))
    return out


def check_links(file: str, text: str, files: dict[str, str | None]) -> list[str]:
    """Returns the broken links of a Markdown text.

    `files` has every file of the project and, for Markdown, its text.
    """
    findings = []
    for target in _LINK.findall(_FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        resolved = _resolve(file, path) if path else file
        is_folder = any(f.startswith(resolved.rstrip("/") + "/") for f in files)
        if resolved not in files and not is_folder:
            findings.append(f"{file}: {target} leads nowhere")
        elif anchor and anchor not in anchors(files.get(resolved) or ""):
            findings.append(f"{file}: {target} has no such heading")
    return findings


def _resolve(file: str, path: str) -> str:
    parts: list[str] = []
    for part in (PurePosixPath(file).parent / path).parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def without_code(text: str) -> str:
    """Returns a Markdown text with code blocks emptied, line by line."""
    return _FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)


def broken_tables(file: str, text: str) -> list[str]:
    """Returns rows of tables that a blank line separates from their header."""
    lines = text.splitlines()
    findings = []
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else ""
        after = lines[number + 1] if number + 1 < len(lines) else ""
        begins = line.startswith("|") and not before.startswith("|")
        if begins and not re.fullmatch(r"\|[-| :]+\|", after):
            findings.append(f"{file}:{number + 1}: a row of no table")
    return findings


def hex_example(text: str) -> dict[int, int]:
    """Returns offset -> byte for all `xxd -g1` style lines of a Markdown text."""
    out: dict[int, int] = {}
    for offset, row in _HEX_LINE.findall(text):
        for i, byte in enumerate(bytes.fromhex(row)):
            out[int(offset, 16) + i] = byte
    return out


def modules_without_readme(files: list[str], modules: list[str]) -> list[str]:
    """Returns the modules that have sources but no README.md."""
    return [
        m
        for m in modules
        if any(
            f.startswith(m + "/") and f.endswith((".cc", ".h", ".py")) for f in files
        )
        and f"{m}/README.md" not in files
    ]


def unnamed_modules(text: str, modules: list[str]) -> list[str]:
    """Returns the modules that a Markdown text does not name in backquotes."""
    return [m for m in modules if f"`{m}`" not in text]


_OUR_PATH = r"(?:protos|storage|daemon|client|tests|deploy|docs)/[\w/.-]+"
# In a diff, a comment that names a file which exists before the change.
_NAMED_PATH = re.compile(rf"`({_OUR_PATH})`|^ // ({_OUR_PATH}\.\w+)", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b")


def absent_paths(text: str, files: list[str]) -> list[str]:
    """Returns the files and folders of our layers that a text names but that do
    not exist.
    """
    named = [quoted or in_diff for quoted, in_diff in _NAMED_PATH.findall(text)]
    known = set(files)
    return [
        path
        for path in dict.fromkeys(named)
        if not _PLACEHOLDER.search(path)
        and path not in known
        and not any(f.startswith(path.rstrip("/") + "/") for f in files)
    ]


# The first cell of the header of a table that lists files or folders.
_LISTING = ("checker", "file", "folder", "room", "source")


def _listed(text: str) -> list[str]:
    """Returns the names in the first column of the tables of files and folders."""
    names: list[str] = []
    is_listing = False
    rows = without_code(text).splitlines()
    for row, after in zip(rows, [*rows[1:], ""], strict=True):
        cell = row[1:].partition("|")[0].strip() if row.startswith("|") else None
        if cell is None:
            is_listing = False
        elif re.fullmatch(r"\|[-| :]+\|", after):
            is_listing = cell in _LISTING
        elif is_listing:
            names += re.findall(r"`([^`]+)`", cell)
    return names


def absent_in_tables(file: str, text: str, files: Iterable[str]) -> list[str]:
    """Returns the names in the tables of a README that are not in its folder.

    A name can omit the suffix of a file, can be a pattern, and can be a path from
    the root of the project.
    """
    start = file.rpartition("/")[0] + "/"
    inside = [f.removeprefix(start) for f in files if f.startswith(start)]
    folders = {str(parent) for f in inside for parent in PurePosixPath(f).parents}
    stems = {re.sub(r"\.\w+$", "", f) for f in inside}
    known = folders | stems | set(inside)

    def exists(name: str) -> bool:
        name = name.rstrip("/")
        if any(f == name or f.startswith(name + "/") for f in files):
            return True
        return bool(fnmatch.filter(known, name))

    return [
        f"{file}: {name} is not in its folder"
        for name in _listed(text)
        if re.fullmatch(r"[\w./*-]+", name)
        and not _PLACEHOLDER.search(name)
        and not exists(name)
    ]


def unnamed_folders(folder: str, text: str, files: Iterable[str]) -> list[str]:
    """Returns the folders directly in `folder` that its page does not name.

    A folder is named by its name or a path in it, in backquotes or as a link.
    """
    start = folder + "/" if folder else ""
    names = {f[len(start) :].partition("/")[0] for f in files if f.startswith(start)}
    found = {n for n in names if any(f.startswith(f"{start}{n}/") for f in files)}
    return [
        f"{start}{name} is not named"
        for name in sorted(found)
        if not re.search(
            rf"(?:`|\]\()(?:{re.escape(start)})?{re.escape(name)}(?:[`/)])", text
        )
    ]
