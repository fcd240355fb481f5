"""Checks which files include which.

A module is a folder. MODULES lists, for each module, our modules and the
foreign libraries that its files may include. All other includes are refused.
Layers are ordered: protos < storage < daemon, and protos < client. client and
daemon never include each other, and nothing includes tests. PYTHON_LAYERS orders
the packages of the Python client; check_python_layers applies it.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

# The parts of libmsit that run in other processes, from the bottom up.
LOWEST = ("protos/base", "protos/os")
PROTOS = (*LOWEST, "protos/status", "protos/text", "protos/chunk")

# The parts below the public headers of protos/compute, for code that works with
# single elements.
COMPUTE_PARTS = ("protos/compute/number", "protos/compute/kernel")

# The part of the storage layer that is visible to other layers: its interfaces,
# and code on top of them. Only code that opens a store and passes these
# interfaces on sees STORE.
STORAGE_FACE = ("storage/face", "storage/run_ranks.h")
STORE = ("storage/store.h", "storage/env/env.h", "storage/run_sources.h")

# The only parts of segments that the index includes: their names, and the frames
# that are written to them.
SEGMENT_ID = "storage/segment/segment_id.h"
LOG_FRAME = "storage/segment/log_frame.h"

# The folders of the index, from the bottom up.
INDEX = (
    "storage/index/db",
    "storage/index/name",
    "storage/index/table",
    "storage/index/scan",
    "storage/index",
)

# Logging, for the whole daemon.
LOG = "daemon/log"

# The identity of a caller, and its permissions.
ACCESS = "daemon/access"

# The interface with which other code counts durations.
LATENCIES = "daemon/metrics/latencies.h"

# The part of the chunk format that producers include. The rest of protos/chunk
# needs Abseil.
CHUNK_PRODUCER = (
    "protos/chunk/chunk_builder.h",
    "protos/chunk/chunk_draft.h",
    "protos/chunk/chunk_format.h",
)

# The part of protos/shm that producers include.
SHM_PRODUCER = (
    "protos/shm/ring_abi.h",
    "protos/shm/ring_writer.h",
    "protos/shm/sealed_memory.h",
    "protos/shm/session_messages.h",
    "protos/shm/session_socket.h",
)

COMMON = ("absl", "fmt", "spdlog")
RPC = ("grpc", "protobuf", "stubs")

# The folders of a comparison pass runs and rows as messages.
COMPARE_LIBRARIES = (*COMMON, "re2", "protobuf", "stubs")

# The client library without its C interface, and its delivery.
CLIENT_CORE = ("client/libmsit/core", "client/libmsit/core/delivery")

# The base of all rooms that call a daemon.
ASK_BASE = ("client/ask/text", "client/ask/query")

# The options of an import, its results, and the client that it records through.
FOREIGN_IMPORT = (
    "client/libmsit/core",
    "client/libmsit/include",
    "client/foreign/fill",
    "client/foreign/trees",
)
# The base of all verbs of msitctl.
CTL_VERB = (
    *PROTOS,
    "protos/endpoint",
    *ASK_BASE,
    "client/ask/fanout",
    "client/ask/print",
    "client/ask/plugin",
    "client/msitctl/flag",
    "client/msitctl",
)


@dataclass(frozen=True)
class Module:
    """The includes that one module is allowed."""

    ours: tuple[str, ...] = ()  # Folders (all their headers) or single headers.
    libraries: tuple[str, ...] = ()  # Keys of LIBRARIES.


MODULES: dict[str, Module] = {
    # Linked into the programs of the wheel.
    "deploy/package.d/portable/glue": Module(),
    "protos/base": Module(),
    "protos/os": Module(("protos/base",)),
    "protos/status": Module(("protos/base",), COMMON),
    "protos/capture": Module(("protos/base",)),
    "protos/endpoint": Module(LOWEST),
    "protos/compute/number": Module(("protos/base",)),
    "protos/compute/kernel": Module(
        (*LOWEST, "protos/compute/number"), ("highway", "xxhash", "cpuid")
    ),
    "protos/compute": Module((*LOWEST, *COMPUTE_PARTS)),
    "protos/text": Module(("protos/status",), COMMON),
    "protos/pem": Module(("protos/status",), (*COMMON, "openssl")),
    # Bounds in messages, which the daemon and its clients have in common.
    "protos/bounds": Module((), ("protobuf", "stubs")),
    "protos/chunk": Module((*LOWEST, "protos/status"), (*COMMON, "xxhash")),
    "protos/shm": Module(
        (*LOWEST, "protos/status", "protos/chunk/chunk_draft.h"),
        COMMON,
    ),
    "storage/face": Module(PROTOS, COMMON),
    "storage/batch": Module((*PROTOS, "storage/face"), COMMON),
    "storage/merge": Module((*PROTOS, "storage/face"), COMMON),
    "storage/env": Module(PROTOS, COMMON),
    "storage/segment": Module(
        (*PROTOS, "storage/face", "storage/env"), (*COMMON, "xxhash")
    ),
    "storage/index/db": Module(
        (*PROTOS, "storage/face", "storage/env"), (*COMMON, "rocksdb")
    ),
    "storage/index/name": Module(
        (*PROTOS, "storage/face", "storage/index/db"), (*COMMON, "rocksdb")
    ),
    "storage/index/table": Module(
        (*PROTOS, "storage/face", SEGMENT_ID, "storage/index/db"),
        (*COMMON, "rocksdb"),
    ),
    "storage/index/scan": Module(
        (*PROTOS, "storage/face", SEGMENT_ID, *INDEX[:3]), (*COMMON, "rocksdb")
    ),
    "storage/index": Module(
        (*PROTOS, "storage/face", SEGMENT_ID, LOG_FRAME, *INDEX[:4]),
        (*COMMON, "rocksdb"),
    ),
    "storage/read": Module(
        (*PROTOS, "storage/face", "storage/segment", "storage/index"), COMMON
    ),
    "storage/upkeep": Module(
        (
            *PROTOS,
            "storage/face",
            "storage/env",
            "storage/segment",
            *INDEX,
        ),
        COMMON,
    ),
    "storage": Module(
        (
            *PROTOS,
            "protos/capture",
            "storage/face",
            "storage/env",
            "storage/segment",
            *INDEX,
            "storage/read",
            "storage/merge",
            "storage/upkeep",
        ),
        COMMON,
    ),
    "storage/archive": Module(
        (
            *PROTOS,
            "protos/pem",
            "storage/batch",
            "storage/face",
            "storage/read/read_pool.h",
            "storage/run_sources.h",
        ),
        (*COMMON, "curl"),
    ),
    "storage/check": Module(
        (
            *PROTOS,
            "storage",
            "storage/face",
            "storage/env",
            "storage/segment",
            *INDEX,
        ),
        COMMON,
    ),
    # A rebuilt index is checked in the same way as by msitd-inspect verify.
    "storage/rebuild": Module(
        (
            *PROTOS,
            "storage",
            "storage/face",
            "storage/env",
            "storage/segment",
            *INDEX,
            "storage/check",
            "storage/read",
            "storage/upkeep",
        ),
        (*COMMON, "rocksdb"),
    ),
    "storage/inspect": Module(
        (
            *PROTOS,
            "storage",
            "storage/rebuild/index_rebuild.h",
            "storage/face",
            "storage/env",
            "storage/segment",
            *INDEX,
            "storage/check",
        ),
        (*COMMON, "rocksdb", "cli11", "json"),
    ),
    "daemon/log": Module(PROTOS, (*COMMON, "json")),
    "daemon/metrics": Module((*PROTOS, LOG), (*COMMON, "openssl")),
    ACCESS: Module((*PROTOS, LOG), (*COMMON, "json")),
    "daemon/config": Module(
        (*PROTOS, "protos/endpoint", "protos/pem"), (*COMMON, "toml++", "cli11")
    ),
    "daemon/predicate": Module(PROTOS, COMMON),
    "daemon/compute/kernel": Module((*PROTOS, *COMPUTE_PARTS), ("highway", *COMMON)),
    "daemon/compute": Module(
        (*PROTOS, *COMPUTE_PARTS, "daemon/compute/kernel"), COMMON
    ),
    "daemon/ingest": Module(
        (
            *PROTOS,
            "protos/capture",
            "protos/compute",
            *STORAGE_FACE,
            LOG,
            ACCESS,
            LATENCIES,
        ),
        COMMON,
    ),
    "daemon/upkeep": Module((*PROTOS, *STORAGE_FACE, LOG), COMMON),
    "daemon/archive": Module(
        (
            *PROTOS,
            "protos/capture",
            "storage/archive",
            "storage/batch",
            *STORAGE_FACE,
            LOG,
            ACCESS,
            "daemon/ingest",
            "daemon/compare/job/comparison_copy.h",
            "daemon/compare/job/comparison_name.h",
        ),
        COMMON,
    ),
    "daemon/shm": Module(
        (*PROTOS, "protos/shm", LOG, ACCESS, "daemon/ingest"),
        COMMON,
    ),
    "daemon/requests": Module((*PROTOS, *STORAGE_FACE), ("absl",)),
    "daemon/query": Module(
        (
            *PROTOS,
            *STORAGE_FACE,
            "storage/batch",
            LOG,
            "daemon/compute",
            "daemon/requests",
        ),
        (*COMMON, "re2", "xxhash"),
    ),
    "daemon/calls": Module(("protos/base",), ("absl",)),
    "daemon/origin": Module(
        (
            *PROTOS,
            "protos/capture",
            *STORAGE_FACE,
            "daemon/calls",
            "daemon/query",
            "daemon/compare/match/run_losses.h",
            "daemon/compare/match/stream_watch.h",
            "daemon/compare/job/not_recorded.h",
        ),
        COMPARE_LIBRARIES,
    ),
    # Comparisons and their rows are stored in the messages in which they are
    # sent.
    "daemon/compare": Module((), ("absl",)),
    "daemon/compare/shard": Module(
        (*PROTOS, "protos/compute", *STORAGE_FACE), COMPARE_LIBRARIES
    ),
    "daemon/compare/view": Module(
        (*PROTOS, *STORAGE_FACE, "daemon/compare/shard"), COMPARE_LIBRARIES
    ),
    "daemon/compare/request": Module(
        (
            *PROTOS,
            *STORAGE_FACE,
            "daemon/requests",
            "daemon/compare/shard",
            "daemon/compare/view",
        ),
        COMPARE_LIBRARIES,
    ),
    "daemon/compare/match": Module(
        (
            *PROTOS,
            *STORAGE_FACE,
            "daemon/calls",
            "daemon/compare",
            "daemon/compare/shard",
            "daemon/compare/view",
            "daemon/compare/request",
        ),
        COMPARE_LIBRARIES,
    ),
    "daemon/compare/measure": Module(
        (
            *PROTOS,
            *STORAGE_FACE,
            "protos/compute",
            "protos/compute/number",
            "daemon/compute",
            "daemon/compare",
            "daemon/compare/shard",
            "daemon/compare/view",
            "daemon/compare/match",
        ),
        (*COMMON, "xxhash"),
    ),
    "daemon/compare/judge": Module(
        (
            *PROTOS,
            "protos/compute",
            "daemon/compute",
            "daemon/predicate",
            "daemon/compare",
            "daemon/compare/shard",
            "daemon/compare/view",
            "daemon/compare/match",
            "daemon/compare/measure",
        ),
        COMPARE_LIBRARIES,
    ),
    "daemon/compare/explain": Module(
        (*PROTOS, "daemon/compare", "daemon/compare/measure"), COMPARE_LIBRARIES
    ),
    "daemon/compare/origin": Module(
        (
            *PROTOS,
            *STORAGE_FACE,
            "daemon/predicate",
            "daemon/calls",
            "daemon/compare/match",
            "daemon/compare/judge",
        ),
        COMPARE_LIBRARIES,
    ),
    "daemon/compare/job": Module(
        (
            *PROTOS,
            *STORAGE_FACE,
            "protos/compute/number",
            LOG,
            ACCESS,
            "daemon/calls",
            "daemon/requests",
            "daemon/compare",
            "daemon/compare/shard",
            "daemon/compare/view",
            "daemon/compare/request",
            "daemon/compare/match",
            "daemon/compare/measure",
            "daemon/compare/judge",
            "daemon/compare/explain",
            "daemon/compare/origin",
            "daemon/compute",
            "protos/bounds",
        ),
        COMPARE_LIBRARIES,
    ),
    "daemon/service/call": Module((*PROTOS, LATENCIES, ACCESS), (*COMMON, *RPC)),
    "daemon/service": Module(
        (
            "protos/capture",
            "protos/compute",
            *PROTOS,
            *STORAGE_FACE,
            "storage/batch",
            LOG,
            ACCESS,
            "daemon/compute",
            "daemon/ingest",
            "daemon/origin",
            "daemon/predicate",
            "daemon/query",
            "daemon/compare/match/stream_watch.h",
            "daemon/compare/judge",
            "daemon/compare/job",
            "daemon/archive",
            "storage/archive",
            "daemon/service/call",
        ),
        (*COMMON, *RPC),
    ),
    "daemon/remote": Module(
        (
            *PROTOS,
            LOG,
            ACCESS,
            "daemon/ingest",
            "daemon/service/call",
            "daemon/service/proto_convert.h",
        ),
        (*COMMON, *RPC),
    ),
    "daemon/peers": Module(
        (
            *PROTOS,
            "protos/pem",
            *STORAGE_FACE,
            "storage/batch",
            "storage/run_sources.h",
            "daemon/query",
            "daemon/service/proto_convert.h",
        ),
        (*COMMON, *RPC),
    ),
    "daemon/server": Module(
        (
            *PROTOS,
            "protos/pem",
            *STORAGE_FACE,
            *STORE,
            "storage/rebuild/recovered_store.h",
            LOG,
            ACCESS,
            "protos/endpoint",
            "daemon/config",
            "daemon/metrics",
            "daemon/ingest",
            "daemon/upkeep",
            "daemon/shm",
            "daemon/remote",
            "daemon/peers",
            "daemon/compare/job",
            "daemon/archive",
            "storage/archive",
            "daemon/service/call",
            "daemon/service",
        ),
        (*COMMON, *RPC, "systemd"),
    ),
    "daemon": Module((*PROTOS, "daemon/config", "daemon/server"), COMMON),
    # libmsit lives in the processes of others.
    "client/libmsit/include": Module(),
    "client/libmsit/core/delivery": Module(
        (*LOWEST, *CHUNK_PRODUCER, "client/libmsit/include"),
    ),
    "client/libmsit/core": Module(
        (
            *LOWEST,
            "protos/capture",
            "protos/compute/digest.h",
            "protos/compute/digest_memory.h",
            *CHUNK_PRODUCER,
            "client/libmsit/core/delivery",
            "client/libmsit/include",
        ),
        ("sse2", "cpuid"),
    ),
    "client/libmsit/shm": Module(
        (
            *LOWEST,
            "protos/capture",
            *SHM_PRODUCER,
            *CLIENT_CORE,
            "client/libmsit/include",
        )
    ),
    "client/libmsit/grpc": Module(
        (*LOWEST, *CHUNK_PRODUCER, *CLIENT_CORE, "client/libmsit/include"),
        (*RPC, "absl"),
    ),
    "client/libmsit/capi": Module(
        (
            *LOWEST,
            "protos/endpoint",
            *CLIENT_CORE,
            "client/libmsit/include",
            "client/libmsit/shm",
            # The interface by which libmsit finds the transport library at run
            # time: plain C.
            "client/libmsit/grpc/grpc_transport_abi.h",
        )
    ),
    "client/python": Module(
        ("client/libmsit/include", "client/foreign/formats"), ("nanobind", "python")
    ),
    # ask: calls of a daemon.
    "client/ask/text": Module(
        PROTOS, (*COMMON, "protobuf", "stubs", "utf8proc", "yaml")
    ),
    "client/ask/query": Module(
        (*PROTOS, "protos/endpoint", "protos/pem", "client/ask/text"),
        (*COMMON, *RPC, "openssl"),
    ),
    "client/ask/fanout": Module((*PROTOS, *ASK_BASE), (*COMMON, *RPC, "json")),
    "client/ask/report": Module(
        (*PROTOS, "protos/bounds", *ASK_BASE), (*COMMON, *RPC, "json", "xlsx")
    ),
    "client/ask/print": Module((*PROTOS, *ASK_BASE), (*COMMON, *RPC)),
    "client/ask/plugin": Module(
        (*PROTOS, "protos/compute/number", *ASK_BASE), (*COMMON, *RPC)
    ),
    # foreign: files of other tools. Readers and writers share names.
    "client/foreign/names": Module(("protos/base",)),
    "client/foreign/formats": Module(
        (*PROTOS, "client/foreign/names/call_order.h"), (*COMMON, "json", "zip")
    ),
    "client/foreign/trees": Module(
        (*PROTOS, "client/foreign/formats", "client/foreign/names"), (*COMMON, "json")
    ),
    "client/foreign/match": Module(
        (
            *PROTOS,
            "client/foreign/names",
            "client/ask/text/ignored_reason.h",
            "client/ask/text/yaml_text.h",
        ),
        (*COMMON, "protobuf", "stubs", "json"),
    ),
    # Documents of msprobe are read as an import reads them.
    "client/foreign/write": Module(
        (
            *PROTOS,
            *ASK_BASE,
            "client/foreign/formats",
            "client/foreign/trees",
            "client/foreign/names",
        ),
        (*COMMON, *RPC, "json", "deflate"),
    ),
    "client/foreign/fill": Module(
        (
            *PROTOS,
            *ASK_BASE,
            *CLIENT_CORE,
            "client/libmsit/include",
            "client/libmsit/grpc",
            "client/libmsit/shm",
            "client/foreign/formats",
            "client/foreign/trees",
            "client/foreign/match",
        ),
        (*COMMON, *RPC, "json"),
    ),
    "client/foreign/watch": Module(
        (
            *PROTOS,
            *FOREIGN_IMPORT,
            "client/foreign/formats",
            "client/foreign/write/writer/npy_header.h",
            "client/foreign/write/output_folder.h",
            "client/foreign/write/writer/zip_writer.h",
        ),
        COMMON,
    ),
    # libmsit_acl_feed.so; the shim itself is narrower.
    "client/foreign/acl": Module(
        (
            *PROTOS,
            *CLIENT_CORE,
            "client/libmsit/include",
            "client/libmsit/capi/transport_library.h",
            "client/foreign/formats",
            # The part of fill that needs no gRPC.
            "client/foreign/fill/file_feed.h",
            "client/foreign/fill/tensor_record.h",
            "client/foreign/trees",
        ),
        COMMON,
    ),
    # Values are parsed as an export parses them. Reports of dumps show what the dumps
    # recorded.
    "client/foreign/report": Module(
        (
            *PROTOS,
            *ASK_BASE,
            "client/ask/report",
            "client/foreign/trees/json/python_text.h",
            "client/foreign/trees/msprobe/msprobe_index.h",
            "client/foreign/write/writer/crc32.h",
            "client/foreign/write/writer/python_literal.h",
            "client/foreign/write/writer/python_repr.h",
        ),
        (*COMMON, *RPC, "json"),
    ),
    "client/msit": Module(
        (
            *PROTOS,
            "protos/compute/number",
            *ASK_BASE,
            "client/ask/report",
            "client/ask/plugin",
            "client/ask/print",
            *FOREIGN_IMPORT,
            *CLIENT_CORE,
            "client/libmsit/grpc",
            "client/foreign/acl/dump_config.h",
            "client/foreign/formats",
            "client/foreign/match",
            "client/foreign/names/msprobe_names.h",
            "client/foreign/report",
            "client/foreign/write",
        ),
        (*COMMON, *RPC, "cli11", "json"),
    ),
    # The page of msitctl web.
    "client/web": Module(
        (
            *PROTOS,
            "protos/bounds",
            "protos/compute/number",
            *ASK_BASE,
            "client/ask/fanout",
            "client/ask/report",
        ),
        (*COMMON, *RPC, "json"),
    ),
    # The command line names the commands; they work with the invocation it makes.
    "client/msitctl/flag": Module(
        (*PROTOS, *ASK_BASE, "client/ask/plugin", "client/foreign/match"),
        (*COMMON, *RPC, "cli11"),
    ),
    "client/msitctl": Module(
        (
            *PROTOS,
            *ASK_BASE,
            "client/ask/fanout",
            "client/ask/print",
            "client/msitctl/flag",
        ),
        (*COMMON, *RPC, "cli11", "json"),
    ),
    "client/msitctl/verb": Module(CTL_VERB, (*COMMON, *RPC, "cli11")),
    "client/msitctl/run": Module(
        (
            *CTL_VERB,
            "client/msitctl/verb",
            *FOREIGN_IMPORT,
            "client/foreign/names/call_order.h",
            "client/foreign/watch",
            "client/foreign/write",
        ),
        (*COMMON, *RPC, "cli11", "json"),
    ),
    "client/msitctl/tensor": Module(
        (*CTL_VERB, "client/msitctl/verb", "client/foreign/write"),
        (*COMMON, *RPC, "cli11"),
    ),
    "client/msitctl/capture": Module(
        (*CTL_VERB, "client/msitctl/verb"), (*COMMON, *RPC, "cli11")
    ),
    "client/msitctl/node": Module(
        (*CTL_VERB, "client/msitctl/verb"), (*COMMON, *RPC, "cli11", "json")
    ),
    "client/msitctl/compare": Module(
        (
            *CTL_VERB,
            "client/msitctl/verb",
            # A run in an archive, a mapping that is kept with a run, the function
            # that it was kept by.
            "client/msitctl/run",
            "client/ask/report",
            "client/foreign/fill",
            "client/foreign/match",
            "client/foreign/report",
            "client/foreign/write",
        ),
        (*COMMON, *RPC, "cli11"),
    ),
    "client/msitctl/web": Module((*CTL_VERB, "client/web"), (*COMMON, *RPC, "cli11")),
    "client/msitctl/exec": Module(
        # Compares the runs that it has recorded.
        (*CTL_VERB, "client/msitctl/compare", "client/foreign/write"),
        (*COMMON, *RPC, "cli11"),
    ),
    "client/msitctl/verify": Module(
        # Prints the comparison with the golden run.
        (*CTL_VERB, "client/msitctl/compare", "client/msitctl/verb"),
        (*COMMON, *RPC, "cli11", "json"),
    ),
    # One program, which is msitctl, msit or msprobe by its name.
    "client": Module(
        (
            "client/msitctl/command_line.h",
            "client/msit/command/command_line.h",
            "client/msit/probe/probe_command.h",
        ),
        ("grpc",),
    ),
}

# Files that have includes of their own. Most of them may include less than their
# module, because they are part of libmsit, which exposes no foreign library.
NARROWER: dict[str, Module] = {
    # The only files with Boost. Headers of Beast take seconds to compile.
    "client/web/http_server.cc": Module(
        (*PROTOS, "client/web/http_message.h", "client/web/http_server.h"),
        (*COMMON, "boost"),
    ),
    "client/foreign/write/writer/event_file.cc": Module(
        ("client/foreign/write/writer/event_file.h",), (*COMMON, "boost")
    ),
    # It runs in every process of a job: the C library only.
    "client/foreign/acl/acl_dump.h": Module(),
    "client/foreign/acl/dump_config.h": Module(),
    "client/foreign/acl/dump_config.cc": Module(("client/foreign/acl/dump_config.h",)),
    "client/foreign/acl/feed_abi.h": Module(("client/foreign/acl/acl_dump.h",)),
    "client/foreign/acl/shim.cc": Module(
        (
            "client/foreign/acl/acl_dump.h",
            "client/foreign/acl/dump_config.h",
            "client/foreign/acl/feed_abi.h",
        )
    ),
    "protos/chunk/chunk_builder.h": Module((*LOWEST, *CHUNK_PRODUCER[1:])),
    "protos/chunk/chunk_builder.cc": Module((*LOWEST, *CHUNK_PRODUCER)),
    "protos/chunk/chunk_draft.h": Module((*LOWEST, CHUNK_PRODUCER[2])),
    "protos/chunk/chunk_draft.cc": Module((*LOWEST, *CHUNK_PRODUCER[1:])),
    "protos/chunk/chunk_format.h": Module(("protos/base",)),
    **{header: Module((*LOWEST, *SHM_PRODUCER)) for header in SHM_PRODUCER},
    **{
        source: Module((*LOWEST, *SHM_PRODUCER))
        for source in (
            "protos/shm/ring_writer.cc",
            "protos/shm/sealed_memory.cc",
            "protos/shm/session_socket.cc",
        )
    },
}


def _core(modules: str) -> tuple[str, ...]:
    return tuple(f"msitd._core.{module}" for module in modules.split())


# The packages of the Python client, from the bottom up. A package is a folder, or
# a module beside folders. Code that runs imports its own package and lower ones
# only. Imports for the type checker may point upwards.
PYTHON_LAYERS: tuple[tuple[str, ...], ...] = (
    # Extensions, and modules that import nothing of ours.
    (
        *("msitd._formats", "msitd._msit"),
        *_core("cache_places call counters endpoints errors installed interpreters"),
        *_core("openings patterns removable replacing seeding tokens torch_version"),
        *_core("vocabulary"),
    ),
    _core("last_wait personal"),
    (
        *("msitd._core", "msitd.query"),
        *_core("arguments codes losses not_recorded open_clients requests"),
    ),
    # The tensors of a call.
    (*_core("documents guard leaf listening"), "msitd.formats"),
    (*_core("devices skips statistics_records"), "msitd.forcing", "components"),
    _core("gradient"),
    _core("graph"),
    # Records of one call, of modules, and of functions.
    _core("api client module"),
    _core("daemon"),
    # Engines, and the interfaces of other tools.
    (
        *("msitd.engines", "msitd.fleet", "msitd.fx", "msitd.injection"),
        *("msitd.llm", "msitd.probe", "msitd.testing", "msitd.verify"),
    ),
    # The public names, and those of other tools.
    ("msitd", "msitd._compat"),
    ("msitd._exec", "msitd.__main__", "msitd.pytest_plugin", "compat"),
)

LIBRARIES: dict[str, re.Pattern[str]] = {
    "absl": re.compile(r"absl/"),
    "boost": re.compile(r"boost/"),
    "fmt": re.compile(r"fmt/"),
    "spdlog": re.compile(r"spdlog/"),
    "grpc": re.compile(r"grpc(pp)?/"),
    "protobuf": re.compile(r"google/protobuf/"),
    "stubs": re.compile(r"(msitd/v1|google/rpc)/\w+(\.grpc)?\.pb\.h$"),
    "rocksdb": re.compile(r"rocksdb/"),
    "highway": re.compile(r"hwy/"),
    "xxhash": re.compile(r"xxhash\.h$"),
    "openssl": re.compile(r"openssl/"),
    "re2": re.compile(r"re2/"),
    "cli11": re.compile(r"CLI/"),
    "utf8proc": re.compile(r"utf8proc\.h$"),
    "yaml": re.compile(r"yaml-cpp/"),
    "zip": re.compile(r"zip\.h$"),
    "curl": re.compile(r"curl/"),
    "deflate": re.compile(r"libdeflate\.h$"),
    "xlsx": re.compile(r"xlsxwriter\.h"),
    "toml++": re.compile(r"toml\+\+/|toml\.hpp$"),
    "json": re.compile(r"nlohmann/"),
    "systemd": re.compile(r"systemd/"),
    "nanobind": re.compile(r"nanobind/"),
    "python": re.compile(r"Python\.h$"),
    # Part of the compiler, so nothing is linked.
    "sse2": re.compile(r"emmintrin\.h$"),
    "cpuid": re.compile(r"(cpuid|x86intrin)\.h$"),
}

# The C++ standard library, and the C library with the headers of the system.
STANDARD = re.compile(
    r"[a-z_0-9]+$|(arpa|linux|net|netinet|sys)/\w+\.h$"
    r"|(assert|cxxabi|dirent|dlfcn|elf|endian|errno|execinfo|fcntl|grp|inttypes|limits|locale"
    r"|link|malloc|math|netdb|poll|pthread|pwd|sched|signal|spawn|stdalign|stdatomic|stdbool"
    r"|stdarg|stddef|stdint|stdio|stdio_ext|stdlib|string|strings|termios|time|unistd)\.h$"
)

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
_OURS = ("protos/", "storage/", "daemon/", "client/", "tests/", "deploy/", "docs/")


def module_of(file: str) -> str | None:
    """Returns the module of `file`."""
    folder = file.rpartition("/")[0]
    if folder in MODULES:
        return folder
    # Subfolders belong to their module, but not to a whole layer.
    while "/" in folder:
        if folder in MODULES:
            return folder
        folder = folder.rpartition("/")[0]
    return None


def includes_of(text: str) -> list[tuple[int, str]]:
    """Returns the included paths of a C++ source with their line numbers."""
    out = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _INCLUDE.match(line)
        if match:
            out.append((number, match[1]))
    return out


def check(file: str, text: str) -> list[str]:
    """Returns the violations in the includes of `file`."""
    module = module_of(file)
    if module is None:
        return [f"{file}: belongs to no module of tests/tidy/check_layers.py"]
    rule = NARROWER.get(file, MODULES[module])
    findings = []
    for line, path in includes_of(text):
        why = _refuse(module, rule, path)
        if why:
            findings.append(f"{file}:{line}: {path}: {why}")
    return findings


def _refuse(module: str, rule: Module, path: str) -> str | None:
    if path.startswith(_OURS):
        if path.startswith("client/libmsit/include/"):
            target = "client/libmsit/include"
        else:
            target = module_of(path)
        if target == module and rule == MODULES[module]:
            return None
        if path in rule.ours or target in rule.ours:
            return None
        return f"{module} may not include {target or 'that'}"
    include = "client/libmsit/include"
    sees_msit = module == include or include in rule.ours
    if sees_msit and re.match(r"(msit/)?(msit\.hp?p?|(dtype|reserve)\.h)$", path):
        return None
    for name, pattern in LIBRARIES.items():
        if pattern.match(path):
            if name in rule.libraries:
                return None
            return f"{module} may not use {name}"
    if STANDARD.match(path):
        return None
    return "is neither rooted at the repository nor a known library"


def module_includes() -> dict[str, set[str]]:
    """Returns the modules that each module may include."""
    return {
        name: {o for o in rule.ours if o in MODULES} - {name}
        for name, rule in MODULES.items()
    }


def circle(edges: Mapping[str, Collection[str]]) -> list[str]:
    """Returns nodes that lead to each other in a cycle; empty if there are none."""
    state: dict[str, str] = {}
    path: list[str] = []

    def visit(name: str) -> list[str]:
        if state.get(name) == "done":
            return []
        if state.get(name) == "open":
            return [*path[path.index(name) :], name]
        state[name] = "open"
        path.append(name)
        for target in sorted(edges.get(name, ())):
            found = visit(target)
            if found:
                return found
        path.pop()
        state[name] = "done"
        return []

    for name in edges:
        found = visit(name)
        if found:
            return found
    return []
