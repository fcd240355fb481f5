"""Includes only point down the layers."""

import check_layers
import pytest
from tree import cpp_files, read


def test_includes_point_downwards() -> None:
    findings = []
    for file in cpp_files():
        if not file.startswith("tests/"):
            findings += check_layers.check(file, read(file))
    assert not findings, "\n".join(findings)


def test_no_module_is_in_a_circle() -> None:
    assert check_layers.circle(check_layers.module_includes()) == []


def test_a_circle_is_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"d", "b"}, "d": set()}
    assert check_layers.circle(edges) == ["b", "c", "b"]
    assert check_layers.circle(edges | {"c": {"d"}}) == []


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("protos/base/a.h", '"protos/status/status.h"'),
        ("protos/base/a.h", '"absl/status/status.h"'),
        ("protos/status/a.h", '"protos/chunk/chunk.h"'),
        ("protos/chunk/chunk_builder.cc", '"protos/status/status.h"'),
        ("protos/chunk/chunk_builder.cc", '"protos/chunk/chunk.h"'),
        ("storage/segment/a.cc", '"daemon/query/a.h"'),
        ("storage/segment/a.cc", "<rocksdb/db.h>"),
        ("storage/segment/a.cc", '"storage/index/db/index_db.h"'),
        ("storage/index/db/a.cc", '"storage/index/table/run_table.h"'),
        ("storage/face/a.h", '"storage/env/env.h"'),
        ("daemon/query/a.cc", '"storage/segment/segment_reader.h"'),
        ("daemon/query/a.cc", '"storage/store.h"'),
        ("daemon/query/a.cc", "<rocksdb/db.h>"),
        ("daemon/query/a.cc", "<grpcpp/grpcpp.h>"),
        ("daemon/query/a.cc", '"daemon/service/run_service.h"'),
        ("daemon/ingest/a.cc", '"msitd/v1/run_service.pb.h"'),
        ("daemon/service/a.cc", '"client/libmsit/core/client.h"'),
        ("client/msitctl/a.cc", '"daemon/query/a.h"'),
        ("client/msitctl/a.cc", '"storage/face/types.h"'),
        ("client/libmsit/core/a.cc", '"absl/status/status.h"'),
        ("client/libmsit/core/a.cc", "<fmt/format.h>"),
        ("client/libmsit/core/a.cc", "<spdlog/spdlog.h>"),
        ("client/libmsit/core/a.cc", "<google/protobuf/message.h>"),
        ("client/libmsit/core/a.cc", '"protos/chunk/chunk.h"'),
        ("client/libmsit/capi/a.cc", "<grpcpp/grpcpp.h>"),
        ("client/python/a.cc", '"client/libmsit/core/client.h"'),
        ("client/libmsit/grpc/a.cc", '"tests/support/a.h"'),
        ("daemon/compute/a.cc", '"something/unknown.h"'),
        ("daemon/nowhere.h", '"daemon/nowhere/else.h"'),
        ("elsewhere/a.cc", "<vector>"),
    ],
)
def test_checker_refuses(file: str, include: str) -> None:
    assert check_layers.check(file, f"#include {include}\n")


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("protos/base/a.h", "<string_view>"),
        ("protos/base/a.h", '"protos/base/dtype.h"'),
        ("protos/os/unique_fd.h", "<unistd.h>"),
        ("storage/index/a.cc", "<rocksdb/db.h>"),
        ("daemon/query/a.cc", '"storage/face/run_reader.h"'),
        ("daemon/server/a.cc", '"storage/store.h"'),
        ("daemon/service/a.cc", '"msitd/v1/run_service.grpc.pb.h"'),
        ("client/libmsit/core/a.cc", '"protos/chunk/chunk_builder.h"'),
        ("client/msitctl/a.cc", "<CLI/CLI.hpp>"),
    ],
)
def test_checker_accepts(file: str, include: str) -> None:
    assert not check_layers.check(file, f"  #  include {include}\n")
