"""Generates manual pages, completions and the reference from the output of programs.

usage: make_manuals.py BIN_DIR SHARE_DIR      pages and completions, as below /usr/share
       make_manuals.py BIN_DIR --reference    docs/cli_reference.md, to stdout

The help of a program is generated from its tables of verbs and flags, so this script
names none of them.
"""

import gzip
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HEADINGS = (
    "Example",
    "RPC",
    "Usage",
    "Arguments",
    "Positionals",
    "Options",
    "Commands",
)
HEADING = re.compile(rf"^({'|'.join(HEADINGS)}|Subcommands):(.*)$")
# The heading of a group of flags.
GROUP = re.compile(r"^([A-Z]\w*):()$")
ENTRY = re.compile(r"^ {2}(\S(?:.*?\S)?)(?: {2,}(.*)|\s*)$")
# Each program with the section of its page, and the line for NAME, which help lacks.
PROGRAMS = (
    ("msitd", 8, "stores tensors of the ranks of a job, and compares runs"),
    ("msitctl", 1, "lists, reads and compares the tensors that msitd holds"),
    ("msitd-inspect", 1, "inspects the store of msitd without the daemon"),
)
FILES = {
    "msitd": (
        (
            "/etc/msitd/msitd.toml",
            "The configuration, with a comment for every key.",
        ),
        ("/var/lib/msitd", "The store."),
        ("/run/msitd", "The sockets, for the group msitd."),
        (
            "/etc/msitd/personal.toml, ~/.config/msitd/msitd.toml",
            "The configuration of personal daemons.",
        ),
        (
            "~/.local/state/msitd",
            "The store and the log of a personal daemon (XDG_STATE_HOME).",
        ),
        (
            "/run/user/UID/msitd, /tmp/msitd-UID",
            "The sockets of a personal daemon (XDG_RUNTIME_DIR).",
        ),
    ),
    "msitctl": (
        ("/run/msitd", "The sockets of the service of this machine."),
        (
            "/run/user/UID/msitd, /tmp/msitd-UID",
            "The sockets of your own daemon, which is used if there is no service.",
        ),
        (
            "/etc/msitd/personal.toml, ~/.config/msitd/msitd.toml",
            "The configuration of your own daemon.",
        ),
    ),
    "msitd-inspect": (("/var/lib/msitd", "The store of the service."),),
}
# The variables that no flag stands for. Those of flags are in the help.
ENVIRONMENT = {
    "msitd": (
        (
            "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY",
            "The key for s3:// archives, unless archive_credentials_file is set.",
        ),
        ("TMPDIR", "Where --recover builds a temporary index. Default: /tmp."),
        (
            "XDG_STATE_HOME, XDG_RUNTIME_DIR, XDG_CONFIG_HOME",
            "Where --personal has its store, its sockets and its configuration.",
        ),
    ),
    "msitctl": (
        ("NO_COLOR", "If set, print no color."),
        ("TMPDIR", "Where large reports are put together. Default: /tmp."),
    ),
}
VARIABLE = re.compile(r"\[([A-Z][A-Z0-9_]+)(=\w+)?\]")
COMPLETIONS = {
    "bash": "bash-completion/completions/msitctl",
    "zsh": "zsh/vendor-completions/_msitctl",
    "fish": "fish/vendor_completions.d/msitctl.fish",
}


@dataclass
class Help:
    """The help of a command."""

    words: list[str]
    text: str
    description: str = ""
    sections: dict[str, list[str]] = field(default_factory=dict)

    def entries(self, heading: str) -> list[tuple[str, str]]:
        """The two columns below a heading."""
        out: list[tuple[str, str]] = []
        for line in self.sections.get(heading, []):
            found = ENTRY.match(line)
            if found:
                out.append((found[1], found[2] or ""))
            elif line.strip() and out:
                out[-1] = (out[-1][0], f"{out[-1][1]} {line.strip()}".strip())
        return out

    def groups(self) -> list[str]:
        """The headings of groups of flags."""
        return [
            heading for heading in self.sections if not HEADING.match(f"{heading}:")
        ]

    def commands(self) -> list[str]:
        """The names of the commands below this one, without their short names."""
        both = self.entries("Commands") + self.entries("Subcommands")
        return [re.split("[, ]", name)[0] for name, _ in both]


