"""The habits that make prose hard to read become fewer, folder by folder."""

from collections import Counter

import check_words
import pytest


def test_no_folder_gains_habits() -> None:
    counts = check_words.count(check_words.all_hits())
    findings = check_words.compare(counts, check_words.allowances())
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize(
    "sentence",
    [
        "Of a token that nobody asked for, a call costs no more.",
        "What nobody spoke of is missing.",
        "Ends behind the first table.",
        "This works with one daemon alone.",
        "It writes an archive for whoever is to read it.",
        "The daemon tells its code.",
        "Its first tensor comes next.",
        "The page token is none of these.",
        "This file is no JSON.",
        "Its position is the first tensor, null else.",
        "The index was made anew.",
        "A run has ranks; each has a stream of its own: a client opens it later.",
    ],
)
def test_checker_finds_a_habit(sentence: str) -> None:
    texts = {
        "docs/a.md": f"# Head\n\nSome text.\n{sentence}\n",
        "a/b.cc": f"int a;\n\n  // {sentence}\n",
        "a/b.h": f"/* {sentence} */\n",
        "a/b.py": f'"""{sentence}"""\n',
        "a/c.py": f"raise ValueError('{sentence}')\n",
        "a/c.cc": f'Fail("{sentence}");\n',
        "a/b.toml": f"[a]\n# {sentence}\nb = 1\n",
    }
    for file, text in texts.items():
        hits = check_words.check(file, text)
        assert hits, file
        assert text.splitlines()[hits[0].line - 1].find(sentence[:9]) >= 0, file


@pytest.mark.parametrize(
    "sentence",
    [
        "Positioned at its first tensor; otherwise null.",
        "What is a segment?",
        "The daemon runs behind a proxy.",
        "Of course there is no limit.",
        "The stream is no longer open.",
        "The user who starts the daemon owns its files.",
        "The command `look behind` looks up a name.",
    ],
)
def test_checker_accepts(sentence: str) -> None:
    assert not check_words.check("docs/a.md", f"{sentence}\n")
    assert not check_words.check("a/b.h", f"// {sentence}\n")


def test_code_is_not_prose() -> None:
    markdown = "## What comes behind\n\n```\nwho comes behind it\n```\n\nSee `told`.\n"
    assert not check_words.check("docs/a.md", markdown)
    assert not check_words.check("a/b.cc", "if (told) behind(alone); else anew();\n")
    assert not check_words.check("a/b.cc", '#include "told/behind/anew.h"\n')


def test_a_sentence_may_be_wrapped() -> None:
    (hit,) = check_words.check("a/b.h", "int a;\n// Null if it is\n// none of these.\n")
    assert (hit.line, hit.habit) == (2, "is no, is none")


def test_folders_are_rooms() -> None:
    folders = {
        "README.md": ".",
        "docs/format/chunk.md": "docs",
        "daemon/README.md": "daemon",
        "daemon/ingest/a.h": "daemon/ingest",
        "client/python/msitd/query/a.py": "client/python",
        "tests/e2e/a.py": "tests",
    }
    assert {file: check_words.folder_of(file) for file in folders} == folders


def test_allowances_only_fall() -> None:
    def findings(is_: int, may: int) -> list[str]:
        return check_words.compare({"docs": Counter(told=is_)}, {"docs": may})

    assert "check_words.py docs" in findings(41, 40)[0]
    assert "--lower" in findings(30, 40)[0]
    assert not findings(40, 40)
    assert not findings(36, 40)
    assert check_words.compare({}, {"gone": 9})
