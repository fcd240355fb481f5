"""Counts habits of our English that make prose hard to read, per folder.

Usage: check_words.py             prints each folder's count and its allowance
       check_words.py FOLDER      prints where the habits of a folder are
       check_words.py --lower     lowers each allowance to the folder's count

Prose is Markdown outside of code, comments, docstrings and strings of three words or
more, such as help and errors. A folder is a room (daemon/ingest), or one that has no
rooms (docs). The allowances in allowed_words.json only fall.

Limits: the patterns favor few false hits over completeness, and a text without a hit
can still be stilted. Not read: headings of Markdown (links depend on them), strings of
shell, CMake and TOML, names, and the files in UNREAD. Strings of tests count too, also
where they repeat what a program prints.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tree import CPP_SUFFIXES, ROOT, project_files, python_files, read

ALLOWED = Path(__file__).with_name("allowed_words.json")
# An allowance may exceed its count by this, so that work side by side does not collide.
SLACK = 0.05
SLACK_MIN = 5

UNREAD = (
    "CHANGELOG.md",  # Describes past releases, and is not rewritten.
    # Generated from help texts, which are counted where they are.
    "docs/cli_reference.md",
    "tests/tidy/check_words.py",
    "tests/tidy/test_words.py",
)
_WITH_ROOMS = ("client", "daemon", "protos", "storage")
_HASH_SUFFIXES = (".toml", ".yaml", ".cmake", ".sh", ".service", ".socket")

# Patterns match within one sentence, whose white space is single blanks.
HABITS = {
    "opener 'Of X, ...'": r"^Of (?!course\b)",
    "opener 'What ...'": r"^(?:What|Who|Whoever|Whose|Whom)\b(?!.*\?$).*[.:;]$",
    "behind, for after": r"\b(?<!fall )(?<!falls )(?<!fell )(?<!left )behind\b"
    r"(?! (?:an? |the |its |one )?(?:proxy|firewall|flag|interface|switch)\b)",
    "alone, for only": r"(?<!leave )(?<!leaves )(?<!left )(?<!let )(?<!stand)"
    r"(?<!stand )(?<!stands )\balone\b",
    "who, for a noun": r"\b(?:whoever|whatever|whom|somebody|nobody|everybody)\b"
    r"|\b(?:of|by|for|to|from|with|than|as|but|and|or|so|that) who\b",
    "what, for a noun": r"\b(?:of|by|for|to|from|with|than|as|but|beside|into) what\b"
    r"|, what\b",
    "tells, knows, hears, looks": r"\b(?:tells?|told|telling|knows|knew|hears?|heard|"
    r"learns|looks|looked|sees|saw) (?!like\b|up\b)|\b(?:told|heard)\b",
    "comes, goes on": r"\b(?:comes?|came|coming)\b|\b(?:go|goes|went|going) on\b",
    "is no, is none": r"(?<!there )\b(?:is|are|was|were|be|being) (?:no|none)\b"
    r"(?! (?:longer|more|less|later|larger|smaller|greater|fewer|better|worse)\b)",
    "else, at the end": r"(?<!thing )(?<!body )(?<!what )(?<!who )(?<!where )"
    r"(?<!or )(?<!/)\belse[.;,](?!\w)",
    "old-fashioned words": r"\b(?:anew|at hand|besides|meanwhile|for want of|thereof|"
    r"hitherto|save for|lest|be it|so far as)\b|\bbut (?:for|of|by|in|at|with)\b",
    "chain of clauses": r"^(?!Errors:)(?!.*(?:[{=]|\(\))).*?(?:"
    r"[;:] [^;:]{12,}; [^;:]{12,}|; [^;:]{12,}[;:] [^;:]{12,})",
}
_HABITS = {name: re.compile(pattern) for name, pattern in HABITS.items()}


class Hit(NamedTuple):
    """A habit, and the sentence in which it was found."""

    line: int
    habit: str
    sentence: str


def check(file: str, text: str) -> list[Hit]:
    """Returns the habits in the prose of one file."""
    hits = []
    for line, sentence in sentences(prose(file, text)):
        for habit, pattern in _HABITS.items():
            count = sum(1 for _ in pattern.finditer(sentence))
            hits += [Hit(line, habit, sentence)] * count
    return hits


def prose(file: str, text: str) -> str:
    """Returns a text of the same lines in which _GAP replaces what is not prose."""
    suffix = PurePosixPath(file).suffix
    if suffix == ".md":
        return _markdown(text)
    if suffix in (*CPP_SUFFIXES, ".proto"):
        kept = _C_TOKEN
    elif suffix in (".py", ".pyi"):
        kept = _PYTHON_TOKEN
    else:
        kept = _HASH_COMMENT
    out = []
    end = 0
    for token in kept.finditer(text):
        out += [_blank(text[end : token.start()]), _inner(token[0])]
        end = token.end()
    return "".join(out) + _blank(text[end:])


_GAP = "\0"
_STRING = r'"(?:\\.|[^"\\\n])*"'
_C_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|' + _STRING + r"|'(?:\\.|[^'\\\n])'",
    re.DOTALL,
)
_PYTHON_TOKEN = re.compile(
    r'#[^\n]*|"""(?:\\.|[^\\])*?"""|'
    + r"'''.*?'''|"
    + _STRING
    + r"|'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)
_HASH_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#[^\n]*")
_NOT_MARKDOWN = re.compile(
    r"```.*?```|<!--.*?-->|^#+ [^\n]*|^ *\|[-| :]+\| *$|(?<=\])\([^)\s]*\)|\|",
    re.DOTALL | re.MULTILINE,
)
_CODE_SPAN = re.compile(r"`+[^`]+`+")
_MARKS = re.compile(r"^([ \t]*)(//+|#+|/\*+|\*(?!/)|[-*]|\d\.)(?= |$)", re.MULTILINE)


def _blank(text: str) -> str:
    """Returns the white space of a text, with gaps in place of all else."""
    return re.sub(r"\S+", _GAP, text)


def _inner(token: str) -> str:
    """Returns the words of a comment or a string."""
    if not token.startswith(("//", "/*", "#")):
        token = re.sub(r"\\n", _GAP, token)
        token = re.sub(r'^R"\w*\(|\)\w*"$|"', " ", token)
        if re.match(r"[^ ]* ?[^ ]*$", token.strip()):
            return _blank(token)
    token = token.removesuffix("*/")
    return _words(_MARKS.sub(r"\1 ", token))


def _markdown(text: str) -> str:
    text = _NOT_MARKDOWN.sub(lambda found: _blank(found[0]) or _GAP, text)
    return _words(re.sub(r"(?m)^ *(?:[-*]|\d+\.) ", _GAP + " ", text))


def _words(text: str) -> str:
    """Replaces code in backquotes by one word, and removes the syntax of links."""
    code = _CODE_SPAN.sub(lambda span: "code" + "\n" * span[0].count("\n"), text)
    return re.sub(r"[\[\]*]", "", code)


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yields the sentences of a text with their lines."""
    end = 0
    line = 1
    for stop in re.finditer(r"(?<=[.!?])\s+(?=[A-Z0-9'\"(`c])|\n\s*\n|[\0]|$", text):
        sentence = text[end : stop.start()]
        begin = len(sentence) - len(sentence.lstrip())
        plain = " ".join(sentence.split())
        if plain.count(" ") >= 2:
            yield line + sentence[:begin].count("\n"), plain
        line += text[end : stop.end()].count("\n")
        end = stop.end()


