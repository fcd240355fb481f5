// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "dtype.h"

// Records tensors of this process into a run of an msitd daemon.
//
// A client represents one rank of one run. msit_record copies the tensor into
// the client's memory, which is bounded, and returns. A thread of the client
// sends the copy and keeps it until the daemon has made it durable. When the
// memory is full, msit_record waits for at most `max_block_us`, then drops the
// record and counts it. msit_options.overflow selects other strategies.
//
// The library never ends the process, throws, installs signal handlers, forks
// or prints. After a fork the client is disabled in the child: it records
// nothing and only counts the records passed to it.
//
// Unless stated otherwise, a function may be called on any thread at any time,
// does not block for longer than a copy takes, and borrows its pointer
// arguments only for the duration of the call. Strings are UTF-8 without
// embedded NUL. A function that fails leaves a description for msit_last_error.

#ifdef __cplusplus
extern "C" {
#define MSIT_NOEXCEPT noexcept
#else
#define MSIT_NOEXCEPT
#endif

#if defined(__GNUC__)
#define MSIT_API __attribute__((visibility("default")))
#else
#define MSIT_API
#endif

// Result of a call.
typedef enum msit_code {
  MSIT_OK = 0,
  // An argument is out of range. Nothing was recorded.
  MSIT_ERROR_INVALID_ARGUMENT = 1,
  // The record was dropped or truncated, and counted: there was no room within
  // `max_block_us`, or the daemon has permanently refused the stream or is too
  // old for records of this kind.
  MSIT_ERROR_DROPPED = 2,
  // The time limit of the call expired. No records are lost, except in
  // msit_close, which drops all records that are not acknowledged.
  MSIT_ERROR_TIMEOUT = 3,
  // The daemon cannot be reached at present.
  MSIT_ERROR_UNAVAILABLE = 4,
  // The daemon permanently refuses this stream: the run is sealed, has another
  // world size, does not have this rank, or has tensors of this rank from
  // another client (see msit_if_exists). Retrying does not help.
  MSIT_ERROR_REFUSED = 5,
  // The client was closed.
  MSIT_ERROR_CLOSED = 6,
  // The client belongs to the parent of this process.
  MSIT_ERROR_FORKED = 7,
  // No transport library for this endpoint could be loaded.
  MSIT_ERROR_NO_TRANSPORT = 8,
  // The system has no memory or threads left.
  MSIT_ERROR_NO_MEMORY = 9,
  // The host ended the wait; see msit_options.is_interrupted.
  MSIT_ERROR_INTERRUPTED = 10,
  // The tensor has an identity but no bytes, and its token has no earlier
  // record with this identity. Nothing was recorded or counted. Record it again
  // with its bytes.
  MSIT_ERROR_UNKNOWN_IDENTITY = 11,
  // The tensor is larger than the memory available to msit_reserve. Nothing was
  // recorded or counted. Use msit_record for this tensor.
  MSIT_ERROR_TOO_LARGE = 12
} msit_code;

// The role of a tensor in its op. The values are those of the chunk format.
typedef enum msit_io {
  MSIT_IO_UNSPECIFIED = 0,
  MSIT_IO_INPUT = 1,
  MSIT_IO_OUTPUT = 2,
  MSIT_IO_WEIGHT = 3,
  MSIT_IO_GRAD_INPUT = 4,
  MSIT_IO_GRAD_OUTPUT = 5,
  MSIT_IO_GRAD_WEIGHT = 6,
  MSIT_IO_STATE = 7
} msit_io;

// The kind of a record. The values are those of the chunk format. NUMBER to
// OTHER are *values*: arguments of an op that are not tensors. The text of a
// value, msit_tensor.value, is formatted as by Python's repr.
typedef enum msit_kind {
  // A tensor.
  MSIT_KIND_TENSOR = 0,
  // A Python bool, int, float or complex. msit_tensor.data contains the same
  // number as a scalar of dtype BOOL, INT64, FLOAT64 or COMPLEX128.
  MSIT_KIND_NUMBER = 1,
  // A string. Its value is the string itself.
  MSIT_KIND_TEXT = 2,
  // `None`.
  MSIT_KIND_NONE = 3,
  // An element type, such as `torch.float32`.
  MSIT_KIND_DTYPE = 4,
  // Any other argument: a slice, a device, an integer of more than 64 bits.
  MSIT_KIND_OTHER = 5,
  // UTF-8 text of any length that describes the rank, such as its module tree.
  // Its name is msit_tensor.op. `data` is its address, and the single entry of
  // `dims` is its size in bytes. It is recorded regardless of the capture
  // policy. By convention its token is 0.
  MSIT_KIND_DOCUMENT = 6,
  // Statistics that another tool computed about a tensor without keeping its
  // bytes. `dtype` and `dims` are those of the tensor. msit_tensor.value is a
  // JSON object of names and scalars, such as `{"max": 1.5, "mean": "nan"}`, of
  // at most 1024 bytes; see docs/format/chunk.md.
  MSIT_KIND_STATISTICS = 7
} msit_kind;

// The value of torch's `requires_grad` for a tensor.
typedef enum msit_requires_grad {
  MSIT_REQUIRES_GRAD_UNKNOWN = 0,
  MSIT_REQUIRES_GRAD_NO = 1,
  MSIT_REQUIRES_GRAD_YES = 2
} msit_requires_grad;

// Behavior of msit_record when tensors are recorded faster than the daemon
// accepts them. All losses are counted; see msit_counters.
typedef enum msit_overflow {
  // When the memory is full, the record waits for room for at most
  // `max_block_us`, and is then dropped.
  MSIT_OVERFLOW_BLOCK = 0,
  // When the memory is full, the record is dropped immediately. It never waits,
  // regardless of `max_block_us`.
  MSIT_OVERFLOW_DROP_NEWEST = 1,
  // When the memory is full, the records of the oldest token are dropped, as
  // far as they are in complete chunks that have not been sent. In this case
  // the record does not wait. It waits as with BLOCK only if no token lower
  // than its own can be dropped. A chunk contains records of only one token,
  // and at most half of the memory is sent before it is acknowledged, so that
  // there is something to drop.
  MSIT_OVERFLOW_DROP_OLDEST_TOKEN = 2,
  // While memory is short, tensors whose bytes the capture policy requests are
  // kept only as summary and hash, which the daemon accepts at the speed of
  // memory instead of the disk. Memory becomes short when less than a quarter
  // of it, or fewer than two chunks, are free, and stays so until half of it is
  // free. All parts of a tensor are treated alike. A record that still finds no
  // room waits as with BLOCK.
  MSIT_OVERFLOW_DEGRADE = 3
} msit_overflow;

// Behavior of msit_open if the run already has tensors of this rank from
// another client. A client that reconnects is still the same client.
typedef enum msit_if_exists {
  // msit_open fails with REFUSED, also if a launch with another name created
  // the run.
  MSIT_IF_EXISTS_FAIL = 1,
  // Adds to the existing tensors, for a job that continues after a restart.
  // Tokens start after the last token of the run. The first token is the same
  // for all ranks of a launch, unless the host uses the number of a token
  // before the daemon answers. Records of the current token, and of references
  // created before the answer, are moved to their final token. Documents of
  // token 0 describe the rank and are not moved. Where the run already has a
  // tensor, its first bytes are kept, and msit_counters.conflict_count counts
  // the records with other bytes.
  MSIT_IF_EXISTS_APPEND = 2,
  // The first rank of the launch to open the run, or a rank that opens it
  // again, deletes and recreates it. msit_open waits while other clients stream
  // into the run. It fails if another rank of the launch was opened more often
  // in the meantime and has therefore replaced the run with a later recording.
  MSIT_IF_EXISTS_REPLACE = 3,
  // The launch gets a run of its own, shared by all its ranks: `run` if it
  // contains nothing from another launch, otherwise `run-2`, `run-3`, and so
  // on. A rank that is opened again gets the next one, which is the same for
  // all ranks that have been opened equally often in their processes.
  // msit_run_name returns the name. Each daemon chooses the name independently,
  // so if the ranks stream to several daemons, give each launch a run name of
  // its own.
  MSIT_IF_EXISTS_NEW = 4
} msit_if_exists;

// One rank of one run. Created by msit_open and destroyed by msit_free.
typedef struct msit_client msit_client;

// For msit_options.buffer_bytes: the client determines how much memory it
// needs. The records of the first token may use 1/64 of the memory that is
// available on the node and allowed by the control group of the process when
// the client is opened. Later records may use twice the size of the largest
// token so far. In both cases the limit is at least 64 MiB and at most 1 GiB.
#define MSIT_BUFFER_AUTO UINT64_MAX

// Options of msit_open. Set `struct_size`, call msit_options_init, then change
// the defaults as needed. New fields are only added at the end.
typedef struct msit_options {
  // sizeof(msit_options) of the caller.
  size_t struct_size;

  // Address of the daemon:
  // - `/path` or `unix:/path`: a daemon on this node, by its socket directory
  //   or a socket in it. The client shares memory with it if the directory
  //   contains an `ingest.sock`, or no socket yet, when the client is opened.
  //   Otherwise it uses gRPC.
  // - `host:port` or `dns:///name:port`: a daemon on another machine, over
  //   gRPC.
  //
  // gRPC requires libmsit_grpc.so, next to this library or at the path in the
  // environment variable MSIT_GRPC_LIBRARY.
  // Default: MSITD_ENDPOINT in the environment, otherwise the service of this
  // machine, otherwise the daemon of the user, which msit_open starts.
  //
  // gRPC to a daemon on another machine is encrypted if the environment
  // contains MSITD_TLS=1 or MSITD_CA_FILE, the PEM certificates to trust
  // instead of the system's. MSITD_CERT_FILE and MSITD_KEY_FILE name the PEM
  // certificate and key to present to a daemon that requires a client
  // certificate.
  const char* endpoint;

  // Required. Name of the run, 1 to 128 bytes. It is created if it does not
  // exist.
  const char* run;

  // Rank of this process, 0 to world_size - 1. Default 0 of 1. No other client
  // may stream the same rank of the run at the same time.
  int32_t rank;
  int32_t world_size;

  // Maximum time in microseconds that one msit_record waits for room, if
  // `overflow` lets it wait. After a record has waited in vain, later records
  // do not wait until the daemon has accepted a chunk, so a daemon that is gone
  // costs the process this time once, not once per record. 0: never wait.
  // Default 1 s.
  int64_t max_block_us;

  // Memory for records that are not yet durable, in bytes. Rounded down to
  // whole chunks of 4.5 MiB, with a minimum of two. Pages are allocated when
  // they are first needed. A daemon that shares memory may provide less, and
  // never provides more than 1 GiB. Default MSIT_BUFFER_AUTO.
  uint64_t buffer_bytes;

  // A chunk that is not full is sent this many microseconds after its first
  // record. While half of the memory is waiting for the daemon, chunks are sent
  // only when they are full. Default 20 ms.
  int64_t linger_us;

  // Maximum time in microseconds that msit_open waits for the daemon. 0: do not
  // wait, connect in the background. Default 5 s. A permanent refusal, such as
  // for a run of another owner, ends the wait immediately with
  // MSIT_ERROR_REFUSED. After a temporary refusal, such as for a full disk or
  // too many streams, the client retries until the time has expired. msit_open
  // then fails with MSIT_ERROR_UNAVAILABLE and the daemon's last reason.
  int64_t open_timeout_us;

  // Device of tensors that do not name one, 1 to 32 bytes. Default `cpu:0`.
  const char* device;

  // Program and version for the daemon's log, at most 256 bytes.
  const char* user_agent;

  // An msit_overflow. Default MSIT_OVERFLOW_BLOCK.
  int32_t overflow;

  // Lets the host end waiting calls, as an interpreter does on Ctrl-C. While
  // msit_open, msit_record, msit_reserve, msit_flush and msit_close wait, they
  // call this function about every 50 ms, on the calling thread and without
  // holding a lock of the library. If it returns a nonzero value, they return
  // MSIT_ERROR_INTERRUPTED. It must not call the library. NULL (default): calls
  // wait until their time limits.
  int32_t (*is_interrupted)(void* interrupt_context);
  void* interrupt_context;

  // An msit_if_exists. Default MSIT_IF_EXISTS_FAIL. NEW requires an
  // `open_timeout_us` above 0.
  int32_t if_exists;

  // Identifies the launch: a text that all ranks of this launch share and no
  // other launch has, at most 128 bytes. Default: MSITD_JOB, this process if
  // world_size is 1, the variables of torchrun, Slurm, Flux or PMIx,
  // MASTER_ADDR and MASTER_PORT, or the parent process.
  const char* job;
} msit_options;

// A value for msit_tensor.token: the current token. See msit_next_token.
#define MSIT_TOKEN_CURRENT (-1)

// For msit_tensor.call: the client numbers the records with the same device,
// token, op, io and index, excluding filtered ones, and uses that number. This
// pairs the inputs and outputs of a call only if every call records all of
// them. If that is not certain, call msit_begin_call once per call of the op.
// Do not mix both methods for one op.
#define MSIT_CALL_AUTO (-1)

// A tensor, or another kind of record. Zero-initialize it and set
// `struct_size`.
typedef struct msit_tensor {
  // sizeof(msit_tensor) of the caller.
  size_t struct_size;

  // Accelerator that the tensor belongs to, such as `npu:3`. NULL stands for
  // msit_options.device. In any case the bytes at `data` are in host memory.
  const char* device;

  // Generated token or step, 0 to 2^40 - 1, MSIT_TOKEN_CURRENT, or a result of
  // msit_token_reference.
  int64_t token;

  // Required. Name of the module, API, graph node or kernel, 1 to 1024 bytes.
  const char* op;

  // Number of the call of the op within the token, 0 to 2^30 - 1, or
  // MSIT_CALL_AUTO.
  int32_t call;

  // An msit_io. Required except for a document.
  int32_t io;

  // Argument: `0`, `1.0` or a keyword, at most 128 bytes. NULL: empty.
  const char* index;

  // An msit_dtype. Required for a tensor, a number and statistics. Fields that
  // are determined by the kind are ignored: for a document `io`, `index` and
  // `dtype`, for a value that is not a number `dtype`, `dims`, `byte_strides`
  // and `data`, and for statistics `byte_strides` and `data`.
  int32_t dtype;

  // Number of dimensions, 0 for a scalar, at most 32.
  int32_t dim_count;

  // Lengths of the dimensions, none negative. A tensor has at most 2^40 bytes.
  const int64_t* dims;

  // Distance in bytes between consecutive elements in each dimension; may be 0
  // or negative. NULL: row-major without gaps.
  const int64_t* byte_strides;

  // First element (all indices 0). May be NULL if a dimension is 0 or if the
  // tensor has an `identity`.
  const void* data;

  // For a shard or a copy, this is the distribution of the whole tensor over
  // the ranks, as `first+shape/strides:placements`, such as `0+2x4/4x1:R,S(0)`,
  // in at most 256 bytes. In this example the rank at (i, j) of the mesh is 0 +
  // 4 i + 1 j. Along each dimension of the mesh the tensor is replicated (`R`),
  // sharded along its own dimension d (`S(d)`), or a term of a sum (`P(sum)`).
  // A comparison assembles the shards. NULL or empty: the tensor is complete.
  const char* placement;

  // An msit_kind. Default MSIT_KIND_TENSOR.
  int32_t kind;

  // An msit_requires_grad. Default MSIT_REQUIRES_GRAD_UNKNOWN.
  int32_t requires_grad;

  // Text of a value or of statistics. Required for statistics and for all
  // values except an empty MSIT_KIND_TEXT; NULL for all other kinds. 1024 bytes
  // of a value are kept: a longer text is cut at a character boundary and ends
  // with an ellipsis, its length and a hash of the whole text, `(2000 bytes,
  // hash 00c1d2e3f4051627)`. The text of statistics is not cut.
  const char* value;

  // Source location of the record: the innermost frame first, with one line
  // `file:line function` per frame. 8192 bytes are kept. Outer frames that do
  // not fit are omitted, and the last line states how many. NULL or empty:
  // unknown.
  const char* stack;

  // If not 0, a number that identifies the bytes of the tensor. Two records of
  // one client and token with the same identity, dtype, dims and device must
  // have equal bytes, even at different addresses or with other strides. A
  // later record may then become an *alias* of an earlier one: it is a complete
  // record, but its bytes are neither copied nor sent. The caller is
  // responsible for this: if other bytes have the same number, the daemon shows
  // the wrong ones.
  //
  // If `data` is NULL, the record becomes an alias or the call fails with
  // UNKNOWN_IDENTITY. Known bytes therefore need not be copied to the host. The
  // client remembers about 16000 identities of its highest token. It does not
  // create an alias of a record that is kept at a lower level than the capture
  // policy requests. It creates none after a chunk was dropped until there are
  // new originals, and none after a conflict.
  uint64_t identity;
} msit_tensor;

// Totals of a client. recorded = acknowledged + pending + those dropped and
// truncated records that had been recorded.
typedef struct msit_counters {
  // sizeof(msit_counters) of the caller.
  size_t struct_size;
  // Accepted records and their bytes.
  uint64_t recorded_count;
  uint64_t recorded_bytes;
  // Records that are durable and visible in the daemon, and their bytes.
  uint64_t acknowledged_count;
  uint64_t acknowledged_bytes;
  // Records that will never reach the daemon. Memory was not available in time,
  // a newer token replaced them, the daemon refused them or is too old for
  // their kind, msit_close dropped them, their reservation was given up, or
  // they were recorded after the stream had permanently ended or in a forked
  // child.
  uint64_t dropped_count;
  // Records that msit_record refused with MSIT_ERROR_INVALID_ARGUMENT.
  uint64_t invalid_count;
  // Chunks that the daemon refused as malformed.
  uint64_t refused_chunk_count;
  // Streams opened after the first one.
  uint64_t reconnect_count;
  // Records for which msit_record returned MSIT_OK although the capture policy
  // of the run does not request them. They are not included in any other count.
  uint64_t filtered_count;
  // Records of which only the first parts, of 4 MiB each, were accepted. The
  // daemon does not show those parts. These records are not counted as dropped.
  uint64_t truncated_count;
  // Acknowledged records that are kept as summary and hash although the capture
  // policy requests their bytes; see MSIT_OVERFLOW_DEGRADE.
  uint64_t degraded_count;
  // Acknowledged records that the run already had with other bytes. The first
  // bytes were kept. The name of the run, or a call number, was used twice.
  uint64_t conflict_count;
  // Recorded aliases, and the bytes that they would have needed. They are
  // included in recorded_count and acknowledged_count, with 0 bytes; see
  // msit_tensor.identity.
  uint64_t aliased_count;
  uint64_t aliased_bytes;
  // Nanoseconds of all threads in msit_record, msit_reserve and msit_begin_call
  // and between msit_enter and msit_leave, and since the client was opened.
  // Those of records that are not selected are estimated from samples.
  uint64_t recording_ns;
  uint64_t open_ns;
} msit_counters;

// Sets the first `options->struct_size` bytes to the defaults.
MSIT_API void msit_options_init(msit_options* options) MSIT_NOEXCEPT;

// Opens a client and stores it in `*client`. The caller must free it with
// msit_free. On failure `*client` is NULL. Blocks for at most
// `open_timeout_us`.
//
// Errors: INVALID_ARGUMENT, NO_TRANSPORT, NO_MEMORY; REFUSED; UNAVAILABLE if
// the daemon did not accept the stream in time; INTERRUPTED.
MSIT_API msit_code msit_open(const msit_options* options,
                             msit_client** client) MSIT_NOEXCEPT;

// Copies `tensor` into the client, or counts it as filtered if the capture
// policy of the run does not request it. A value follows the rule of its op and
// io, and is recorded whole at any level except off. The caller may overwrite
// the bytes when the call returns. Records of one thread stay in order. MSIT_OK
// is not a guarantee: the record may still be dropped later.
//
// Blocks for at most `max_block_us` in addition to the copy. This also holds
// for a tensor that is larger than the client's memory: it is sent in parts, as
// fast as the daemon accepts them.
//
// Errors: INVALID_ARGUMENT. UNKNOWN_IDENTITY. DROPPED, INTERRUPTED, CLOSED,
// FORKED and NO_MEMORY: the record is counted as dropped or truncated.
MSIT_API msit_code msit_record(msit_client* client,
                               const msit_tensor* tensor) MSIT_NOEXCEPT;

// Returns whether the capture policy of the run may request such a tensor. 0
// means that it does not, on any device, so the tensor need not be copied to
// the host. In a forked child the result is always 0, and tensors that are not
// recorded for this reason are not counted. The result is also 1 for arguments
// that msit_record refuses. `token` may be MSIT_TOKEN_CURRENT, and `io` may be
// 0 for any io of the op. The policy may change at any time.
MSIT_API int32_t msit_selects(const msit_client* client, int64_t token,
                              const char* op, int32_t io) MSIT_NOEXCEPT;

// How much of a tensor a capture policy requests.
typedef enum msit_level {
  MSIT_LEVEL_OFF = 0,
  // The summary and the hash.
  MSIT_LEVEL_SUMMARY = 1,
  // The bytes as well.
  MSIT_LEVEL_FULL = 2,
  // The summary, the hash, and a sample of at most 1024 elements.
  MSIT_LEVEL_SAMPLE = 3
} msit_level;

// Returns how much of such a tensor the capture policy of the run requests, as
// an msit_level. A caller that reduces tensors on their device need not copy
// their bytes to the host at level SUMMARY; see MSIT_KIND_STATISTICS. `device`
// may be NULL for the client's device, and `token` may be MSIT_TOKEN_CURRENT.
// Returns OFF in a forked child, and FULL for arguments that msit_record
// refuses.
MSIT_API int32_t msit_level_of(const msit_client* client, const char* device,
                               int64_t token, const char* op,
                               int32_t io) MSIT_NOEXCEPT;

// Returns a number that changes before the results of msit_selects change: when
// the policy is replaced, and at each token from which the policy requests
// something else. Callers can cache the results of msit_selects until this
// number changes. `token` is the token that begins now; it may be
// MSIT_TOKEN_CURRENT.
MSIT_API uint64_t msit_selection(const msit_client* client,
                                 int64_t token) MSIT_NOEXCEPT;

// Returns the current token, initially 0.
MSIT_API int64_t msit_token(const msit_client* client) MSIT_NOEXCEPT;

// Returns a reference to the current token, for callers that keep a token for
// later use, such as hooks. All functions accept it in place of the token. It
// is the number of the token, unless the client appends and was opened without
// waiting (open_timeout_us 0). In that case the token receives its number with
// the daemon's first answer, and the reference is valid before and after the
// answer. Like numbers, references of one client increase with their tokens.
MSIT_API int64_t msit_token_reference(const msit_client* client) MSIT_NOEXCEPT;

// Returns the number of the token that `token` stands for: a number, a
// reference, or MSIT_TOKEN_CURRENT. Before the daemon's first answer, this is
// the number that the token has if the run is empty.
MSIT_API int64_t msit_token_number(const msit_client* client,
                                   int64_t token) MSIT_NOEXCEPT;

// Makes the next token the current one and returns it.
MSIT_API int64_t msit_next_token(msit_client* client) MSIT_NOEXCEPT;

// Makes `token` the current one.
//
// Errors: INVALID_ARGUMENT.
MSIT_API msit_code msit_set_token(msit_client* client,
                                  int64_t token) MSIT_NOEXCEPT;

// Stores in `*call` the number of the call of `op` within `token` (or
// MSIT_TOKEN_CURRENT) that begins now: 0, 1, 2, ... Use this number for all
// tensors of the call. The client remembers at most 16,384 tokens, and 262,144
// ops over all tokens. It forgets the token first that has had no call for the
// longest time; calls of a forgotten token start at 0 again.
//
// Errors: INVALID_ARGUMENT; FORKED; NO_MEMORY: one token has that many ops.
MSIT_API msit_code msit_begin_call(msit_client* client, int64_t token,
                                   const char* op, int32_t* call) MSIT_NOEXCEPT;

// Count the time of this thread between both calls as spent recording, for
// callers that do other work as well, such as hooks. Pairs may nest. A client
// that is NULL, or that belongs to the parent of a forked process, counts
// nothing.
MSIT_API void msit_enter(msit_client* client) MSIT_NOEXCEPT;
MSIT_API void msit_leave(msit_client* client) MSIT_NOEXCEPT;

// Waits until everything that was recorded before the call is acknowledged or
// dropped. Blocks for at most `timeout_us`, which must not be negative.
//
// Errors: TIMEOUT; INTERRUPTED; REFUSED: the daemon permanently ended the
// stream; CLOSED, FORKED, INVALID_ARGUMENT.
MSIT_API msit_code msit_flush(msit_client* client,
                              int64_t timeout_us) MSIT_NOEXCEPT;

// Fills the first `counters->struct_size` bytes.
//
// Errors: INVALID_ARGUMENT.
MSIT_API msit_code msit_get_counters(const msit_client* client,
                                     msit_counters* counters) MSIT_NOEXCEPT;

// Copies a description of the stream's error into `text`: why the stream is
// broken, has ended, last had a chunk refused, or lacks records for which the
// daemon is too old. Empty if there is no error. The text is truncated to
// `text_bytes` including a NUL. Returns the length of the whole text. `text`
// may be NULL to query only the length.
MSIT_API size_t msit_stream_error(const msit_client* client, char* text,
                                  size_t text_bytes) MSIT_NOEXCEPT;

// Copies the name of the run into `text`, in the same way as msit_stream_error:
// the name passed to msit_open, or the one that MSIT_IF_EXISTS_NEW selected.
MSIT_API size_t msit_run_name(const msit_client* client, char* text,
                              size_t text_bytes) MSIT_NOEXCEPT;

// Flushes, ends the stream and stops the client's threads. Records that are not
// acknowledged after `timeout_us` are dropped and counted. Later records are
// refused with CLOSED. Closing a closed client has no effect. See also
// reserve.h.
//
// Blocks for at most `timeout_us`. If everything is acknowledged in that time,
// ending the stream properly may take up to one more second. A connection that
// cannot be ended by then is freed in the background.
//
// Errors: as msit_flush. INTERRUPTED: the client is closed nevertheless, as if
// the time had expired.
MSIT_API msit_code msit_close(msit_client* client,
                              int64_t timeout_us) MSIT_NOEXCEPT;

// Destroys the client, after closing it with a timeout of 0 if it is open. No
// other call may use it at that time or later; reservations stay valid. NULL
// has no effect.
MSIT_API void msit_free(msit_client* client) MSIT_NOEXCEPT;

// Returns a description of the last failure on this thread; never NULL. Valid
// until the next call of this library on this thread.
MSIT_API const char* msit_last_error(void) MSIT_NOEXCEPT;

// Returns the version of the library, such as "0.1.0".
MSIT_API const char* msit_version(void) MSIT_NOEXCEPT;

// Returns the size of an element in bytes; 0 if `dtype` is not an msit_dtype.
MSIT_API size_t msit_dtype_bytes(int32_t dtype) MSIT_NOEXCEPT;

// Returns the name that torch uses, such as "bfloat16"; NULL if `dtype` is not
// an msit_dtype.
MSIT_API const char* msit_dtype_name(int32_t dtype) MSIT_NOEXCEPT;

// Returns the msit_dtype with that name, or MSIT_DTYPE_UNSPECIFIED.
MSIT_API int32_t msit_dtype_from_name(const char* name) MSIT_NOEXCEPT;

#ifdef __cplusplus
}
#endif
