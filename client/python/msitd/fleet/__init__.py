"""Compares runs in parts, on the processors of a machine or on the nodes of Ray.

    from msitd import fleet

    done = fleet.compare(golden="fp32", target="bf16", golden_source="file:///archive",
                         target_source="node7:7741", out="/shared/fp32-bf16")
    print(done.comparison.verdict, done.comparison.first_divergence)
    rows = fleet.read_rows(done.folder)

Each worker starts its own msitd, which reads both runs from their sources. The
rows are the same as those of a single daemon. They are written to Parquet
files; the caller receives counts and the rows that fail.

Requires pyarrow and, for `engine="ray"`, Ray: pip install 'msitd[ray]'.
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
    """The result of a comparison in parts."""

    comparison: Comparison
    """Counts, first rows and other results, as a single daemon would report
    them. Its state is `failed` if a part is missing; `error` names the part.
    """
    failing_rows: tuple[ComparisonRow, ...]
    """The first rows that fail or are unmatched."""
    folder: str
    """The folder with the rows, for `read_rows` or any reader of Parquet."""
    paths: tuple[str, ...]
    """The files with the rows. Files on other machines may not be accessible here."""
    tasks: tuple[dict[str, Any], ...]
    """The manifest's entry for each task."""
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
    """Compares two runs in parts, and waits until the comparison is done.

    Args:
        golden: The reference run.
        target: The run under test.
        golden_source: Location of the golden run: `HOST:PORT` or `unix:PATH` of
            a daemon, or the URL of an archive. Empty: the daemon at `endpoint`.
        target_source: Location of the target run, likewise.
        select: Tensors to compare, in both runs; None: all.
        policy: Which pairs pass; None: the defaults.
        matching: How tensors are paired, without a mapping; None: by equal
            names.
        watches: Conditions on rows.
        reading: What is read of pairs whose hashes differ; None: the bytes.
        engine: `ray`, or `processes` for this machine.
        address: Address of a running Ray; None: the Ray of the process, that of
            RAY_ADDRESS, or a new one on this machine.
        workers: Number of workers; None: one per processor.
        out: Folder for the rows, shared by all nodes if there are several. A
            folder of an earlier comparison is replaced. None: a new temporary
            folder.
        endpoint: The daemon for an empty source; None: the default of msitctl.
        worker_config: TOML for the daemons of the workers, as in the
            configuration file of msitd: `archive_s3_endpoint`, `peer_ca_file`
            and so on.
        failing_rows_max: Maximum number of rows in `failing_rows`.
        passing_rows: Whether the files contain rows that pass. Without them,
            the files of runs that are mostly equal are written in a tenth of
            the time.
        task_groups: Number of groups per task, each a rank and a token; None:
            some seconds of work.
        on_progress: Called after each task.

    Raises:
        ImportError: A package is not installed.
        TypeError: An argument has the wrong type, such as a str for `select`.
        QueryError: The runs cannot be read, or the request is invalid.
        ValueError: The request cannot be split into parts, or `out` cannot hold
            rows.
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