def folder_of(file: str) -> str:
    """Returns the folder to which a file counts."""
    parts = file.split("/")
    if len(parts) == 1:
        return "."
    if parts[0] in _WITH_ROOMS and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0]


def files() -> list[str]:
    """Returns the files of the project that contain prose."""
    suffixes = (".md", ".proto", ".pyi", *CPP_SUFFIXES, *_HASH_SUFFIXES)
    named = {f for f in project_files() if f.endswith(suffixes)}
    others = {f for f in project_files() if _is_script(f)}
    return sorted((named | others | set(python_files())) - set(UNREAD))


def _is_script(file: str) -> bool:
    """Returns whether a file without a suffix is a CMake or shell file."""
    if "." in PurePosixPath(file).name:
        return file.endswith("CMakeLists.txt")
    with open(ROOT / file, "rb") as f:
        return f.read(2) == b"#!"


def count(hits: Iterable[tuple[str, Hit]]) -> dict[str, Counter[str]]:
    """Returns how often each folder has each habit."""
    out: dict[str, Counter[str]] = defaultdict(Counter)
    for file, hit in hits:
        out[folder_of(file)][hit.habit] += 1
    return out


def compare(counts: dict[str, Counter[str]], allowed: dict[str, int]) -> list[str]:
    """Returns the folders whose count is above their allowance, or far below it."""
    findings = []
    for folder in sorted(counts.keys() | allowed.keys()):
        by_habit = counts.get(folder, Counter())
        is_, may = by_habit.total(), allowed.get(folder, 0)
        if is_ > may:
            most = ", ".join(f"{n} x {habit}" for habit, n in by_habit.most_common())
            findings.append(
                f"{folder}: {is_} habits, {may} allowed ({most}). Rewrite the new ones; "
                f"list them with: python3 tests/tidy/check_words.py {folder}"
            )
        elif is_ < may - max(SLACK_MIN, SLACK * may):
            findings.append(
                f"{folder}: {is_} habits, {may} allowed. Keep the progress with: "
                "python3 tests/tidy/check_words.py --lower"
            )
    return findings


def all_hits() -> list[tuple[str, Hit]]:
    """Returns the habits of the project, each with its file."""
    return [(file, hit) for file in files() for hit in check(file, read(file))]


def allowances() -> dict[str, int]:
    """Returns how many habits each folder may have."""
    return dict(json.loads(ALLOWED.read_text(encoding="utf-8")))


def _lower(counts: dict[str, Counter[str]]) -> None:
    old = allowances()
    new = {f: min(n.total(), old.get(f, 0)) for f, n in sorted(counts.items())}
    ALLOWED.write_text(json.dumps(new, indent=2) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Prints or lowers the counts."""
    hits = all_hits()
    counts = count(hits)
    if arguments == ["--lower"]:
        _lower(counts)
    elif arguments:
        for file, hit in hits:
            if folder_of(file) == arguments[0] or file == arguments[0]:
                print(f"{file}:{hit.line}: {hit.habit}: {hit.sentence}")
    else:
        allowed = allowances()
        for folder, by_habit in sorted(counts.items()):
            print(f"{by_habit.total():6} of {allowed.get(folder, 0):6}  {folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
