"""Manual pages, completions and the reference contain everything that the
programs print.
"""

import gzip
import re
import subprocess
import sys

import pytest
from test_docs import FLAG, verbs

from daemon import BIN_DIR, ROOT, help_of

SHARE = BIN_DIR.parent / "share"
SCRIPT = ROOT / "deploy/manual/make_manuals.py"
PAGES = (
    "man8/msitd.8.gz",
    "man1/msitctl.1.gz",
    "man1/msitctl-compare-run.1.gz",
    "man1/msitd-inspect.1.gz",
)
# Commands that check a script without running it.
CHECKERS = {
    "bash": (["bash", "-n"], "bash-completion/completions/msitctl"),
    "zsh": (["zsh", "-n"], "zsh/vendor-completions/_msitctl"),
    "fish": (["fish", "--no-execute"], "fish/vendor_completions.d/msitctl.fish"),
}


def text_of(page: str) -> str:
    """Returns a page without its markup."""
    text = gzip.decompress((SHARE / "man" / page).read_bytes()).decode()
    return text.replace("\\-", "-").replace("\\(aq", "'").replace("\\fB", "")


def test_reference_is_what_the_programs_print() -> None:
    printed = subprocess.run(
        [sys.executable, SCRIPT, BIN_DIR, "--reference"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    page = (ROOT / "docs/cli_reference.md").read_text()
    assert page == printed, (
        f"docs/cli_reference.md is not current: {SCRIPT} build/release/bin --reference"
    )


def test_every_verb_and_flag_is_in_the_manual_page() -> None:
    page = text_of("man1/msitctl.1.gz")
    for words in verbs():
        section = page.partition(f'.SS "msitctl {" ".join(words)}"\n')[2]
        section = section.partition("\n.SS ")[0]
        flags = set(FLAG.findall(help_of(*words).partition("\nOptions:\n")[2]))
        assert section and not flags - {"--help"} - set(FLAG.findall(section)), words


def test_every_verb_has_a_page_of_its_own() -> None:
    for words in verbs():
        page = text_of(f"man1/msitctl-{'-'.join(words)}.1.gz")
        flags = set(FLAG.findall(help_of(*words).partition("\nOptions:\n")[2]))
        assert not flags - {"--help"} - set(FLAG.findall(page)), words
        for heading in ("NAME", "SYNOPSIS", "ENVIRONMENT", "FILES", "SEE ALSO"):
            assert f"\n.SH {heading}\n" in page, (words, heading)
        assert "MSITD_ENDPOINT" in page and "/run/msitd" in page, words


def test_every_key_of_the_daemon_is_in_its_manual_page() -> None:
    page = text_of("man8/msitd.8.gz")
    config = (ROOT / "deploy/config/msitd.toml").read_text()
    for key in re.findall(r"^(\w+) = ", config, re.MULTILINE):
        assert f"--{key.replace('_', '-')} " in page, key


@pytest.mark.parametrize("page", PAGES)
def test_troff_has_nothing_to_say_against_a_page(page: str) -> None:
    shown = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-c"],
        input=gzip.decompress((SHARE / "man" / page).read_bytes()),
        capture_output=True,
        timeout=60,
        check=True,
    )
    # Long example lines cannot be broken.
    said = [
        line
        for line in shown.stderr.decode().splitlines()
        if "can't break line" not in line and "cannot adjust" not in line
    ]
    assert not said
    assert len(shown.stdout) > 1000


@pytest.mark.parametrize("shell", CHECKERS)
def test_completions_are_scripts_of_their_shell(shell: str) -> None:
    command, path = CHECKERS[shell]
    script = SHARE / path
    printed = subprocess.run(
        [BIN_DIR / "msitctl", "completion", shell],
        capture_output=True,
        timeout=60,
        check=True,
    ).stdout
    assert script.read_bytes() == printed
    try:
        done = subprocess.run(
            [*command, script], capture_output=True, text=True, timeout=60, check=False
        )
    except FileNotFoundError:
        pytest.skip(f"there is no {shell}")
    assert done.returncode == 0 and not done.stderr, done.stderr


def complete(*words: str) -> list[str]:
    """Returns the completions that bash offers after these words with the
    installed script.
    """
    script = SHARE / CHECKERS["bash"][1]
    line = " ".join(f"'{word}'" for word in words)
    commands = (
        f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        '_msitctl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", commands], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split()


def test_bash_completes_nouns_verbs_and_flags() -> None:
    assert complete("msitctl", "comp") == ["compare", "completion"]
    assert "rows" in complete("msitctl", "compare", "")
    assert complete("msitctl", "compare", "run", "--target-l") == ["--target-layout"]
    assert complete("msitctl", "run", "list", "-o", "js") == ["json"]
