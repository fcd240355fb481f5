"""`python -m msitd.fleet`, which `msitctl compare run --engine` starts.

Reads a Comparison from one file and writes a StreamComparisonRowsResponse to
another. The exit code is 0 if that file was written, 2 if the request is
invalid, and 3 if something required is missing on this machine; stderr has the
reason.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_USAGE = 2
_LOCAL = 3
_INTERRUPTED = 130
_FAILED = 5


def main(words: list[str]) -> int:
    """Runs the comparison that the arguments describe; returns the exit code."""
    flags = _parse(words)
    try:
        answer = _answer(flags)
    except (ImportError, OSError, RuntimeError) as error:
        return _say(str(error), _LOCAL)
    except ValueError as error:
        return _say(str(error), _USAGE)
    except KeyboardInterrupt:
        return _INTERRUPTED
    Path(flags.answer).write_bytes(answer.SerializeToString())
    return 0


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m msitd.fleet", allow_abbrev=False)
    parser.add_argument("--request", required=True)
    parser.add_argument("--answer", required=True)
    parser.add_argument("--engine", choices=("ray", "processes"), required=True)
    parser.add_argument("--ray-address")
    parser.add_argument("--out")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--worker-config")
    parser.add_argument("--no-passing-rows", action="store_true")
    parser.add_argument("--rows-max", type=int, default=1000)
    parser.add_argument("--timeout", type=float)
    parser.add_argument("--progress", action="store_true")
    return parser.parse_args(words)


def _answer(flags: argparse.Namespace) -> Any:
    from msitd.fleet.comparing import Wanted, run
    from msitd.query.errors import QueryError, code_number
    from msitd.query.messages import message_class, new

    comparison = message_class("msitd.v1.Comparison").FromString(
        Path(flags.request).read_bytes()
    )
    config = ""
    if flags.worker_config:
        config = Path(flags.worker_config).read_text(encoding="utf-8")
    wanted = Wanted(
        comparison=comparison,
        engine=flags.engine,
        address=flags.ray_address,
        workers=flags.workers,
        out=flags.out,
        config=config,
        failing_rows_max=flags.rows_max,
        passing_rows=not flags.no_passing_rows,
        on_progress=_show if flags.progress else None,
    )
    answer = new("StreamComparisonRowsResponse")
    try:
        with _limited(flags.timeout):
            outcome = run(wanted)
    except (QueryError, _OutOfTime) as error:
        # Nothing was compared, so the comparison has no name.
        code = error.code if isinstance(error, QueryError) else "DEADLINE_EXCEEDED"
        answer.comparison.state = _FAILED
        answer.comparison.error = str(getattr(error, "message", error))
        answer.comparison.error_code = code_number(code)
        if isinstance(error, QueryError):
            answer.comparison.error_reason = error.reason
        return answer
    finally:
        if flags.progress:
            print(file=sys.stderr)
    answer.comparison.CopyFrom(outcome.comparison)
    answer.rows.extend(outcome.failing_rows)
    return answer


class _OutOfTime(Exception):
    """The comparison did not finish in time."""


@contextlib.contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    """Raises _OutOfTime in the block once the time is up."""
    if seconds is None:
        yield
        return

    def end(*_: object) -> None:
        raise _OutOfTime(f"not over in {seconds:g} s; nothing of it goes on")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _show(progress: Any) -> None:
    text = (
        f"{progress.done}/{progress.tasks} tasks: {progress.rows} rows, "
        f"{progress.fail} fail, {progress.unmatched} unmatched"
    )
    if progress.lost:
        text += f", {progress.lost} workers lost"
    print(f"\r{text}", end="", file=sys.stderr, flush=True)


def _say(text: str, code: int) -> int:
    print(f"msitctl: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
