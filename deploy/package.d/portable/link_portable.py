"""Links programs and libraries of a build again, so that they run on older systems.

Takes the link command of each target from the build, and changes the libraries: glibc is
replaced by the stubs of stub_glibc.py, and all others except glibc and libgcc_s are linked
statically. The objects are those of the build, so nothing is compiled again, except what
a target outside BASE has of its own.

usage: link_portable.py --build BUILD [--base BASE] --tools TOOLS --static STATIC
                        --out OUT TARGET...

TOOLS contains `stubs` and `libglue.a`, STATIC the libraries of static-libraries.
"""

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

SHARED = re.compile(r"(?P<folder>/.*)/lib(?P<name>[^/]+?)\.so[\d.]*")
# Libraries that the static ones need, which their shared forms name themselves.
NEEDS = {
    "curl": ["ssl", "crypto", "z"],
    "rocksdb": ["snappy", "lz4", "zstd", "bz2", "z"],
    "xlsxwriter": ["crypto", "z"],
    "zip": ["bz2", "z"],
}
# libsystemd is loaded by the glue, and the others are parts of glibc.
NOT_STATIC = {"systemd", "c", "dl", "m", "pthread", "rt"}
# Since 2.34, glibc has all of these in one library, so each must be named for older
# versions.
RUNTIME = [
    "-Wl,--no-as-needed",
    *("-lpthread", "-ldl", "-lrt"),
    "-Wl,--as-needed",
    *("-lm", "-lgcc_s", "-lgcc", "-lc", "-lgcc"),
]
MODULE_EXPORTS = Path(__file__).resolve().with_name("module.map")
# Functions that a process defines before it loads an extension module.
EXPECTED = ("Py", "_Py", "msit_")


class Linker:
    """Links targets of one build."""

    def __init__(
        self, build: Path, base: Path, tools: Path, static: Path, out: Path
    ) -> None:
        self.build = build
        self.base = base
        self.tools = tools
        self.static = static
        self.out = out

    def _static(self, compiler: list[str], name: str) -> str:
        """Returns the static form of a library."""
        file = f"lib{name}.a"
        if (self.static / file).exists():
            return str(self.static / file)
        command = [*compiler, f"-print-file-name={file}"]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        path = found.stdout.strip()
        if not Path(path).is_absolute():
            sys.exit(f"link_portable: no {file}: add it to static-libraries")
        return path

    def _command(self, target: str) -> list[str]:
        """Returns the command of the build that links a target."""
        command = ["ninja", "-C", str(self.build), "-t", "commands", "-s", target]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        steps = done.stdout.splitlines()[-1].split(" && ")
        (link,) = [step for step in steps if " -o " in step]
        return shlex.split(link)

    def _file(self, word: str) -> str:
        """Returns the path of an object or a library of the build."""
        own = self.build / word
        return str(own if own.exists() else self.base / word)

    def _compile(self, words: list[str]) -> None:
        """Compiles what the base does not have."""
        if self.build == self.base:
            return
        own = [word for word in words if word.endswith(".o")]
        own += [
            word
            for word in words
            if word.endswith(".a")
            and not word.startswith("/")
            and not (self.base / word).exists()
        ]
        subprocess.run(["ninja", "-C", str(self.build), *own], check=True)

    def _arguments(self, words: list[str]) -> tuple[list[str], list[str]]:
        """Returns the flags and the libraries of a link command."""
        # A cross compiler finds libraries in the root that it is given.
        compiler = [
            words[0],
            *(word for word in words if word.startswith("--sysroot=")),
        ]
        flags, libraries, names = [], [], []
        for word in words[1:]:
            shared = SHARED.fullmatch(word)
            if shared is not None:
                names.append(shared["name"])
            elif word.startswith("-l"):
                names.append(word[2:])
            elif word.startswith("/") and word.endswith(".a"):
                names.append(Path(word).name[3:-2])
            elif not word.startswith("-"):
                libraries.append(self._file(word))
            elif not word.startswith(("-L", "-Wl,-rpath", "-pthread")):
                flags.append(word)
        for name in list(names):
            names += NEEDS.get(name, [])
        libraries += [
            self._static(compiler, name)
            for name in dict.fromkeys(names)
            if name not in NOT_STATIC
        ]
        return flags, libraries

    def link(self, target: str) -> None:
        """Links one target."""
        words = self._command(target)
        place = words.index("-o")
        del words[place : place + 2]
        self._compile(words)
        flags, libraries = self._arguments(words)
        name = Path(target).name
        for flag in flags:
            if flag.startswith("-Wl,-soname,"):
                name = flag.rpartition(",")[2]
        is_program = "-shared" not in flags
        # A process may contain the same libraries in other versions, so a shared library
        # exports nothing of those that it contains.
        own = ["-Wl,--exclude-libs,ALL", "-Wl,-rpath,$ORIGIN"]
        if name.startswith("_"):
            own.append(f"-Wl,--version-script={MODULE_EXPORTS}")
        if is_program:
            # The libgcc_s of this machine may need a newer glibc than the stubs have. A
            # program uses that of the system on which it runs.
            own = ["-Wl,--wrap=__libc_start_main", "-Wl,--allow-shlib-undefined"]
        command = [
            words[0],
            *flags,
            *own,
            "-nodefaultlibs",
            "-Wl,--strip-all",
            "-Wl,--gc-sections",
        ]
        command += [f"-L{self.tools / 'stubs'}"]
        command += ["-o", str(self.out / name), "-Wl,--start-group", *libraries]
        command += ["-l:libstdc++.a", str(self.tools / "libglue.a"), "-Wl,--end-group"]
        if subprocess.run([*command, *RUNTIME], check=False, cwd=self.build).returncode:
            sys.exit(f"link_portable: cannot link {target}")
        check_undefined(self.out / name)


def check_undefined(file: Path) -> None:
    """Fails if a function is missing that no library of this file defines.

    Extension modules find only the functions of Python and libmsit in that way.
    """
    command = ["nm", "--dynamic", "--undefined-only", str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    missing = [
        name
        for kind, name in (line.split() for line in done.stdout.splitlines())
        if kind == "U" and "@" not in name and not name.startswith(EXPECTED)
    ]
    if missing:
        sys.exit(
            f"link_portable: {file.name} needs {' '.join(missing)}, which glibc defines "
            "only in newer versions: add it to glue/newer_glibc.c"
        )


def main() -> None:
    """Links all targets of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--base", type=Path, help="a build whose libraries are used")
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--static", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("targets", nargs="+")
    args = parser.parse_args()
    build, out = args.build.resolve(), args.out.resolve()
    base = args.base.resolve() if args.base else build
    out.mkdir(parents=True, exist_ok=True)
    linker = Linker(build, base, args.tools.resolve(), args.static.resolve(), out)
    for target in args.targets:
        linker.link(target)


if __name__ == "__main__":
    main()
