"""Comparisons of two runs."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, SupportsIndex, cast

from msitd.query import arguments
from msitd.query.comparison_names import full_name
from msitd.query.comparison_types import (
    Comparison,
    ComparisonRow,
    CustomMetric,
    Matching,
    Policy,
    Reading,
    RowGroupBy,
    Verdict,
)
from msitd.query.connection import Caller, seconds_of
from msitd.query.errors import QueryError, code_name
from msitd.query.listing import Listing
from msitd.query.messages import from_message, new, to_message
from msitd.query.node import Node
from msitd.query.plotting import plot_rows, plot_shares
from msitd.query.reporting import write_report
from msitd.query.row_groups import RowGroup, merged_groups
from msitd.query.types import TensorFilter, checked_filter

# Polling starts fast, for short comparisons, and slows to twice a second.
_FIRST_POLL_S = 0.005
_SLOWEST_POLL_S = 0.5
# Number of polls, or of streams without a row, that may fail with UNAVAILABLE
# one after another while the daemon restarts.
_LOST_MAX = 10
_RETRY_DELAY_S = 0.2

# Rows per call that adds metrics. The daemon accepts 1000 rows and 4 MiB per
# call.
_ROWS_PER_CALL = 256


class RowListing(Listing[ComparisonRow]):
    """The rows of a comparison."""

    def _names(self, rows: Sequence[ComparisonRow]) -> Mapping[str, Sequence[str]]:
        metrics = Node(self._caller).capabilities().metrics
        return {"metrics": metrics, "custom_metrics": _custom_names(rows)}

    def _shown_names(
        self, rows: Sequence[ComparisonRow]
    ) -> Mapping[str, Sequence[str]]:
        capabilities = Node(self._caller).capabilities()
        measured = {name for row in rows for name in row.metrics}
        shown = [
            metric.name
            for metric in capabilities.metric_table
            # Those of a metric set are measured only if the policy selects it.
            if metric.in_default_columns
            or (metric.family == "element" and metric.name in measured)
        ]
        # Older daemons report only the names.
        metrics = shown if capabilities.metric_table else capabilities.metrics
        return {"metrics": metrics, "custom_metrics": _custom_names(rows)}


def _custom_names(rows: Iterable[ComparisonRow]) -> list[str]:
    return list({m.metric: None for row in rows for m in row.custom_metrics})


class Comparisons:
    """The operations of `msitctl compare`. Every method may raise QueryError."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def run(
        self,
        golden_run: str,
        target_run: str,
        select: TensorFilter | None = None,
        *,
        policy: Policy | None = None,
        matching: Matching | None = None,
        timeout: float | timedelta | None = None,
        reading: Reading | None = None,
        golden_source: str = "",
        target_source: str = "",
    ) -> Comparison:
        """Compares two runs and waits until the comparison is done.

        If the wait ends first, by timeout or Ctrl-C, the comparison is
        cancelled.

        Args:
            golden_run: The reference run.
            target_run: The run under test.
            select: Tensors to compare, in both runs; None: all.
            policy: Which pairs pass; None: the defaults.
            matching: How tensors are paired; None: by equal names.
            timeout: Time limit of the wait, in seconds; None: that of the
                connection, or 24 hours.
            reading: See `create`.
            golden_source: See `create`.
            target_source: See `create`.

        Returns:
            The comparison, which is done. Its `verdict` is the result.

        Raises:
            QueryError: The comparison failed, or another user cancelled it.
                `DEADLINE_EXCEEDED` if the time limit was exceeded.
        """
        made = self.create(
            golden_run,
            target_run,
            select,
            policy=policy,
            matching=matching,
            reading=reading,
            golden_source=golden_source,
            target_source=target_source,
        )
        try:
            return self.wait(made, timeout=timeout)
        except BaseException as error:
            code = error.code if isinstance(error, QueryError) else ""
            if code in ("", "DEADLINE_EXCEEDED"):
                # The error that ended the wait is more useful than that of a
                # daemon that is gone.
                with contextlib.suppress(QueryError):
                    self.cancel(made)
            raise

    def create(
        self,
        golden_run: str,
        target_run: str,
        select: TensorFilter | None = None,
        *,
        policy: Policy | None = None,
        matching: Matching | None = None,
        follow: bool = False,
        detach: bool = False,
        watches: str | Iterable[str] | None = None,
        reading: Reading | None = None,
        golden_source: str = "",
        target_source: str = "",
    ) -> Comparison:
        """Starts a comparison and returns it at once.

        Args:
            golden_run: The reference run.
            target_run: The run under test.
            select: Tensors to compare, in both runs; None: all.
            policy: Which pairs pass; None: the defaults.
            matching: How tensors are paired; None: by equal names.
            follow: Compares new tensors as the runs grow, until both are
                sealed. Stops when no client reads the comparison; see `follow`.
            detach: With `follow`: continues even if no client reads the
                comparison.
            watches: Conditions on rows, such as `target_nan_count > 0`.
            reading: What is read of pairs whose hashes differ; None: the bytes.
            golden_source: Location of the golden run: a daemon listed in this
                daemon's `peers`, the URL of an archive, or several daemons and
                `local`, separated by commas. Empty: this daemon.
            target_source: Location of the target run, likewise.

        Raises:
            TypeError: An argument has the wrong type, such as a str for
                `select`.
        """
        comparison = Comparison(
            golden_run=golden_run,
            target_run=target_run,
            filter=checked_filter(select),
            policy=arguments.instance("policy", policy, Policy),
            matching=arguments.instance("matching", matching, Matching),
            follow=follow,
            detach=detach,
            watches=arguments.texts("watches", watches or None),
            reading=reading or "",
            golden_source=golden_source,
            target_source=target_source,
        )
        return self._call(
            "CreateComparison", new("CreateComparisonRequest", comparison=comparison)
        )

    def judge(
        self,
        comparison: Comparison | str | int,
        policy: Policy | None = None,
        *,
        timeout: float | timedelta | None = None,
    ) -> Comparison:
        """Judges the stored rows of a comparison by another policy.

        Reads no tensor. Rows that lack a metric of the policy are skipped, with
        `lacks_metrics`; the result is then `partial` at best. The comparison
        itself is unchanged.

        Args:
            comparison: A comparison that is done, or its name as in `get`.
            policy: Which pairs pass; None: the defaults. Only rules, preset and
                shape rule may be set.
            timeout: Time limit of the wait, in seconds; None: that of the
                connection, or 24 hours.

        Returns:
            A new comparison with the same rows, which is done.

        Raises:
            TypeError: `policy` has the wrong type.
            QueryError: `FAILED_PRECONDITION` if the comparison is not done.
                `DEADLINE_EXCEEDED` if the time limit was exceeded.
        """
        request = new(
            "JudgeComparisonRequest",
            comparison=self._name_of(comparison),
            policy=arguments.instance("policy", policy, Policy),
        )
        return self.wait(self._call("JudgeComparison", request), timeout=timeout)

    def wait(
        self,
        comparison: Comparison | str | int,
        *,
        timeout: float | timedelta | None = None,
    ) -> Comparison:
        """Waits until a comparison is done.

        Args:
            comparison: The comparison, or its name as in `get`.
            timeout: Time limit, in seconds; None: that of the connection, or 24
                hours.

        Raises:
            ValueError: `timeout` is not positive.
            QueryError: The comparison failed or was cancelled.
                `DEADLINE_EXCEEDED` if the time limit was exceeded; the
                comparison then continues.
        """
        name = self._name_of(comparison)
        limit = seconds_of(timeout)
        deadline = (
            self._caller.stream_deadline()
            if limit is None
            else time.monotonic() + limit
        )
        delay = _FIRST_POLL_S
        lost_count = 0
        while True:
            try:
                latest = self.get(name)
                lost_count = 0
            except QueryError as error:
                lost_count += 1
                if error.code != "UNAVAILABLE" or lost_count == _LOST_MAX:
                    raise
            else:
                if latest.is_over:
                    return _succeeded(latest)
            left = deadline - time.monotonic()
            if left <= 0:
                raise QueryError(
                    "DEADLINE_EXCEEDED", "", f"{name} has not ended in time"
                )
            time.sleep(min(delay, left))
            delay = min(delay * 1.5, _SLOWEST_POLL_S)

    def get(self, comparison: Comparison | str | int) -> Comparison:
        """Returns the current state of a comparison.

        Args:
            comparison: The comparison, or one of its names as in msitctl, such as
                `c-000009` or `c-9`. `latest` and -1 stand for the newest
                comparison, and -2 for the one before it.

        Raises QueryError `NOT_FOUND` if it does not exist.
        """
        request = new("GetComparisonRequest", comparison=self._name_of(comparison))
        return self._call("GetComparison", request)

    def list(self, *, limit: int | None = None) -> Listing[Comparison]:
        """Lists comparisons, oldest first.

        Args:
            limit: Maximum number of comparisons; None: all.
        """
        return Listing(
            self._caller,
            "ComparisonService/ListComparisons",
            "comparisons",
            Comparison,
            {},
            limit,
        )

    def rows(
        self,
        comparison: Comparison | str | int,
        *,
        verdicts: Verdict | Iterable[Verdict] | None = None,
        ops: str | Iterable[str] | None = None,
        rows: SupportsIndex | Iterable[SupportsIndex] | None = None,
        limit: int | None = None,
    ) -> RowListing:
        """Lists the rows of a comparison in execution order.

        Args:
            comparison: The comparison, or its name as in `get`.
            verdicts: Verdicts to list; None: all.
            ops: Patterns of ops, at most 64; None: all.
            rows: Numbers of rows, at most 1000; None: all.
            limit: Maximum number of rows; None: all.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is an empty list, which would select
                nothing.
        """
        return RowListing(
            self._caller,
            "ComparisonService/ListComparisonRows",
            "rows",
            ComparisonRow,
            {
                "comparison": self._name_of(comparison),
                "verdicts": arguments.texts("verdicts", verdicts),
                "op_patterns": arguments.texts("ops", ops),
                "rows": arguments.numbers("rows", rows),
            },
            limit,
        )

    def groups(
        self,
        comparison: Comparison | str | int,
        by: RowGroupBy | Iterable[RowGroupBy] | None = None,
        *,
        value: str = "share",
    ) -> list[RowGroup]:
        """Counts the rows of a comparison by group, and finds the worst of each.

        The daemon reduces the rows, so that comparisons of millions of rows
        have an overview. Supported with a single daemon only.

        Args:
            comparison: The comparison, or its name as in `get`.
            by: Properties to group by; None: all rows form one group.
            value: A metric, or `share` for the error as a share of its bound.

        Returns:
            Groups in the order of their first rows.

        Raises:
            QueryError: `INVALID_ARGUMENT` for a value that the daemon does not
                have, or a property that is given twice.
        """
        answers = []
        row_count = next_row = 0
        while not answers or next_row < row_count:
            request = new(
                "SummarizeComparisonRowsRequest",
                comparison=self._name_of(comparison),
                first_row=next_row,
                group_by=arguments.texts("by", by),
                value=value,
            )
            answer = self._caller.unary(
                "ComparisonService/SummarizeComparisonRows",
                request,
                "SummarizeComparisonRowsResponse",
            )
            answers.append([from_message(group) for group in answer.groups])
            if answer.next_row <= next_row:
                break
            next_row, row_count = answer.next_row, answer.row_count
        table = Node(self._caller).capabilities().metric_table
        lowest = {m.name for m in table if m.direction == "higher_is_better"}
        return merged_groups(answers, lowest_is_worst=value in lowest)

    def follow(
        self, comparison: Comparison | str | int, *, first_row: int = 0
    ) -> Iterator[ComparisonRow]:
        """Yields rows as they are produced, until the comparison is over.

        If a stream breaks, it resumes after the last row. To find out how the
        comparison ended, call `get`.

        Args:
            comparison: The comparison, or its name as in `get`.
            first_row: Number of the first row to return.
        """
        deadline = self._caller.stream_deadline()
        fruitless_count = 0
        next_row = first_row
        while True:
            before = next_row
            request = new(
                "StreamComparisonRowsRequest",
                comparison=self._name_of(comparison),
                first_row=next_row,
            )
            try:
                for answer in self._caller.stream(
                    "ComparisonService/StreamComparisonRows",
                    request,
                    "StreamComparisonRowsResponse",
                    deadline,
                ):
                    for row in answer.rows:
                        next_row = row.row + 1
                        yield from_message(row)
                return
            except QueryError as error:
                fruitless_count = 0 if next_row > before else fruitless_count + 1
                if error.code != "UNAVAILABLE" or fruitless_count == _LOST_MAX:
                    raise
            time.sleep(_RETRY_DELAY_S)

    def cancel(self, comparison: Comparison | str | int) -> Comparison:
        """Stops a comparison. The rows that exist are kept."""
        request = new("CancelComparisonRequest", comparison=self._name_of(comparison))
        return self._call("CancelComparison", request)

    def delete(self, comparison: Comparison | str | int) -> None:
        """Stops a comparison and removes it with its rows, without confirmation."""
        request = new("DeleteComparisonRequest", comparison=self._name_of(comparison))
        self._caller.unary(
            "ComparisonService/DeleteComparison", request, "google.protobuf.Empty"
        )

    def add_metrics(
        self,
        comparison: Comparison | str | int,
        metrics: Mapping[int, Iterable[CustomMetric]],
    ) -> Comparison:
        """Adds user-defined metrics to rows of a comparison that has ended.

        The metrics are stored with the rows and appear in every report. They do
        not change verdicts. A metric of the same name in the same row is
        replaced.

        Args:
            comparison: The comparison, or its name as in `get`.
            metrics: Metrics by row number, at most 16 per row.

        Returns:
            The comparison, with the names of all its metrics in
            `custom_metrics`.

        Raises:
            QueryError: `INVALID_ARGUMENT` for a row that does not exist or a
                name that is reserved. Rows are sent 256 at a time in ascending
                order; rows that were sent earlier keep their metrics.
        """
        name = self._name_of(comparison)
        latest = None
        rows = sorted(metrics.items())
        for first in range(0, len(rows), _ROWS_PER_CALL):
            request = new("AddRowMetricsRequest", comparison=name)
            for row, values in rows[first : first + _ROWS_PER_CALL]:
                request.rows.add(row=row, metrics=map(to_message, values))
            latest = self._call("AddRowMetrics", request)
        return self.get(name) if latest is None else latest

    def report(
        self,
        comparison: Comparison | str | int,
        path: str | os.PathLike[str],
        format: str | None = None,
        *,
        verdicts: Verdict | Iterable[Verdict] | None = None,
        histograms: int | None = None,
        mode: str | None = None,
        rules: str | os.PathLike[str] | None = None,
        compat: bool = False,
        colors: bool = False,
        timeout: float | timedelta | None = None,
    ) -> None:
        """Writes the report that `msitctl compare report` writes, with that program.

        Warns if the comparison is partial.

        Args:
            comparison: The comparison, or its name as in `get`.
            path: The file to write. It is created completely or not at all.
            format: `csv`, `jsonl`, `xlsx`, `html`, `junit`, `markdown`, `msit`,
                `msprobe` or `advice`; None: by the end of `path`.
            verdicts: Verdicts of the rows to write; None: all.
            histograms: With `html`: number of rows with histograms.
            mode: With `msprobe`: `all`, `summary` or `md5`.
            rules: With `msprobe` or `advice`: a YAML file with thresholds.
            compat: With `msprobe`: judges rows as msprobe does.
            colors: With `msprobe`: colors rows as its early releases do.
            timeout: Time limit, in seconds; None: that of the connection, or 24
                hours.

        Raises:
            FileNotFoundError: msitctl is not installed.
            OSError: The file cannot be written.
            ValueError: msitctl does not accept an argument.
            QueryError: The daemon refused a call, or the time limit was exceeded.
        """
        words = [self._name_of(comparison), f"--out={os.path.abspath(path)}"]
        wanted = arguments.texts("verdicts", verdicts)
        for flag, value in (
            ("format", format),
            ("verdict", ",".join(wanted) or None),
            ("histograms", histograms),
            ("mode", mode),
            ("rules", None if rules is None else os.path.abspath(rules)),
        ):
            if value is not None:
                words.append(f"--{flag}={value}")
        words += ["--compat"] if compat else []
        words += ["--colors"] if colors else []
        limit = seconds_of(timeout)
        if limit is None:
            limit = self._caller.stream_deadline() - time.monotonic()
        write_report(self._caller.settings, words, limit)

    def plot(
        self,
        comparison: Comparison | str | int,
        metric: str = "nl2",
        *,
        axes: Any = None,
    ) -> Any:
        """Draws a metric of all rows against the depth of their ops.

        Rows that fail are red. Bounds of the policy are dashed lines, NaN and
        infinities are at the top, and a dotted line is at the op of the first
        divergence.

        Args:
            comparison: The comparison, or its name as in `get`.
            metric: The metric to draw. `share` draws a point for each op instead:
                its largest error as a share of the bound, which the daemon
                reduces as for `groups`.
            axes: Axes of matplotlib to draw on; None: new ones.

        Returns:
            The axes.

        Raises:
            ImportError: matplotlib is not installed.
            ValueError: No row has the metric, or a share.
        """
        latest = self.get(comparison)
        if metric == "share":
            return plot_shares(latest, self.groups(latest, "op"), axes)
        return plot_rows(latest, self.rows(latest), metric, axes)

    def _name_of(self, comparison: Comparison | str | int) -> str:
        return full_name(comparison, self.list)

    def _call(self, method: str, request: object) -> Comparison:
        answer = self._caller.unary(
            f"ComparisonService/{method}", request, "Comparison"
        )
        return cast(Comparison, from_message(answer))


def _succeeded(comparison: Comparison) -> Comparison:
    """Returns a comparison that is done.

    Raises QueryError if it failed or was cancelled.
    """
    if comparison.state == "done":
        return comparison
    if comparison.state == "cancelled":
        why = comparison.error or "cancelled by another"
        raise QueryError("CANCELLED", "", f"{comparison.name}: {why}")
    code = code_name(comparison.error_code)
    raise QueryError(
        code, comparison.error_reason, f"{comparison.name} failed: {comparison.error}"
    )
