"""Asks a daemon what msitctl asks: runs, tensors, comparisons, captures.

from msitd import query

with query.connect() as daemon:
    golden = daemon.tensors.list("golden", query.select(ops="*.mlp"), limit=1)
    for tensor in golden:
        print(daemon.tensors.read(tensor).mean())
    done = daemon.comparisons.run("golden", "bf16")
    rows = daemon.comparisons.rows(done, verdicts="fail").to_pandas()

Needs grpcio and protobuf: pip install 'msitd[query]'. numpy, torch, ml_dtypes,
pandas and pyarrow are imported only by the methods that return their objects.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msitd.query.captures import Captures
from msitd.query.comparison_types import (
    ComparedTensor,
    Comparison,
    ComparisonRow,
    CustomMetric,
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
    Rule,
    SilentRank,
    TensorMapping,
    Verdict,
)
from msitd.query.comparisons import Comparisons, RowListing
from msitd.query.connection import Caller, Settings, seconds_of
from msitd.query.errors import QueryError
from msitd.query.listing import Listing
from msitd.query.node import Node
from msitd.query.runs import Runs
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
    NodeStatus,
    RankCoverage,
    RankRange,
    RecordKind,
    Retention,
    Run,
    RunCounters,
    RunRanks,
    Stats,
    StatsGroup,
    Stream,
    Summary,
    Tensor,
    TensorFilter,
    TokenRange,
    Verification,
    VerificationFinding,
    select,
)

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = [
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
    "GroupBy",
    "Histogram",
    "InputDifference",
    "Io",
    "Layout",
    "Listing",
    "Maker",
    "Matching",
    "Metric",
    "MetricSet",
    "Node",
    "NodeStatus",
    "OpPair",
    "Policy",
    "Preset",
    "QueryError",
    "RankCoverage",
    "RankPair",
    "RankRange",
    "Reading",
    "RecordKind",
    "RequiredTolerance",
    "Retention",
    "Rewrite",
    "RowListing",
    "Rule",
    "Run",
    "RunCounters",
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
    "connect",
    "select",
]


class Connection:
    """One daemon and its calls. Thread-safe.

    Nothing is sent before the first call. After a fork the child has to make a
    connection of its own.
    """

    runs: Runs
    tensors: Tensors
    comparisons: Comparisons
    captures: Captures
    node: Node

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.runs = Runs(caller)
        self.tensors = Tensors(caller)
        self.comparisons = Comparisons(caller)
        self.captures = Captures(caller)
        self.node = Node(caller)

    def close(self) -> None:
        """Ends all calls. Doing so again does nothing."""
        self._caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


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
    """Names a daemon; the first call connects to it.

    Arguments that are None come from the environment variables of msitctl, if
    they are set: MSITCTL_ENDPOINT, MSITCTL_TLS, MSITCTL_CA_FILE,
    MSITCTL_CERT_FILE, MSITCTL_KEY_FILE.

    Args:
        endpoint: `HOST:PORT`, `[V6]:PORT` or `unix:PATH`. Default:
            unix:/run/msitd/msitd.sock if that exists and TLS is not asked for,
            else 127.0.0.1:7741.
        tls: Whether to encrypt. Default: only if there is a `ca_file` or a
            `cert_file`.
        ca_file: PEM file of certificates to trust. Default: those that gRPC
            trusts.
        cert_file: PEM file of the certificate to show to the daemon.
        key_file: PEM file of its private key.
        timeout: Longest time of each call, wait or stream, in seconds or as a
            timedelta. Default: 60 s for a call, 24 h for a wait or a stream.
        connect_timeout: Longest time to reach the daemon, in seconds or as a
            timedelta. Default: 5 s.

    Raises:
        ImportError: grpcio or protobuf is not installed.
        OSError: A file cannot be read.
        ValueError: An argument is wrong, or TLS is asked of a `unix:` endpoint.
    """
    settings = Settings(endpoint, tls, ca_file, cert_file, key_file)
    return Connection(
        Caller(settings, seconds_of(timeout), seconds_of(connect_timeout))
    )
