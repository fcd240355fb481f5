"""Queries a daemon from Python: runs, tensors, comparisons, captures, nodes.

    from msitd import query

    with query.connect() as daemon:
        golden = daemon.tensors.list("golden", query.select(ops="*.mlp"), limit=1)
        for tensor in golden:
            print(daemon.tensors.read(tensor).mean())
        done = daemon.comparisons.run("golden", "bf16")
        rows = daemon.comparisons.rows(done, verdicts="fail").to_pandas()

The methods correspond to the commands of msitctl. `connect_fleet` queries
several daemons as if they were one.

Requires grpcio and protobuf: pip install 'msitd[query]'. numpy, torch,
ml_dtypes, pandas, pyarrow and matplotlib are imported only by the methods that return their
objects.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta

from msitd.query.captures import Captures
from msitd.query.comparison_types import (
    ComparedTensor,
    Comparison,
    ComparisonRow,
    CustomMetric,
    Explanation,
    InputDifference,
    Layout,
    Maker,
    Matching,
    MetricSet,
    OpPair,
    Policy,
    Preset,
    RankPair,
    Reading,
    RequiredTolerance,
    Rewrite,
    RowGroupBy,
    Rule,
    SilentRank,
    TensorMapping,
    Verdict,
    View,
    ViewHint,
)
from msitd.query.comparisons import Comparisons, RowListing
from msitd.query.connection import Caller, Settings, seconds_of
from msitd.query.daemon import Connection
from msitd.query.errors import PartialError, QueryError
from msitd.query.fleet import (
    Fleet,
    FleetCaptures,
    FleetListing,
    FleetRuns,
    FleetTensorListing,
    FleetTensors,
    Nodes,
)
from msitd.query.judge_types import JudgeBasis, JudgeContext
from msitd.query.listing import Listing
from msitd.query.messages import mirrored
from msitd.query.node import Node
from msitd.query.node_types import (
    ArchiveStatus,
    MissingSegment,
    NodeStatus,
    Stream,
    Verification,
    VerificationFinding,
)
from msitd.query.nodes import parse_nodes, read_nodes
from msitd.query.origin_types import (
    FoundOrigins,
    IgnoredTensors,
    OriginKind,
    OriginResult,
    ReachedRank,
    RunOrigin,
)
from msitd.query.row_groups import RowGroup
from msitd.query.runs import Runs
from msitd.query.showing import add_short_texts
from msitd.query.tensors import TensorListing, Tensors
from msitd.query.types import (
    Attachment,
    Capabilities,
    CaptureCoverage,
    CaptureLevel,
    CapturePolicy,
    CaptureRule,
    GroupBy,
    Histogram,
    Io,
    Metric,
    Order,
    RankCoverage,
    RankRange,
    RecordKind,
    Retention,
    Run,
    RunArchive,
    RunCounters,
    RunRanks,
    Stats,
    StatsGroup,
    Summary,
    Tensor,
    TensorFilter,
    TokenRange,
    select,
)

add_short_texts(mirrored().values())

__all__ = [
    "ArchiveStatus",
    "Attachment",
    "Capabilities",
    "CaptureCoverage",
    "CaptureLevel",
    "CapturePolicy",
    "CaptureRule",
    "Captures",
    "ComparedTensor",
    "Comparison",
    "ComparisonRow",
    "Comparisons",
    "Connection",
    "CustomMetric",
    "Explanation",
    "Fleet",
    "FleetCaptures",
    "FleetListing",
    "FleetRuns",
    "FleetTensorListing",
    "FleetTensors",
    "FoundOrigins",
    "GroupBy",
    "Histogram",
    "IgnoredTensors",
    "InputDifference",
    "Io",
    "JudgeBasis",
    "JudgeContext",
    "Layout",
    "Listing",
    "Maker",
    "Matching",
    "Metric",
    "MetricSet",
    "MissingSegment",
    "Node",
    "NodeStatus",
    "OpPair",
    "Order",
    "OriginKind",
    "OriginResult",
    "PartialError",
    "Policy",
    "Preset",
    "QueryError",
    "RankCoverage",
    "RankPair",
    "RankRange",
    "ReachedRank",
    "Reading",
    "RecordKind",
    "RequiredTolerance",
    "Retention",
    "Rewrite",
    "RowGroup",
    "RowGroupBy",
    "RowListing",
    "Rule",
    "Run",
    "RunArchive",
    "RunCounters",
    "RunOrigin",
    "RunRanks",
    "Runs",
    "SilentRank",
    "Stats",
    "StatsGroup",
    "Stream",
    "Summary",
    "Tensor",
    "TensorFilter",
    "TensorListing",
    "TensorMapping",
    "Tensors",
    "TokenRange",
    "Verdict",
    "Verification",
    "VerificationFinding",
    "View",
    "ViewHint",
    "connect",
    "connect_fleet",
    "select",
]


def connect(
    endpoint: str | None = None,
    *,
    tls: bool | None = None,
    ca_file: str | None = None,
    cert_file: str | None = None,
    key_file: str | None = None,
    timeout: float | timedelta | None = None,
    connect_timeout: float | timedelta | None = None,
) -> Connection:
    """Returns a connection to a daemon, which is established by the first call.

    Arguments that are None default to the environment variables of msitctl:
    MSITD_ENDPOINT or its alias MSITCTL_ENDPOINT, MSITCTL_TLS,
    MSITCTL_CA_FILE, MSITCTL_CERT_FILE, MSITCTL_KEY_FILE.

    Args:
        endpoint: The daemon's address, as for `msitd.Client`: `HOST:PORT`, or
            `unix:PATH` with the socket directory of a local daemon or a socket
            in it, or `personal` for the daemon of this user. Default: the
            service of this machine, or the daemon of this user, which the first
            call starts if it does not run. With TLS: 127.0.0.1:7741.
        tls: Whether to encrypt. Default: only with a `ca_file` or a
            `cert_file`.
        ca_file: PEM file of trusted certificates. Default: those that gRPC
            trusts.
        cert_file: PEM file of the certificate to present to the daemon.
        key_file: PEM file of the certificate's private key.
        timeout: Time limit of each call, wait or stream, in seconds or as a
            timedelta. Default: 60 s for a call, 24 h for a wait or a stream.
        connect_timeout: Time limit for reaching the daemon, in seconds or as a
            timedelta. Default: 5 s.

    Raises:
        ImportError: grpcio or protobuf is not installed.
        OSError: A file cannot be read.
        ValueError: An argument is invalid, or TLS is requested for a `unix:`
            endpoint.
    """
    settings = Settings(endpoint, tls, ca_file, cert_file, key_file)
    return Connection(
        Caller(settings, seconds_of(timeout), seconds_of(connect_timeout))
    )


def connect_fleet(
    endpoints: str | Iterable[str] | None = None,
    *,
    endpoints_file: str | os.PathLike[str] | None = None,
    allow_partial: bool = False,
    node_timeout: float | timedelta = 10.0,
    tls: bool | None = None,
    ca_file: str | None = None,
    cert_file: str | None = None,
    key_file: str | None = None,
    timeout: float | timedelta | None = None,
    connect_timeout: float | timedelta | None = None,
) -> Fleet:
    """Returns a connection to several daemons, which are queried as if they were one.

    All nodes are queried at the same time. If a node does not answer, the
    result is partial: the call raises PartialError, which names the node. With
    `allow_partial` it returns the results of the other nodes, and
    `Fleet.unreachable` names the node.

    Args:
        endpoints: A list as `msitctl --endpoints` takes it, separated by
            commas, of endpoints, `dns:///HOST:PORT`, `slurm:` or `slurm:PORT`,
            or several such lists. Default: MSITCTL_ENDPOINTS.
        endpoints_file: A file with one such list per line. `#` starts a
            comment. Default: MSITCTL_ENDPOINTS_FILE.
        allow_partial: Whether to accept results that lack some of the nodes.
        node_timeout: Time limit of each call of each node, including the
            connection, in seconds or as a timedelta.
        tls: See `connect`; applies to every node, as do the files below.
        ca_file: See `connect`.
        cert_file: See `connect`.
        key_file: See `connect`.
        timeout: Time limit of a call, wait or stream that involves only one
            node, such as those of `Fleet.at`; see `connect`.
        connect_timeout: Time limit for reaching a node; see `connect`.

    Raises:
        ImportError: grpcio or protobuf is not installed.
        OSError: A file cannot be read, or a name has no address.
        ValueError: An argument is invalid, or not exactly one of `endpoints`
            and `endpoints_file` is given.
    """
    if endpoints is None and endpoints_file is None:
        endpoints = os.environ.get("MSITCTL_ENDPOINTS") or None
        if endpoints is None:
            endpoints_file = os.environ.get("MSITCTL_ENDPOINTS_FILE") or None
    if (endpoints is None) == (endpoints_file is None):
        raise ValueError("one of endpoints and endpoints_file names the nodes")
    if endpoints is not None:
        nodes = parse_nodes(endpoints)
    else:
        assert endpoints_file is not None
        nodes = read_nodes(endpoints_file)
    each = seconds_of(node_timeout)
    both: list[dict[str, Connection]] = []
    for limit in (each, seconds_of(timeout)):
        connections = {}
        for node in nodes:
            settings = Settings(
                node.endpoint, tls, ca_file, cert_file, key_file, node.host
            )
            connections[node.endpoint] = Connection(
                Caller(settings, limit, seconds_of(connect_timeout))
            )
        both.append(connections)
    return Fleet(Nodes(both[0], both[1], allow_partial))
