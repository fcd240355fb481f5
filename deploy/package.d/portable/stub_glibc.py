"""Creates libraries to link against, so that a program runs with an older glibc.

A linker binds each function to the newest version of it that a shared library defines.
Programs that are linked on this machine therefore need the glibc of this machine. glibc
keeps all versions of each function, so the libraries of this machine list also what an
older one contains. This script copies that list, without anything that is newer than the
given version, into libraries that have no code. A program that is linked against them
runs with every glibc from that version on. If it uses something newer, the linker reports
an undefined symbol.

In 2.34, glibc merged libpthread and its like into libc. Where the functions are does not
matter, because the dynamic linker searches all libraries that a program names. The stub of
libpthread is therefore empty, but must be among them.

usage: stub_glibc.py VERSION FOLDER [--cc COMPILER]
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

# The library names that a linker searches, and the files that a program loads. Those
# after the first two have been empty since 2.34.
LIBRARIES = {
    "c": "libc.so.6",
    "m": "libm.so.6",
    "pthread": "libpthread.so.0",
    "dl": "libdl.so.2",
    "rt": "librt.so.1",
    "resolv": "libresolv.so.2",
}
LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
# A line of `readelf --dyn-syms`: value, size, type, binding, section, name and version.
SYMBOL = re.compile(
    r"\s*\d+: (?P<value>\w+)\s+(?P<size>\w+) (?P<type>FUNC|IFUNC|OBJECT|TLS)\s+"
    r"(?P<binding>GLOBAL|WEAK)\s+DEFAULT\s+(?P<section>\d+) (?P<name>\w+)@@?GLIBC_(?P<version>[\d.]+)$"
)
Version = tuple[int, ...]


class Symbol(NamedTuple):
    """A symbol that a library defines."""

    name: str
    version: Version
    is_code: bool
    is_weak: bool
    is_thread_local: bool
    address: int
    size: int


def parse_version(text: str) -> Version:
    """Returns a version such as 2.28 in a form that can be compared."""
    return tuple(int(part) for part in text.split("."))


def symbols_until(library: Path, newest: Version) -> list[Symbol]:
    """Returns the symbols of a library, each in its newest version up to this one."""
    command = ["readelf", "--wide", "--dyn-syms", str(library)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, Symbol] = {}
    for line in listed.splitlines():
        match = SYMBOL.match(line)
        if match is None:
            continue
        version = parse_version(match["version"])
        name = match["name"]
        if version > newest or (name in found and found[name].version >= version):
            continue
        found[name] = Symbol(
            name,
            version,
            match["type"] in ("FUNC", "IFUNC"),
            match["binding"] == "WEAK",
            match["type"] == "TLS",
            int(match["value"], 16),
            int(match["size"], 0),
        )
    return list(found.values())


def assembly(symbols: list[Symbol]) -> str:
    """Returns a source that defines these symbols."""
    lines = []
    places: dict[tuple[bool, int], list[Symbol]] = defaultdict(list)
    for symbol in symbols:
        lines.append(f".{'weak' if symbol.is_weak else 'globl'} {symbol.name}")
        kind = "function" if symbol.is_code else "object"
        lines.append(
            f".type {symbol.name}, %{'tls_object' if symbol.is_thread_local else kind}"
        )
        if symbol.is_code:
            lines.append(f".text\n{symbol.name}: .zero 16")
        else:
            places[symbol.is_thread_local, symbol.address].append(symbol)
    # Names of the same variable, such as environ and __environ, keep one address: a
    # program that contains a copy of the variable defines all its names.
    for (is_thread_local, _), aliases in sorted(places.items()):
        flags = "awT" if is_thread_local else "aw"
        section = ".tbss" if is_thread_local else ".bss"
        lines.append(f'.section {section},"{flags}",%nobits\n.balign 32')
        for symbol in aliases:
            lines.append(f".size {symbol.name}, {symbol.size}\n{symbol.name}:")
        lines.append(f".zero {max(symbol.size for symbol in aliases)}")
    lines.append('.section .note.GNU-stack,"",%progbits')
    return "\n".join(lines) + "\n"


def version_script(symbols: list[Symbol]) -> str:
    """Returns the linker script that gives these symbols their versions."""
    names: dict[Version, list[str]] = defaultdict(list)
    for symbol in symbols:
        names[symbol.version].append(symbol.name)
    script = ""
    for version in sorted(names):
        listed = " ".join(f"{name};" for name in sorted(names[version]))
        script += f"GLIBC_{'.'.join(map(str, version))} {{ {listed} }};\n"
    return script + "msitd_none { local: *; };\n"


def write_stub(
    compiler: str, library: Path, name: str, newest: Version, out: Path
) -> Path:
    """Creates the stub of one library."""
    symbols = symbols_until(library, newest)
    source, script = out / f"{name}.s", out / f"{name}.map"
    source.write_text(assembly(symbols))
    script.write_text(version_script(symbols))
    stub = out / name
    command = [compiler, "-nostdlib", "-shared", f"-Wl,-soname,{name}"]
    command += [f"-Wl,--version-script={script}", "-o", str(stub), str(source)]
    subprocess.run(command, check=True)
    return stub


def library_path(compiler: str, name: str) -> Path:
    """Returns the file that the compiler would link."""
    command = [compiler, f"-print-file-name={name}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    path = Path(done.stdout.strip())
    if not path.is_absolute():
        sys.exit(f"stub_glibc: {compiler} finds no {name}")
    return path


def main() -> None:
    """Creates all stubs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", help="the oldest glibc to run with, such as 2.28")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cc", default="gcc", help="the compiler (default: gcc)")
    args = parser.parse_args()
    newest, out = parse_version(args.version), args.folder.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    stubs = {}
    for short, name in LIBRARIES.items():
        library = library_path(args.cc, name)
        stubs[short] = write_stub(args.cc, library, name, newest, out)
    command = [args.cc, "-dumpmachine"]
    machine = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    loader = LOADERS[machine.partition("-")[0]]
    loader_stub = write_stub(
        args.cc, library_path(args.cc, loader), loader, newest, out
    )
    for short, stub in stubs.items():
        if short != "c":
            (out / f"lib{short}.so").symlink_to(stub.name)
    # The part of libc that is linked into programs contains atexit.
    static_part = library_path(args.cc, "libc_nonshared.a")
    (out / "libc.so").write_text(
        f"GROUP ( {stubs['c']} {static_part} AS_NEEDED ( {loader_stub} ) )\n"
    )


if __name__ == "__main__":
    main()
