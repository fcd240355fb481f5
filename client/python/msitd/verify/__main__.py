"""`python -m msitd.verify`, which `msitctl verify` starts.

Makes the calls of a run again in a child process, compares the run with the results,
and writes a summary as JSON. A call that ends the child is left out and counted. The
exit code is 0 if the summary was written, 2 if the request is invalid, and 3 if
something required is missing on this machine; stderr has the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_USAGE = 2
_LOCAL = 3
_FAILED = 5
_INTERRUPTED = 130
# Number of calls that may end a worker before the run is given up.
_CRASHES_MAX = 32
# Maximum number of ranks that are selected.
_RANKS_MAX = 4096
_POLL_S = 0.5
_STOP_S = 10.0
# The tensors of a call are widened to float64, and there are several of them.
_MEMORY_SHARE = 0.8


def main(words: list[str]) -> int:
    """Verifies the run that the arguments name; returns the exit code."""
    flags = _parse(words)
    try:
        if flags.worker:
            return _work(flags)
        return _verify(flags)
    except ImportError as error:
        return _say(f"verify needs {error.name}: {error}", _LOCAL)
    except ValueError as error:
        return _say(str(error), _USAGE)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (OSError, RuntimeError) as error:
        return _say(str(error), _LOCAL)
    except Exception as error:
        # QueryError and MsitError, whose module may not be installed.
        if type(error).__module__.startswith("msitd."):
            return _say(str(error), _FAILED)
        raise


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m msitd.verify", allow_abbrev=False)
    parser.add_argument("--run", required=True)
    parser.add_argument("--answer")
    parser.add_argument("--as", dest="name")
    parser.add_argument("--ops", action="append")
    parser.add_argument("--ranks")
    parser.add_argument("--tokens")
    parser.add_argument("--suspects")
    parser.add_argument("--size-max", type=int, default=1 << 30)
    parser.add_argument("--call-timeout", type=float, default=600.0)
    parser.add_argument("--progress", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args(words)


def _numbers(text: str | None) -> list[tuple[int, int]] | None:
    """Returns the ranges of a list such as `0,4-7`."""
    if text is None:
        return None
    out = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{part!r} is not a number or a range of numbers")
        out.append((int(first), int(last) if dash else int(first)))
        if out[-1][1] < out[-1][0]:
            raise ValueError(f"{part!r}: the end is before the beginning")
    return out


def _selection_of(flags: argparse.Namespace, daemon: Any) -> Any:
    from msitd.verify.records import Selection
    from msitd.verify.suspects import selection_of

    if flags.suspects:
        return selection_of(daemon, flags.suspects, flags.run)
    ranges = _numbers(flags.ranks)
    ranks = None
    if ranges is not None:
        if sum(last - first + 1 for first, last in ranges) > _RANKS_MAX:
            raise ValueError(f"--ranks has more than {_RANKS_MAX} ranks")
        ranks = tuple(n for first, last in ranges for n in range(first, last + 1))
    tokens = _numbers(flags.tokens)
    return Selection(
        tuple(flags.ops) if flags.ops else None,
        ranks,
        None if tokens is None else tuple(tokens),
    )


def _verify(flags: argparse.Namespace) -> int:
    from msitd import query
    from msitd.verify import golden
    from msitd.verify.comparing import compare

    with query.connect() as daemon:
        chosen = _selection_of(flags, daemon)
        name = golden.name_of(flags.run, flags.name)
        run = daemon.runs.get(flags.run)
        if not golden.prepare(daemon, run, name):
            with tempfile.TemporaryDirectory(prefix="msitd-verify-") as folder:
                code = _supervise(flags, name, chosen, Path(folder))
            if code != 0:
                return code
            if chosen.is_everything and run.state == "sealed":
                daemon.runs.seal(name)
        summary = compare(daemon, flags.run, name, chosen)
        siblings = _observe(daemon, flags.run, chosen)
    answer = {**summary._asdict(), "siblings": siblings._asdict()}
    text = json.dumps(answer, ensure_ascii=True)
    if flags.answer:
        Path(flags.answer).write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


def _observe(daemon: Any, run: str, chosen: Any) -> Any:
    """Compares siblings. Nothing else depends on it, so it cannot fail."""
    from msitd.verify.observations import not_observed, observe

    try:
        return observe(daemon, daemon.runs.get(run), chosen)
    except Exception as error:  # noqa: BLE001 - a comparison of foreign data
        return not_observed(f"it failed: {type(error).__name__}: {error}"[:200])


def _supervise(flags: argparse.Namespace, name: str, chosen: Any, folder: Path) -> int:
    """Runs workers until one has ended in order; returns its exit code."""
    place, crashed, order = folder / "place", folder / "crashed", folder / "order"
    crashed.touch()
    order.write_text(
        json.dumps(
            {
                "run": flags.run,
                "golden": name,
                "ops": chosen.ops,
                "ranks": chosen.ranks,
                "tokens": chosen.tokens,
                "size_max": flags.size_max,
                "progress": flags.progress,
                "place": str(place),
                "crashed": str(crashed),
            }
        ),
        encoding="utf-8",
    )
    words = [sys.executable, "-m", "msitd.verify", "--run", flags.run]
    words += ["--worker", str(order)]
    for _ in range(_CRASHES_MAX):
        place.write_bytes(b"")
        with _child(words) as child:
            code = _wait(child, place, flags.call_timeout)
        if flags.progress:
            sys.stderr.write("\n")
        if code >= 0:
            return code
        last = place.read_bytes().strip()
        if not last or -code in (signal.SIGINT, signal.SIGTERM):
            return _say(f"the worker was ended by signal {-code}", _LOCAL)
        with crashed.open("a", encoding="utf-8") as lines:
            lines.write(last.decode() + "\n")
    return _say(f"{_CRASHES_MAX} calls have ended the interpreter", _LOCAL)


@contextlib.contextmanager
def _child(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _wait(child: subprocess.Popen[bytes], place: Path, limit: float) -> int:
    """Waits for a worker, and kills it if a single call takes too long."""
    since = time.monotonic()
    last = b""
    while True:
        try:
            return child.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            pass
        at = place.read_bytes()
        if at != last or not at.strip():
            last, since = at, time.monotonic()
        if time.monotonic() - since > limit:
            child.kill()


def _work(flags: argparse.Namespace) -> int:
    _limit_memory()
    from msitd import query
    from msitd.verify.records import Selection
    from msitd.verify.worker import Options, Place, Worker, read_crashed

    _end_with_parent()
    order = json.loads(Path(flags.worker).read_text(encoding="utf-8"))
    tokens = order["tokens"]
    chosen = Selection(
        None if order["ops"] is None else tuple(order["ops"]),
        None if order["ranks"] is None else tuple(order["ranks"]),
        None if tokens is None else tuple((first, last) for first, last in tokens),
    )
    options = Options(
        order["run"],
        order["golden"],
        chosen,
        order["size_max"],
        order["progress"],
        frozenset(read_crashed(order["crashed"])),
    )
    with query.connect() as daemon:
        Worker(daemon, options, Place(order["place"])).run()
    return 0


def _end_with_parent() -> None:
    """Ends this process when its parent is killed."""
    import ctypes

    set_parent_death_signal = 1
    parent = os.getppid()
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(_FAILED)


def _limit_memory() -> None:
    """Makes allocations fail before the machine runs out of memory."""
    import resource

    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = int(pages * _MEMORY_SHARE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"msitctl: {text}\n")
    return code


if __name__ == "__main__":
    # Not raised inside an import, which would leave a module half loaded.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
