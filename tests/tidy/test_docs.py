"""Checks the parts of the documents that a program can verify."""

import re

import check_docs
import check_layers
from tree import ROOT, project_files, read

MODULES = [m for m in check_layers.MODULES if "/" in m]
TEST_FOLDERS = [
    "tests/bench",
    "tests/bench/causes",
    "tests/e2e",
    "tests/judge",
    "tests/origin",
    "tests/python",
    "tests/tidy",
    "deploy/demo.d",
]


def _texts() -> dict[str, str | None]:
    return {f: read(f) if f.endswith(".md") else None for f in project_files()}


def test_links_resolve() -> None:
    files = _texts()
    findings = []
    for file, text in files.items():
        if text is not None:
            findings += check_docs.check_links(file, text, files)
    assert not findings, "\n".join(findings)


def test_tables_are_whole() -> None:
    findings = []
    for file, text in _texts().items():
        if text is not None:
            findings += check_docs.broken_tables(file, check_docs.without_code(text))
    assert not findings, "\n".join(findings)


def test_a_row_behind_a_blank_line_is_found() -> None:
    table = "| a |\n|---|\n| 1 |\n"
    assert check_docs.broken_tables("x.md", table) == []
    assert check_docs.broken_tables("x.md", table + "\n| 2 |\n") == [
        "x.md:5: a row of no table"
    ]


def test_documents_that_sources_name_exist() -> None:
    files = set(project_files())
    findings = []
    for file in files:
        if file.endswith((".h", ".cc", ".proto", ".py", ".toml")):
            for doc in re.findall(r"\bdocs/[\w/.-]+\.md\b", read(file)):
                if doc not in files and not file.startswith("tests/tidy/"):
                    findings.append(f"{file}: {doc} does not exist")
    assert not findings, "\n".join(findings)


def test_every_module_has_a_readme() -> None:
    missing = check_docs.modules_without_readme(
        list(project_files()), MODULES + TEST_FOLDERS
    )
    assert missing == []


def test_chunk_document_shows_the_golden_frame() -> None:
    shown = check_docs.hex_example(read("docs/format/chunk.md"))
    golden = (ROOT / "tests/golden/chunk/v1/frame.chunk").read_bytes()
    wrong = {hex(at): byte for at, byte in shown.items() if golden[at] != byte}
    assert wrong == {}
    # The header, the descriptor, texts and dims, and the payload.
    assert set(range(0x190)) <= set(shown)
    assert set(range(0x1000, 0x1010)) <= set(shown)


def test_no_document_names_a_machine() -> None:
    findings = []
    for file in project_files():
        if file.endswith((".md", ".toml", ".sh", ".txt")) or "/" not in file:
            for word in re.findall(r"/work/|/root/|/opt/pypi", read(file)):
                findings.append(f"{file}: {word}")
    assert not findings, "\n".join(findings)


def test_link_checker_finds_dead_links() -> None:
    files = {"docs/a.md": "# One Two\n", "docs/b.md": ""}
    assert not check_docs.check_links(
        "docs/b.md", "[x](a.md#one-two) [y](../docs)", files
    )
    assert check_docs.check_links("docs/b.md", "[x](c.md)", files)
    assert check_docs.check_links("docs/b.md", "[x](a.md#three)", files)
    assert check_docs.check_links("docs/b.md", "[x](../a.md)", files)


def test_readme_checker_finds_bare_modules() -> None:
    files = ["daemon/a/b.cc", "daemon/c/d.cc", "daemon/c/README.md"]
    assert check_docs.modules_without_readme(files, ["daemon/a", "daemon/c"]) == [
        "daemon/a"
    ]


def test_hex_reader_reads_offsets() -> None:
    assert check_docs.hex_example("00000010 4d 53  MS\nnot hex\n") == {
        16: 0x4D,
        17: 0x53,
    }


def test_architecture_names_every_module() -> None:
    missing = check_docs.unnamed_modules(read("docs/architecture.md"), MODULES)
    assert missing == []


def test_architecture_names_only_what_exists() -> None:
    files = list(project_files())
    assert check_docs.absent_paths(read("docs/architecture.md"), files) == []


def test_path_checkers_find_a_gap() -> None:
    text = "`daemon/a` and `daemon/b.h`, not `daemon/a/*` or `a b`\n"
    assert check_docs.unnamed_modules(text, ["daemon/a", "daemon/c"]) == ["daemon/c"]
    assert check_docs.absent_paths(text, ["daemon/a/x.h"]) == ["daemon/b.h"]
    assert check_docs.absent_paths(text, ["daemon/a/x.h", "daemon/b.h"]) == []
    diff = "```diff\n // daemon/c.h and others\n+// daemon/new.h\n```\n"
    assert check_docs.absent_paths(diff, []) == ["daemon/c.h"]


# The pages that list the folders of a folder without a README.
LISTS = {"": "README.md", "tests": "docs/testing.md"}
# Pages that name files of the project to developers.
PAGES_OF_PATHS = (
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "docs/contributing.md",
    "docs/debugging.md",
    "docs/testing.md",
)


def test_readmes_list_only_what_exists() -> None:
    files = project_files()
    findings = []
    for file in files:
        if file.endswith("/README.md"):
            findings += check_docs.absent_in_tables(file, read(file), files)
    assert not findings, "\n".join(findings)


def test_every_folder_is_named_in_the_page_of_its_parent() -> None:
    files = [f for f in project_files() if not f.startswith((".", "docs/"))]
    pages = LISTS | {
        file.rpartition("/")[0]: file for file in files if file.endswith("/README.md")
    }
    findings = []
    for folder, page in pages.items():
        for what in check_docs.unnamed_folders(folder, read(page), files):
            findings.append(f"{page}: {what}")
    assert not findings, "\n".join(findings)


def test_pages_name_only_paths_that_exist() -> None:
    files = list(project_files())
    findings = []
    for page in PAGES_OF_PATHS:
        for path in check_docs.absent_paths(read(page), files):
            findings.append(f"{page}: {path} does not exist")
    assert not findings, "\n".join(findings)


def test_readme_checkers_find_a_gap() -> None:
    text = (
        "| source | contents |\n|---|---|\n| `a`, `b/c.h` | `x` |\n| `d_*` | |\n\n"
        "| flag | |\n|---|---|\n| `other` | |\n"
    )
    files = ["m/README.md", "m/a.cc", "m/b/c.h", "m/d_1.py", "m/e/f.h"]
    assert check_docs.absent_in_tables("m/README.md", text, files) == []
    assert check_docs.unnamed_folders("m", text, files) == ["m/e is not named"]
    assert check_docs.unnamed_folders("m", "`m/e`, [b](b/README.md)", files) == []
    for gone in ("m/a.cc", "m/b/c.h", "m/d_1.py"):
        rest = [f for f in files if f != gone]
        assert len(check_docs.absent_in_tables("m/README.md", text, rest)) == 1
