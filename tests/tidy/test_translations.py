"""Translated pages have what the pages in English have."""

import check_docs
import check_translations as check
import pytest
from tree import project_files, read

PAIRS = check.translation_pairs(list(project_files()))

PAGE = """# Title

[中文](zh-CN/a.md)

Run `msitd --flag` as in [the other](b.md#some-part) or [there](c.md).

```
$ msitd --flag
done
```

## Part

| a | b |
|---|---|
| 1 | 2 |

- one
- two
"""
TRANSLATION = """# 标题

[English](../a.md)

按[另一页](b.md#some-part)或[此处](../c.md)运行 `msitd --flag`。

```
$ msitd --flag
done
```

## 部分

| 甲 | 乙 |
|---|---|
| 1 | 2 |

- 一
- 二
"""
FILE, ORIGINAL = "docs/zh-CN/a.md", "docs/a.md"
SMALL_PAIRS = {ORIGINAL: FILE, "docs/b.md": "docs/zh-CN/b.md"}


def _findings(file: str, text: str, original: str, page: str) -> list[str]:
    return check.check_all(file, text, original, page, SMALL_PAIRS)


def test_translations_keep_in_step() -> None:
    files = set(project_files())
    findings = []
    for original, file in PAIRS.items():
        if original in files:
            page = read(original)
            findings += check.check_all(file, read(file), original, page, PAIRS)
        else:
            findings.append(f"{file}: there is no {original}")
    assert not findings, "\n".join(findings)


def test_translations_are_found_by_their_names() -> None:
    files = ["README.md", "README.zh-CN.md", "docs/a.md", "docs/zh-CN/a.md"]
    assert check.translation_pairs(files) == {
        "README.md": "README.zh-CN.md",
        "docs/a.md": "docs/zh-CN/a.md",
    }


def test_a_translation_in_step_passes() -> None:
    assert _findings(FILE, TRANSLATION, ORIGINAL, PAGE) == []


@pytest.mark.parametrize(
    ("before", "after", "finding"),
    [
        ("\ndone\n", "\n完成\n", "code '完成' where the page has 'done'"),
        ("\ndone\n", "\n", "code '```' where the page has 'done'"),
        ("## 部分\n", "### 部分\n", "heading ### where the page has heading ##"),
        ("## 部分\n", "", "table 3 rows of 2 cells where the page has heading ##"),
        ("| 1 | 2 |\n", "", "table 2 rows of 2 cells where the page has table 3 rows"),
        ("- 二\n", "", "list 1 items where the page has list 2 items"),
        ("- 二\n", "- 二\n\n## 三\n", "heading ## where the page has end"),
        ("(b.md#some-part)", "(../b.md#some-part)", "no link to b.md#some-part"),
        ("(b.md#some-part)", "(b.md)", "b.md is not what the page links to"),
        ("[此处](../c.md)", "此处", "no link to ../c.md"),
        ("[English](../a.md)\n", "", "no [English](../a.md) below the title"),
        ("`msitd --flag`", "msitd", "`msitd --flag` is missing"),
        ("`msitd --flag`", "`msitd --flag` 和 `-x`", "`-x` is not in the page"),
        ("`msitd --flag`", "`msitd --flag` " + "长" * 44, "columns"),
        ("- 二\n", "- 二中\n  断\n", "a line break within Chinese words"),
    ],
)
def test_a_translation_out_of_step_is_found(
    before: str, after: str, finding: str
) -> None:
    text = TRANSLATION.replace(before, after)
    assert text != TRANSLATION
    findings = _findings(FILE, text, ORIGINAL, PAGE)
    assert any(finding in x and x.startswith(FILE) for x in findings), findings


def test_a_page_without_a_link_to_its_translation_is_found() -> None:
    page = PAGE.replace("[中文](zh-CN/a.md)\n\n", "")
    assert _findings(FILE, TRANSLATION, ORIGINAL, page) == [
        "docs/a.md: no [中文](zh-CN/a.md) below the title"
    ]


def test_only_the_last_section_of_terms_is_extra() -> None:
    terms = f"\n{check.GLOSSARY}\n\n| 英文 | 中文 |\n|---|---|\n| `op` | 算子 |\n"
    assert _findings(FILE, TRANSLATION + terms, ORIGINAL, PAGE) == []


def test_code_blocks_are_copied() -> None:
    page = PAGE.replace("done", "2 done")
    text = check.with_code_blocks_of(TRANSLATION, page)
    assert text == TRANSLATION.replace("done", "2 done")
    assert _findings(FILE, text, ORIGINAL, page) == []
    page += "\n```\nmore\n```\n"
    assert check.with_code_blocks_of(TRANSLATION, page) == TRANSLATION


def test_full_width_characters_take_two_columns() -> None:
    assert check.columns("op 算子，") == 9


def test_anchors_of_their_own_are_found() -> None:
    text = '<a id="some-part"></a>\n## 某部分\n'
    assert check_docs.anchors(text) == {"some-part", "某部分"}
    assert check.outline(text) == [("heading", "##")]