def run(bin_dir: Path, *words: str) -> str:
    """Returns the output of a program of this project."""
    done = subprocess.run(
        [bin_dir / words[0], *words[1:]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0 or not done.stdout:
        sys.exit(f"make_manuals: {' '.join(words)}: {done.returncode}: {done.stderr}")
    return done.stdout


def parse(words: list[str], text: str) -> Help:
    """Parses the help of a command into sections."""
    out = Help(words, text)
    heading = ""
    for line in text.splitlines():
        found = HEADING.match(line) or GROUP.match(line)
        if found:
            heading = found[1]
            out.sections[heading] = [found[2].strip()] if found[2].strip() else []
        elif heading and (not line or line.startswith(" ")):
            out.sections[heading].append(line)
        else:
            heading = ""
            out.description += line.strip() + " "
    out.description = re.split(r" *Global flags: ", out.description)[0].strip()
    return out


def all_help(bin_dir: Path, *words: str) -> list[Help]:
    """Returns the help of a command, and of all below it."""
    top = parse(list(words), run(bin_dir, *words, "--help"))
    out = [top]
    for name in top.commands():
        out += all_help(bin_dir, *words, name)
    return out


def roff(text: str) -> str:
    """Returns the text with escapes, so that troff prints it unchanged."""
    out = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return re.sub(r"^\.", "\\\\&.", out)


def roff_entries(entries: list[tuple[str, str]]) -> list[str]:
    """Two columns as a list with hanging paragraphs."""
    out = []
    for name, text in entries:
        out += [".TP", f"\\fB{roff(name)}\\fR", roff(text) or "\\&"]
    return out


def roff_examples(lines: list[str]) -> list[str]:
    """Command lines that are not filled."""
    kept = [line.strip() for line in lines if line.strip()]
    return [".nf", *(roff(line) for line in kept), ".fi"] if kept else []


def roff_command(help_: Help) -> list[str]:
    """A command below the program, as a section of its page."""
    usage = " ".join(help_.sections.get("Usage", [])).strip()
    out = [f'.SS "{roff(" ".join(help_.words))}"', roff(help_.description)]
    out += [".PP", f"\\fB{roff(usage)}\\fR"] if usage else []
    out += roff_entries(help_.entries("Arguments"))
    # The help of every command has --help.
    out += roff_entries(
        [e for e in help_.entries("Options") if not e[0].endswith("--help")]
    )
    for group in help_.groups():
        out += [".PP", f"{roff(group)}:", *roff_entries(help_.entries(group))]
    examples = roff_examples(help_.sections.get("Example", []))
    return out + ([".PP", "Example:", ".PP", *examples] if examples else [])


def environment(name: str, top: Help) -> list[tuple[str, str]]:
    """The variables of a program: those that its help names, and the others."""
    out = []
    for flag, text in top.entries("Options"):
        found = VARIABLE.search(text)
        if not found:
            continue
        flags = " and ".join(re.findall(r"--[a-z-]+", flag))
        text = f"{found[2][1:]} is {flags}." if found[2] else f"Default of {flags}."
        out.append((found[1], text))
    return out + list(ENVIRONMENT.get(name, ()))


def surroundings(name: str, top: Help) -> list[str]:
    """The sections on environment variables and files of a program."""
    out = []
    if variables := environment(name, top):
        out += [".SH ENVIRONMENT", *roff_entries(variables)]
    if name in FILES:
        out += [".SH FILES", *roff_entries(list(FILES[name]))]
    return out


def verb_page(help_: Help, section: int, top: Help) -> str:
    """The page of a command below a program, such as msitctl-compare-run."""
    name = "-".join(help_.words)
    program = help_.words[0]
    what = re.split(r"(?<=[.])\s", help_.description + " ")[0].rstrip(". ")
    usage = " ".join(help_.sections.get("Usage", [name])).strip()
    body = roff_command(help_)[4 if "Usage" in help_.sections else 2 :]
    out = [
        f'.TH {name.upper()} {section} "" "{program}" "msitd"',
        ".SH NAME",
        f"{roff(name)} \\- {roff(what or name)}",
        ".SH SYNOPSIS",
        f"\\fB{roff(usage)}\\fR",
        ".SH DESCRIPTION",
        roff(help_.description),
        *([".SH OPTIONS", *body] if body else []),
    ]
    if commands := help_.entries("Commands") + help_.entries("Subcommands"):
        out += [".SH COMMANDS", *roff_entries(commands)]
    out += [".SH GLOBAL OPTIONS", f"See \\fB{roff(program)}\\fR({section})."]
    out += [*surroundings(program, top), ".SH SEE ALSO"]
    parent = "-".join(help_.words[:-1])
    others = dict.fromkeys((parent, program))
    out.append(", ".join(f"\\fB{roff(n)}\\fR({section})" for n in others))
    return "\n".join(line for line in out if line) + "\n"


def manual_page(
    name: str, section: int, what: str, helps: list[Help], exits: str
) -> str:
    """The page of a program. `exits` is its help on exit codes, or empty."""
    top = helps[0]
    out = [
        f'.TH {name.upper()} {section} "" "{name}" "msitd"',
        ".SH NAME",
        f"{roff(name)} \\- {what}",
        ".SH SYNOPSIS",
        f"\\fB{roff(' '.join(top.sections.get('Usage', [name])).strip())}\\fR",
        ".SH DESCRIPTION",
        roff(top.description),
        ".SH OPTIONS",
        *roff_entries(top.entries("Options")),
    ]
    if helps[1:]:
        out.append(".SH COMMANDS")
        for help_ in helps[1:]:
            out += roff_command(help_)
    if exits:
        out += [".SH EXIT STATUS", ".nf", *(roff(t) for t in exits.splitlines()), ".fi"]
    out += surroundings(name, top)
    others = [f"\\fB{roff(n)}\\fR({s})" for n, s, _ in PROGRAMS if n != name]
    out += [".SH SEE ALSO", ", ".join(others)]
    return "\n".join(line for line in out if line) + "\n"


def write_page(share: Path, section: int, name: str, text: str) -> None:
    """Writes a compressed page. Equal texts give equal bytes."""
    page = share / f"man/man{section}/{name}.{section}.gz"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def write_share(bin_dir: Path, share: Path) -> None:
    """Writes everything below /usr/share."""
    for name, section, what in PROGRAMS:
        helps = all_help(bin_dir, name)
        has_help = "help" in helps[0].commands()
        exits = run(bin_dir, name, "help", "exit-codes") if has_help else ""
        write_page(share, section, name, manual_page(name, section, what, helps, exits))
        for help_ in helps[1:]:
            page = verb_page(help_, section, helps[0])
            write_page(share, section, "-".join(help_.words), page)
    for name in ("msit", "msprobe"):
        write_page(share, 1, name, ".so man1/msitctl.1\n")
    for shell, path in COMPLETIONS.items():
        script = share / path
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(run(bin_dir, "msitctl", "completion", shell))


def reference(bin_dir: Path) -> str:
    """The reference of the documents: the help of every command, one after another."""
    out = [
        "# The help of every command",
        "",
        "This page contains the `--help` output of every command. It is generated by",
        "`deploy/manual/make_manuals.py`, and a test checks that it is current. For",
        "explanations, see [cli.md](cli.md).",
    ]
    for name, _, _ in PROGRAMS:
        for help_ in all_help(bin_dir, name):
            # The page has no trailing blanks.
            text = re.sub(r"[ \t]+$", "", help_.text, flags=re.MULTILINE).strip("\n")
            out += ["", f"## {' '.join(help_.words)}", "", "```", text, "```"]
    return "\n".join(out) + "\n"


def main(arguments: list[str]) -> int:
    """Writes the files or prints the reference, as the arguments request."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    bin_dir = Path(arguments[0])
    if arguments[1] == "--reference":
        sys.stdout.write(reference(bin_dir))
    else:
        write_share(bin_dir, Path(arguments[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
