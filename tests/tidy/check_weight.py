"""Checks which headers may pull heavy foreign headers into their includers.

A header that a hundred sources include must not cost each of them seconds.
RULES names the heavy headers and, for each, the folders whose headers may
include it, directly or through other headers of ours. Sources include what they
need.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One kind of heavy headers."""

    what: str
    includes: str  # A pattern for the text between the quotes.
    # Headers in these folders and their subfolders may include it.
    folders: tuple[str, ...] = ()


# Lines: a stub with its dependencies 170,000, messages 130,000, gRPC 100,000.
SERVICES = (
    "client/msitctl/capture",
    "client/msitctl/command_line.h",
    "client/msitctl/compare",
    "client/msitctl/exec",
    "client/msitctl/invocation.h",
    "client/msitctl/node",
    "client/msitctl/run",
    "client/msitctl/tensor",
    "client/msitctl/verb",
    "client/msitctl/web",
    "client/ask/fanout/node.h",
    "client/ask/query/attachment_bytes.h",
    "client/ask/query/connection.h",
    "client/ask/query/paging.h",
    "client/ask/query/resuming_read.h",
    "client/ask/report/page/row_histograms.h",
    "client/web",
    "daemon/peers/peer.h",
    "daemon/peers/peer_stream.h",
    "daemon/peers/remote_parts.h",
    "daemon/peers/remote_scan.h",
    "daemon/peers/run_messages.h",
    "daemon/remote",
    "daemon/server",
    "daemon/service",
)
RULES = (
    Rule("stubs of services", r".*\.grpc\.pb\.h$", SERVICES),
    Rule(
        "calls of gRPC",
        r"grpcpp/(?!support/status(_code_enum)?\.h$).*",
        (*SERVICES, "client/libmsit/grpc"),
    ),
    Rule(
        "messages",
        r".*(?<!\.grpc)\.pb\.h$|google/protobuf/.*",
        (
            *SERVICES,
            "client/ask/fanout",
            "client/ask/plugin",
            "client/ask/print",
            "client/ask/query/daemon_metrics.h",
            "client/ask/query/row_groups.h",
            "client/ask/report",
            "client/ask/text",
            "client/foreign/fill/run_target.h",
            "client/foreign/report",
            "client/foreign/write",
            "client/msit/pair/private_comparison.h",
            "client/msitctl",
            "daemon/compare",
            "protos/bounds",
        ),
    ),
    Rule(
        "the command line's parser",
        r"CLI/.*",
        (
            "client/msitctl",
            "client/msit/command/verb_table.h",
            "client/msit/command/verbs.h",
            "client/msit/probe/probe_verbs.h",
        ),
    ),
    Rule("logging", r"spdlog/.*", ("daemon", "storage/env/logger.h")),
    Rule("Highway", r"hwy/.*", ("daemon/compute", "protos/compute")),
    Rule(
        "what sources alone need",
        r"(rocksdb|nlohmann|toml\+\+|re2|openssl|absl/container)/.*"
        r"|filesystem|fstream|iostream|random|ranges|regex|sstream",
    ),
)

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


def check(texts: Mapping[str, str]) -> list[str]:
    """Returns the headers that violate a rule. `texts` maps names to texts."""
    includes = {file: _INCLUDE.findall(text) for file, text in texts.items()}
    findings = []
    for rule in RULES:
        heavy = re.compile(rule.includes)
        for file in sorted(includes):
            if _is_header(file) and not _may(file, rule):
                way = _way(file, heavy, includes)
                if way:
                    findings.append(f"{' > '.join(way)}: {rule.what}")
    return findings


def _is_header(file: str) -> bool:
    return file.endswith((".h", ".hpp")) and not file.startswith("tests/")


def _may(file: str, rule: Rule) -> bool:
    return any(file == f or file.startswith(f + "/") for f in rule.folders)


def _way(
    file: str, heavy: re.Pattern[str], includes: Mapping[str, list[str]]
) -> list[str]:
    """Returns the includes from a header to a heavy one; empty if there are none."""
    ways = [[file]]
    seen = {file}
    for way in ways:
        for include in includes.get(way[-1], ()):
            if heavy.fullmatch(include):
                return [*way, include]
            if include in includes and include not in seen:
                seen.add(include)
                ways.append([*way, include])
    return []
