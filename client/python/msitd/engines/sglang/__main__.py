"""Imports a folder of SGLang's dumper from the command line."""

import argparse
import sys

from msitd._core.errors import MsitError
from msitd.engines.sglang.reader import import_dumps


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0, or 4 if files were skipped."""
    parser = argparse.ArgumentParser(prog="python -m msitd.engines.sglang")
    parser.add_argument("folder", help="DUMPER_DIR/EXP_NAME")
    parser.add_argument("--run", help="default: the name of the folder")
    parser.add_argument("--world-size", type=int)
    parser.add_argument("--endpoint", help="as of msitd.Client")
    options = parser.parse_args(arguments)
    try:
        done = import_dumps(
            options.folder,
            options.run,
            world_size=options.world_size,
            endpoint=options.endpoint,
        )
    except (ValueError, OSError, MsitError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 3
    print(f"{done.run}: {done.tensors} tensors of {done.files} files")
    for reason, count in done.left_out.items():
        print(f"left out: {count} because {reason}", file=sys.stderr)
    return 4 if done.left_out else 0


if __name__ == "__main__":
    sys.exit(main())
