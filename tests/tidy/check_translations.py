"""Translations keep in step with the pages that they translate.

A translation has the code blocks, headings, tables, lists, links and code spans of its
page. It is written for its readers, so sentences are not compared: a changed sentence
of a page without any of these goes unnoticed.

Usage: check_translations.py         prints what differs
       check_translations.py --copy  copies the code blocks of pages to translations
                                     that have as many
"""

import re
import sys
import unicodedata
from collections import Counter
from itertools import pairwise, zip_longest
from pathlib import PurePosixPath
from posixpath import normpath, relpath

from check_docs import without_code
from tree import ROOT, project_files, read

LANGUAGE = "zh-CN"
# A last section that only the translation of README.md has.
GLOSSARY = "## 术语"
WIDTH = 88

_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[(?:[^\]`]|`[^`]*`)*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`]+)`")
_TO_TRANSLATION = "[中文]({})"
_TO_ORIGINAL = "[English]({})"


def original_of(file: str) -> str | None:
    """Returns the page that a file translates, None for other files."""
    path = PurePosixPath(file)
    if file.endswith(f".{LANGUAGE}.md"):
        return file.removesuffix(f".{LANGUAGE}.md") + ".md"
    if path.parent.name == LANGUAGE and path.suffix == ".md":
        return str(path.parent.parent / path.name)
    return None


def translation_pairs(files: list[str]) -> dict[str, str]:
    """Returns original -> translation for all translations among the files."""
    return {page: f for f in files if (page := original_of(f)) is not None}


def outline(text: str) -> list[tuple[str, str]]:
    """Returns the headings, code blocks, tables and lists of a page, in order."""
    out: list[tuple[str, str]] = []
    at = 0
    for fence in _FENCE.finditer(text):
        out += _outline_of_prose(text[at : fence.start()])
        out.append(("code block", fence[0]))
        at = fence.end()
    return out + _outline_of_prose(text[at:])


def _outline_of_prose(text: str) -> list[tuple[str, str]]:
    out = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.split("\n")
        # An anchor of its own precedes the heading.
        if lines[0].startswith("<a "):
            lines = lines[1:] or [""]
        if heading := re.match(r"#+ ", lines[0]):
            out.append(("heading", heading[0].strip()))
        elif lines[0].startswith("|"):
            cells = len(re.findall(r"(?<!\\)\|", _SPAN.sub("", lines[0]))) - 1
            out.append(("table", f"{len(lines)} rows of {cells} cells"))
        elif items := [x for x in lines if re.match(r"(?:- |\d+\. )", x)]:
            out.append(("list", f"{len(items)} items"))
    return out


def check_outline(file: str, text: str, page: str) -> list[str]:
    """Returns the first place where a translation leaves the order of its page."""
    here = outline(text.partition(f"\n{GLOSSARY}\n")[0])
    for mine, expected in zip_longest(here, outline(page), fillvalue=("end", "")):
        if mine == expected:
            continue
        if mine[0] == expected[0] == "code block":
            return [f"{file}: {_first_difference(mine[1], expected[1])}"]
        return [f"{file}: {_describe(mine)} where the page has {_describe(expected)}"]
    return []


def _first_difference(block: str, expected: str) -> str:
    lines = zip_longest(block.split("\n"), expected.split("\n"), fillvalue="```")
    mine, theirs = next(pair for pair in lines if pair[0] != pair[1])
    return f"code '{mine}' where the page has '{theirs}'"


def _describe(item: tuple[str, str]) -> str:
    kind, value = item
    return "a code block" if kind == "code block" else f"{kind} {value}".strip()


def check_links(
    file: str, text: str, original: str, page: str, pairs: dict[str, str]
) -> list[str]:
    """Returns links that only one of the two has.

    The translation links to the translations of other pages, with the same anchors.
    """
    expected: Counter[str] = Counter()
    for link in _links(page, _TO_TRANSLATION.format(_relative(file, original))):
        expected[_translated_link(link, original, file, pairs)] += 1
    text = text.partition(f"\n{GLOSSARY}\n")[0]
    here = Counter(_links(text, _TO_ORIGINAL.format(_relative(original, file))))
    return [f"{file}: no link to {x}" for x in sorted((expected - here).elements())] + [
        f"{file}: {x} is not what the page links to"
        for x in sorted((here - expected).elements())
    ]


def _links(text: str, language_link: str) -> list[str]:
    return _LINK.findall(without_code(text).replace(language_link, "", 1))


def _translated_link(link: str, original: str, file: str, pairs: dict[str, str]) -> str:
    path, mark, anchor = link.partition("#")
    if not path or re.match(r"[a-z]+:", link):
        return link
    resolved = normpath(str(PurePosixPath(original).parent / path))
    return _relative(pairs.get(resolved, resolved), file) + mark + anchor


def _relative(target: str, file: str) -> str:
    return relpath(target, str(PurePosixPath(file).parent))


def check_language_links(file: str, text: str, original: str, page: str) -> list[str]:
    """Returns what of the two lacks the link to the other, right below its title."""
    findings = []
    for at, content, link in (
        (file, text, _TO_ORIGINAL.format(_relative(original, file))),
        (original, page, _TO_TRANSLATION.format(_relative(file, original))),
    ):
        if content.split("\n")[1:4] != ["", link, ""]:
            findings.append(f"{at}: no {link} below the title")
    return findings


def check_code_spans(file: str, text: str, page: str) -> list[str]:
    """Returns the flags, names and paths in prose that only one of the two has."""
    here = _spans(text.partition(f"\n{GLOSSARY}\n")[0])
    expected = _spans(page)
    return [f"{file}: `{x}` is missing" for x in sorted(expected - here)] + [
        f"{file}: `{x}` is not in the page" for x in sorted(here - expected)
    ]


def _spans(text: str) -> set[str]:
    return {re.sub(r"\s+", " ", x) for x in _SPAN.findall(without_code(text))}


def check_all(
    file: str, text: str, original: str, page: str, pairs: dict[str, str]
) -> list[str]:
    """Returns all findings in a translation."""
    return [
        *check_outline(file, text, page),
        *check_links(file, text, original, page, pairs),
        *check_language_links(file, text, original, page),
        *check_code_spans(file, text, page),
        *check_lines(file, text),
    ]


def with_code_blocks_of(text: str, page: str) -> str:
    """Returns a translation with the code blocks of its page, if both have as many."""
    blocks = _FENCE.findall(page)
    if len(blocks) != len(_FENCE.findall(text)):
        return text
    return _FENCE.sub(lambda _: blocks.pop(0), text)


def columns(line: str) -> int:
    """Returns the width of a line, where a full-width character takes two columns."""
    return sum(1 + _is_wide(c) for c in line)


def _is_wide(character: str) -> bool:
    # East Asian punctuation such as quotation marks is ambiguous; it is wide here.
    return unicodedata.east_asian_width(character) in "WFA"


def check_lines(file: str, text: str) -> list[str]:
    """Returns lines that are too long, and breaks that show as a blank in a word.

    Browsers show a line break as a blank, which belongs next to a Latin word and does
    no harm after punctuation, but splits a Chinese word.
    """
    findings = []
    lines = without_code(text).split("\n")
    for number, (line, after) in enumerate(pairwise([*lines, ""]), start=1):
        if line.startswith(("|", "#")):
            continue
        if columns(line) > WIDTH and " " in line.strip():
            findings.append(f"{file}:{number}: {columns(line)} columns")
        if (
            line
            and after.strip()
            and _is_letter(line[-1])
            and _is_letter(after.strip()[0])
        ):
            findings.append(f"{file}:{number}: a line break within Chinese words")
    return findings


def _is_letter(character: str) -> bool:
    return unicodedata.east_asian_width(character) == "W" and character.isalpha()


def main(arguments: list[str]) -> int:
    """Runs the command line."""
    if arguments not in ([], ["--copy"]):
        print(__doc__, file=sys.stderr)
        return 2
    files = list(project_files())
    pairs = translation_pairs(files)
    findings = []
    for original, file in pairs.items():
        if original not in files:
            findings.append(f"{file}: there is no {original}")
            continue
        text, page = read(file), read(original)
        if arguments:
            text = with_code_blocks_of(text, page)
            (ROOT / file).write_text(text, encoding="utf-8")
        findings += check_all(file, text, original, page, pairs)
    print("\n".join(findings) or "no findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
