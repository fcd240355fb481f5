"""Compares runs in parts: on the processors of a machine, or on the nodes of Ray.

from msitd import fleet

done = fleet.compare(golden="fp32", target="bf16", golden_source="file:///archive",
                     target_source="node7:7741", out="/shared/fp32-bf16")
print(done.comparison.verdict, done.comparison.first_divergence)
rows = fleet.read_rows(done.folder)

Each worker starts an msitd of its own, which reads both runs where they lie, so the
rows are those of one daemon. They stay in Parquet files; the caller gets counts and the
rows that fail.

Needs pyarrow and, for `engine="ray"`, Ray: pip install 'msitd[ray]'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from msitd.fleet.comparing import EngineName, Progress, Wanted, run
from msitd.fleet.output import read_rows
from msitd.query import arguments
from msitd.query.comparison_types import (
    Comparison,
    ComparisonRow,
    Matching,
    Policy,
    Reading,
)
from msitd.query.messages import from_message, to_message
from msitd.query.types import TensorFilter, checked_filter

__all__ = ["Compared", "Progress", "compare", "read_rows"]


@dataclass(frozen=True)
class Compared:
    """A comparison in parts that is over."""

    comparison: Comparison
    """Counts, first rows, and so on, as one daemon would have them. Its state is
    `failed` if a part is lacking; `error` names it."""
    failing_rows: tuple[ComparisonRow, ...]
    """The first rows that fail or are unmatched."""
    folder: str
    """Where the rows are: for `read_rows`, or any reader of Parquet."""
    paths: tuple[str, ...]
    """The files with the rows; those of other machines may not be here."""
    tasks: tuple[dict[str, Any], ...]
    """What the manifest says of each task."""
    lost_workers: tuple[str, ...]
    """Why workers were replaced."""


def compare(
    *,
    golden: str,
    target: str,
    golden_source: str = "",
    target_source: str = "",
    select: TensorFilter | None = None,
    policy: Policy | None = None,
    matching: Matching | None = None,
    watches: str | Iterable[str] | None = None,
    reading: Reading | None = None,
    engine: EngineName = "ray",
    address: str | None = None,
    workers: int | None = None,
    out: str | None = None,
    endpoint: str | None = None,
    worker_config: str = "",
    failing_rows_max: int = 1000,
    passing_rows: bool = True,
    task_groups: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Compared:
    """Compares two runs in parts, and waits for the end.

    Args:
        golden: The run taken as right.
        target: The run under test.
        golden_source: Where the golden run lies: `HOST:PORT` or `unix:PATH` of a
            daemon, or the URL of an archive. Empty: the daemon at `endpoint`.
        target_source: The same of the target run.
        select: Which tensors of both; None: all.
        policy: What passes; None: the defaults.
        matching: Which tensors belong to each other, without a mapping; None: equal
            names.
        watches: Conditions on rows.
        reading: What is read of pairs whose hashes differ; None: the bytes.
        engine: `ray`, or `processes` of this machine.
        address: A Ray that runs; None: that of the process, of RAY_ADDRESS, or a new
            one on this machine.
        workers: How many; None: one for each processor.
        out: The folder for the rows, shared by all nodes if there are several; one
            that an earlier comparison made is replaced. None: a new temporary one.
        endpoint: The daemon for a source that is empty; None: as msitctl finds it.
        worker_config: TOML for the daemons of the workers, as msitd takes it in a
            file: `archive_s3_endpoint`, `peer_ca_file` and so on.
        failing_rows_max: Most rows in `failing_rows`.
        passing_rows: Whether files have rows that pass. Without them, those of runs
            that are mostly equal are written in a tenth of the time.
        task_groups: Ranks and tokens of a task; None: some seconds of work.
        on_progress: Called behind each task.

    Raises:
        ImportError: A package is not installed.
        TypeError: An argument has the wrong type, such as a text for `select`.
        QueryError: The runs cannot be read, or what is asked for is wrong.
        ValueError: What is asked for has no parts, or `out` is no place for rows.
    """
    asked = Comparison(
        golden_run=golden,
        target_run=target,
        filter=checked_filter(select),
        policy=arguments.instance("policy", policy, Policy),
        matching=arguments.instance("matching", matching, Matching),
        watches=arguments.texts("watches", watches or None),
        reading=reading or "",
    )
    message = to_message(asked)
    message.golden_source = golden_source
    message.target_source = target_source
    outcome = run(
        Wanted(
            comparison=message,
            engine=engine,
            address=address,
            workers=workers,
            out=out,
            endpoint=endpoint or "",
            config=worker_config,
            failing_rows_max=failing_rows_max,
            passing_rows=passing_rows,
            task_groups=task_groups,
            on_progress=on_progress,
        )
    )
    return Compared(
        comparison=from_message(outcome.comparison),
        failing_rows=tuple(from_message(row) for row in outcome.failing_rows),
        folder=outcome.folder,
        paths=tuple(task["path"] for task in outcome.tasks if "path" in task),
        tasks=tuple(outcome.tasks),
        lost_workers=tuple(outcome.lost),
    )
