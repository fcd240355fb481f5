"""Headers do not pull in heavy foreign headers."""

import check_weight
import pytest
from tree import cpp_files, read


def test_headers_are_light() -> None:
    findings = check_weight.check({file: read(file) for file in cpp_files()})
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("client/ask/query/exit_code.h", "<grpcpp/client_context.h>"),
        ("client/ask/text/text.h", '"msitd/v1/run_service.grpc.pb.h"'),
        ("daemon/ingest/ingest_pipeline.h", '"msitd/v1/run_service.pb.h"'),
        ("daemon/ingest/ingest_pipeline.h", "<google/protobuf/message.h>"),
        ("client/ask/report/report_writer.h", "<CLI/CLI.hpp>"),
        ("protos/status/status.h", "<spdlog/spdlog.h>"),
        ("daemon/query/tensor_query.h", "<hwy/highway.h>"),
        ("storage/index/index_db.h", "<rocksdb/db.h>"),
        ("protos/base/dtype.h", "<regex>"),
        ("client/libmsit/include/msit.hpp", "<iostream>"),
    ],
)
def test_checker_refuses(file: str, include: str) -> None:
    assert check_weight.check({file: f"#include {include}\n"})


def test_checker_sees_what_comes_through_another_header() -> None:
    texts = {
        "daemon/ingest/a.h": '#include "daemon/service/b.h"\n',
        "daemon/service/b.h": '#include "msitd/v1/run_service.grpc.pb.h"\n',
    }
    assert check_weight.check(texts)[0].startswith(
        "daemon/ingest/a.h > daemon/service/b.h > msitd/v1/run_service.grpc.pb.h"
    )


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("client/ask/query/outcome.h", "<grpcpp/support/status.h>"),
        ("client/ask/query/connection.h", '"msitd/v1/run_service.grpc.pb.h"'),
        ("client/msitctl/flag/selection.h", "<CLI/CLI.hpp>"),
        ("storage/index/index_db.cc", "<rocksdb/db.h>"),
        ("tests/support/a.h", "<regex>"),
    ],
)
def test_checker_accepts(file: str, include: str) -> None:
    assert not check_weight.check({file: f"#include {include}\n"})
