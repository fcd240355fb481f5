"""The columns of tables, as msitctl prints them.

A text names the columns of a class, in the notation of client/ask/print/column.h:
`header[mark]=path`. The mark `+` is for a column that a table has only if a row
has a value for it, and `~` for a column that a single object shows only if it is
not zero. Several paths are joined by `/`: the values that exist, as in
`output/0`; or by `|`: both sides of a pair, once if they are equal. `*name` stands
for the columns of the keys of the field `name`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msitd.query.comparison_types import ComparedTensor, Comparison, ComparisonRow
from msitd.query.node_types import NodeStatus, Stream
from msitd.query.table import Column, cell_text, columns_of
from msitd.query.types import (
    Attachment,
    Capabilities,
    Metric,
    RankCoverage,
    Run,
    StatsGroup,
    Summary,
    Tensor,
)

# Metrics of a row that is shown without its daemon, whose capabilities have the
# list.
_ROW_METRICS = (
    *("cosine", "max_abs", "mean_abs", "max_rel"),
    *("mean_rel", "rmse", "nl2", "kl"),
)

_SUMMARY = (
    "min={0}min,max={0}max,mean={0}mean,l2_norm={0}l2_norm,nan_count~={0}nan_count"
)

# The lists that msitctl prints as tables.
_TABLES: dict[type[Any], str] = {
    Run: "name,state,world_size,tensors=counters.tensor_count,"
    "statistics+=counters.statistics_count,size=counters.size_bytes,"
    "dropped~=counters.dropped_count,conflicts~=counters.conflict_count,"
    "archive+=archive.state,create_time,labels",
    Attachment: "name,media_type,size=size_bytes,create_time",
    Tensor: "rank,device,token,op,call~=call,io/index,dtype,shape,size=size_bytes,"
    f"{_SUMMARY.format('summary.')},kind+=kind,value+=value,requests+=requests",
    StatsGroup: "key,tensors=tensor_count,size=size_bytes,count=summary.count,"
    "min=summary.min,max=summary.max,mean=summary.mean,l1_norm=summary.l1_norm,"
    "l2_norm=summary.l2_norm,nan_count~=summary.nan_count,"
    "+inf~=summary.positive_infinity_count,-inf~=summary.negative_infinity_count,"
    "zero_count~=summary.zero_count",
    Comparison: "name,verdict=@verdict,state,golden=golden_run,target=target_run,"
    "golden_at=golden_source,target_at=target_source,"
    "judged_from=judged_comparison,pass=pass_count,"
    "fail=fail_count,unmatched=unmatched_count,skipped=skipped_count,"
    "partial~=partial,restored_from=restored_from,create_time,end_time",
    ComparisonRow: "row,token,rank,op,call~=call,io/index,dtype=golden.dtype|target.dtype,"
    "shape=golden.shape|target.shape,verdict,*metrics,*custom_metrics,reason",
    Metric: "metric=name,direction,unit,family",
}

# Objects that msitctl prints in another form.
_OBJECTS: dict[type[Any], str] = {
    ComparedTensor: f"dtype,shape,{_SUMMARY.format('')},ranks,layout,view,value,name",
    Summary: f"count,{_SUMMARY.format('')},+inf~=positive_infinity_count,"
    "-inf~=negative_infinity_count,zero_count~=zero_count",
    RankCoverage: "rank,seen=seen_count,filtered~=filtered_count,stored=stored_count,"
    "dropped~=dropped_count,truncated~=truncated_count,degraded~=degraded_count,"
    "conflicts~=conflict_count,pending~=pending_count,lost~=lost_count,"
    "not_recorded~=not_recorded_count,stream_state",
    Stream: "run,rank,age,records=committed_record_count,size=committed_size_bytes,"
    "in_flight=in_flight_size_bytes,dropped~=dropped_count,"
    "truncated~=truncated_count,degraded~=degraded_count",
    NodeStatus: "version,uptime,storage=storage_state,error=storage_error,"
    "runs=run_count,streams=open_stream_count,records=committed_record_count,"
    "dropped~=dropped_count,conflicts~=conflict_count,"
    "refused_chunks~=refused_chunk_count,corrupt_frames~=corrupt_frame_count,"
    "missing_segments~=missing_segment_count,segments=segment_size_bytes,"
    "disk_free=disk_free_bytes,comparisons~=active_comparison_count",
    Capabilities: "version,chunk_size_bytes_max,read_piece_bytes_max,simd_target",
}

_LAYOUTS = _TABLES | _OBJECTS

_COMPUTED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "@verdict": ("text", lambda c: c.verdict if c.state == "done" else None),
}

_NO_KEYS: Mapping[str, Sequence[str]] = {}


def has_layout(row_type: type[Any]) -> bool:
    """Returns whether a class has a layout."""
    return row_type in _LAYOUTS


def has_table(row_type: type[Any]) -> bool:
    """Returns whether msitctl prints lists of a class as tables."""
    return row_type in _TABLES


def table_columns(
    row_type: type[Any],
    rows: Sequence[Any],
    shown: Mapping[str, Sequence[str]] = _NO_KEYS,
) -> list[Column]:
    """Returns the columns of a table: those that msitctl prints, if it prints one.

    Args:
        row_type: The class of the rows, which has a layout.
        rows: The rows. Columns that none of them needs may be missing.
        shown: The keys of each field whose keys become columns.
    """
    return [
        column
        for mark, column in _parsed(row_type, shown)
        if mark != "+" or any(_says_something(column.get(row)) for row in rows)
    ]


def object_columns(value: Any) -> list[Column]:
    """Returns the columns with which a single object is shown."""
    shown = {"metrics": _ROW_METRICS, "custom_metrics": ()}
    if isinstance(value, ComparisonRow):
        shown["custom_metrics"] = tuple(m.metric for m in value.custom_metrics)
    return [
        column
        for mark, column in _parsed(type(value), shown)
        if _is_shown(mark, column.get(value))
    ]


def _is_shown(mark: str, cell: Any) -> bool:
    return _says_something(cell) if mark else cell not in (None, "", (), {})


def _says_something(cell: Any) -> bool:
    # `tensor` is the usual kind of a record.
    return cell is not None and cell not in ("", "tensor", (), {}, 0, False)


def _parsed(
    row_type: type[Any], shown: Mapping[str, Sequence[str]]
) -> Iterable[tuple[str, Column]]:
    """Yields the mark and the column of each column in the layout of a class."""
    known = {column.name: column for column in columns_of(row_type, shown)}
    for text in _LAYOUTS[row_type].split(","):
        if text.startswith("*"):
            for key in shown.get(text[1:], ()):
                yield "", known[f"{text[1:]}.{key}"]._replace(name=key)
            continue
        header, _, path = text.partition("=")
        mark = header[-1] if header[-1] in "+~" else ""
        name = header.removesuffix(mark)
        yield mark, _column(name, path or header, known)


def _column(name: str, path: str, known: Mapping[str, Column]) -> Column:
    if path in _COMPUTED:
        kind, get = _COMPUTED[path]
        return Column(name, kind, get)
    if "|" in path:
        golden, target = (known[part] for part in path.split("|"))
        return Column(name, "text", lambda row: _pair_text(row, golden, target))
    if "/" in path:
        parts = [known[part] for part in path.split("/")]
        return Column(name, "text", lambda row: _joined(row, parts))
    return known[path]._replace(name=name)


def _pair_text(row: Any, golden: Column, target: Column) -> str | None:
    """Returns both sides of a pair, once if they are equal; `-` for a missing side."""
    values = [side.get(row) for side in (golden, target)]
    if values[0] is None and values[1] is None:
        return None
    texts = [
        "-" if value is None else cell_text(side, value)
        for side, value in zip((golden, target), values, strict=True)
    ]
    return texts[0] if texts[0] == texts[1] else "/".join(texts)


def _joined(row: Any, parts: Sequence[Column]) -> str:
    return "/".join(filter(None, (part.get(row) for part in parts)))
