// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "dtype.h"

// Records tensors of this process into a run of an msitd daemon.
//
// A client stands for one rank of one run. msit_record copies the tensor into
// memory of the client, which is bounded, and returns. A thread of the client
// sends it and keeps it until the daemon has made it durable. When the memory
// is full, msit_record waits for at most `max_block_us`, then drops the record
// and counts it; msit_options.overflow selects other behaviours.
//
// The library never ends the process, throws, installs signal handlers, forks
// or prints. After a fork the client is off in the child: it records nothing
// and only counts what it is given.
//
// Unless a function says otherwise: any thread may call it at any time, it does
// not block beyond the time of a copy, and it borrows the pointers it is given
// for the duration of the call only. Text is UTF-8 without a NUL inside. A
// function that fails leaves a description for msit_last_error.

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

// What became of a call.
typedef enum msit_code {
  MSIT_OK = 0,
  // An argument is out of its range. Nothing was recorded.
  MSIT_ERROR_INVALID_ARGUMENT = 1,
  // The record was dropped, or truncated, and counted: there was no room within
  // `max_block_us`, the daemon has refused the stream for good, or it is too
  // old for records of this kind.
  MSIT_ERROR_DROPPED = 2,
  // The time limit of the call ran out. Nothing is lost by that, except in
  // msit_close, which drops what is not acknowledged.
  MSIT_ERROR_TIMEOUT = 3,
  // The daemon cannot be reached now.
  MSIT_ERROR_UNAVAILABLE = 4,
  // The daemon refuses this stream for good: the run is sealed, has another
  // world size, does not have this rank, or has tensors of this rank from
  // another client (see msit_if_exists). Trying again does not help.
  MSIT_ERROR_REFUSED = 5,
  // The client was closed.
  MSIT_ERROR_CLOSED = 6,
  // The client belongs to the parent of this process.
  MSIT_ERROR_FORKED = 7,
  // No transport library for this endpoint could be loaded.
  MSIT_ERROR_NO_TRANSPORT = 8,
  // The system has no memory or threads left.
  MSIT_ERROR_NO_MEMORY = 9,
  // The host ended the wait: see msit_options.is_interrupted.
  MSIT_ERROR_INTERRUPTED = 10,
  // The tensor has an identity and no bytes, and no earlier record of its token
  // is known by this identity. Nothing was recorded or counted: record it again
  // with its bytes.
  MSIT_ERROR_UNKNOWN_IDENTITY = 11,
  // msit_reserve has not as much memory for one tensor. Nothing was recorded or
  // counted: record the tensor by msit_record.
  MSIT_ERROR_TOO_LARGE = 12
} msit_code;

// Which side of an op a tensor is. The numbers are those of the chunk format.
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

// What a record has. The numbers are those of the chunk format. NUMBER to OTHER
// are *values*: arguments of an op that are no tensors. A value has a text,
// msit_tensor.value, as Python's repr writes it.
typedef enum msit_kind {
  // A tensor.
  MSIT_KIND_TENSOR = 0,
  // A bool, int, float or complex of Python. The same number lies at
  // msit_tensor.data as a scalar of dtype BOOL, INT64, FLOAT64 or COMPLEX128.
  MSIT_KIND_NUMBER = 1,
  // A string, which is the text itself.
  MSIT_KIND_TEXT = 2,
  // `None`.
  MSIT_KIND_NONE = 3,
  // An element type, such as `torch.float32`.
  MSIT_KIND_DTYPE = 4,
  // Any other argument: a slice, a device, an integer of more than 64 bits.
  MSIT_KIND_OTHER = 5,
  // UTF-8 text of any length that describes the rank, such as its module tree.
  // Its name is msit_tensor.op; `data` and the only one of `dims` say where it
  // lies and how many bytes it has. It is taken whatever the capture policy
  // says. By convention its token is 0.
  MSIT_KIND_DOCUMENT = 6,
  // What another tool found out about a tensor whose bytes it did not keep.
  // `dtype` and `dims` are those of the tensor; msit_tensor.value is a JSON
  // object of names and scalars such as `{"max": 1.5, "mean": "nan"}`, at most
  // 1024 bytes: see docs/format/chunk.md.
  MSIT_KIND_STATISTICS = 7
} msit_kind;

// What torch says of a tensor's `requires_grad`.
typedef enum msit_requires_grad {
  MSIT_REQUIRES_GRAD_UNKNOWN = 0,
  MSIT_REQUIRES_GRAD_NO = 1,
  MSIT_REQUIRES_GRAD_YES = 2
} msit_requires_grad;

// What msit_record does when tensors come faster than the daemon takes them.
// Whatever is lost is counted; see msit_counters.
typedef enum msit_overflow {
  // When the memory is full, the record waits for room for at most
  // `max_block_us`. It is dropped if there is none by then.
  MSIT_OVERFLOW_BLOCK = 0,
  // When the memory is full, the record is dropped at once. It never waits,
  // whatever `max_block_us` is.
  MSIT_OVERFLOW_DROP_NEWEST = 1,
  // When the memory is full, the oldest token makes room: all its records that
  // lie in complete chunks and have not been sent are dropped. The record does
  // not wait then. It waits as with BLOCK only if no token lower than its own
  // can be dropped. A chunk holds records of one token only, and at most half
  // of the memory is sent ahead of acknowledgements, so that there is something
  // to drop.
  MSIT_OVERFLOW_DROP_OLDEST_TOKEN = 2,
  // While memory is short, tensors whose bytes the capture policy asks for are
  // kept as summary and hash, which the daemon takes at the speed of memory,
  // not of the disk. Memory is short from when less than a quarter of it, or
  // fewer than two chunks, are free until half of it is free. All parts of a
  // tensor are kept alike. A record that finds no room even so waits as with
  // BLOCK.
  MSIT_OVERFLOW_DEGRADE = 3
} msit_overflow;

// What msit_open does if the run already has tensors of this rank, from any
// other client. A client that reconnects remains the same one.
typedef enum msit_if_exists {
  // msit_open fails with REFUSED.
  MSIT_IF_EXISTS_FAIL = 1,
  // The client adds to them, from the token after the last one of the run on:
  // the same for all ranks of a launch, unless the host names the number
  // of a token before the daemon answers. Records of the current token and of
  // references that are made before the answer are moved along; documents of
  // token 0 describe the rank, and stay there. For a job that continues after
  // a restart. Where the run already has a tensor, its first bytes stay, and
  // msit_counters.conflict_count counts records that came with other bytes.
  MSIT_IF_EXISTS_APPEND = 2,
  // The first rank of the launch, or one that is opened again, deletes the run
  // and makes it again. msit_open waits while others stream into it. It fails
  // if another rank of the launch has been opened more often by then, and so
  // has replaced the run with a later recording.
  MSIT_IF_EXISTS_REPLACE = 3,
  // The launch gets a run of its own, the same for all its ranks: `run` if that
  // holds nothing of another launch, else `run-2`, `run-3`, and so on. Ranks
  // that are opened again get the next one, the same for all that are opened
  // equally often in their processes. msit_run_name returns its name. Each
  // daemon chooses by itself: if ranks stream to several, name the run of each
  // launch.
  MSIT_IF_EXISTS_NEW = 4
} msit_if_exists;

// One rank of one run. Made by msit_open, destroyed by msit_free.
typedef struct msit_client msit_client;

// msit_options.buffer_bytes: the client finds out how much it needs. The
// records of the first token may take 1/64 of the memory that the node has
// available and the control group of the process allows, as it is when the
// client is opened; later ones may take twice what the largest token so far
// took. At least 64 MiB and at most 1 GiB in both cases.
#define MSIT_BUFFER_AUTO UINT64_MAX

// How to open a client. Set `struct_size`, call msit_options_init, then change
// what differs from the defaults. Fields are only ever added at the end.
typedef struct msit_options {
  // sizeof(msit_options) of the caller.
  size_t struct_size;

  // Where the daemon is:
  // - `/path` or `unix:/path`: a daemon of this node, by its socket directory
  //   or a socket in it. The client shares memory with it if the directory has
  //   an `ingest.sock`, or no socket yet, when the client is opened. Otherwise
  //   it uses gRPC.
  // - `host:port` or `dns:///name:port`: a daemon elsewhere, over gRPC.
  //
  // gRPC needs libmsit_grpc.so, beside this library or where the environment
  // variable MSIT_GRPC_LIBRARY says. Default: the environment variable
  // MSITD_ENDPOINT, or /run/msitd if there is an `ingest.sock` in it, or
  // 127.0.0.1:7741.
  //
  // gRPC to a daemon elsewhere is encrypted if the environment has MSITD_TLS=1,
  // or MSITD_CA_FILE: PEM certificates to trust instead of the system's.
  // MSITD_CERT_FILE and MSITD_KEY_FILE name the PEM certificate and key to show
  // to a daemon that asks for a certificate.
  const char* endpoint;

  // Required. Name of the run, 1 to 128 bytes. The run is made if it does not
  // exist.
  const char* run;

  // Rank of this process, 0 to world_size - 1. Default 0 of 1. No other
  // client may stream the same rank of the run at the same time.
  int32_t rank;
  int32_t world_size;

  // Longest time in microseconds that one msit_record waits for room, where
  // `overflow` lets it wait. After one record has waited in vain, later records
  // do not wait until the daemon has taken something: a daemon that is gone
  // costs the process this time once, not once per record. 0: never wait.
  // Default 1 s.
  int64_t max_block_us;

  // Memory for records that are not yet durable, in bytes. Rounded down to
  // whole chunks of 4.5 MiB, but at least two. Pages are taken from the system
  // when they are first needed. A daemon that shares memory may give less, and
  // never gives more than 1 GiB. Default MSIT_BUFFER_AUTO.
  uint64_t buffer_bytes;

  // A chunk that is not full is sent this many microseconds after its first
  // record. While half of the memory is waiting for the daemon, it is sent only
  // once it is full. Default 20 ms.
  int64_t linger_us;

  // Longest time in microseconds that msit_open waits for the daemon. 0: do
  // not wait, connect in the background. Default 5 s. A refusal for good, such
  // as a run of another owner, ends the wait at once with MSIT_ERROR_REFUSED. A
  // refusal that may pass, such as a full disk or too many streams, is tried
  // again until the time is over; then msit_open fails with
  // MSIT_ERROR_UNAVAILABLE and the last reason of the daemon.
  int64_t open_timeout_us;

  // Device of tensors that name none, 1 to 32 bytes. Default `cpu:0`.
  const char* device;

  // Program and version for the daemon's log, at most 256 bytes.
  const char* user_agent;

  // An msit_overflow. Default MSIT_OVERFLOW_BLOCK.
  int32_t overflow;

  // Lets the host end calls that wait, as an interpreter does when its user
  // presses Ctrl-C. While msit_open, msit_record, msit_reserve, msit_flush and
  // msit_close wait, they call this function about every 50 ms, on the calling
  // thread and without a lock of the library held. If it returns anything but
  // 0, they return MSIT_ERROR_INTERRUPTED. It must not call the library. NULL,
  // the default: the calls wait until their time limits.
  int32_t (*is_interrupted)(void* interrupt_context);
  void* interrupt_context;

  // An msit_if_exists. Default MSIT_IF_EXISTS_FAIL. NEW needs an
  // `open_timeout_us` above 0.
  int32_t if_exists;

  // Tells REPLACE and NEW which ranks belong together: a text that all ranks of
  // this launch share and no other launch has, at most 128 bytes. Default: the
  // environment variable MSITD_JOB; with a world_size of 1, this process; what
  // torchrun, Slurm, PMIx or MASTER_ADDR and MASTER_PORT say; or the parent
  // process.
  const char* job;
} msit_options;

// msit_tensor.token: the current token, see msit_next_token.
#define MSIT_TOKEN_CURRENT (-1)

// msit_tensor.call: the client numbers the records of the same device, token,
// op, io and index, filtered ones left out, and uses that number. This pairs
// the inputs and outputs of a call only if every call records all of them.
// Where that is not certain, ask msit_begin_call once per call. Do not mix the
// two ways for one op.
#define MSIT_CALL_AUTO (-1)

// One tensor, or a record of another msit_kind. Zero-initialise it and set
// `struct_size`.
typedef struct msit_tensor {
  // sizeof(msit_tensor) of the caller.
  size_t struct_size;

  // Accelerator that the tensor belongs to, such as `npu:3`. NULL stands for
  // msit_options.device. The bytes at `data` are in host memory in any case.
  const char* device;

  // Generated token or step, 0 to 2^40 - 1, MSIT_TOKEN_CURRENT, or what
  // msit_token_reference returns.
  int64_t token;

  // Required. Name of the module, API, graph node or kernel, 1 to 1024 bytes.
  const char* op;

  // Which call of the op within the token, 0 to 2^30 - 1, or MSIT_CALL_AUTO.
  int32_t call;

  // Required, but for a document. An msit_io.
  int32_t io;

  // Which argument: `0`, `1.0`, a keyword; at most 128 bytes. NULL: empty.
  const char* index;

  // Required of a tensor, of a number and of statistics. An msit_dtype. What
  // the kind alone decides is not looked at: `io`, `index` and `dtype` of a
  // document; `dtype`, `dims`, `byte_strides` and `data` of a value that is no
  // number; `byte_strides` and `data` of statistics.
  int32_t dtype;

  // Number of dimensions, 0 for a scalar, at most 32.
  int32_t dim_count;

  // Lengths of the dimensions, none negative. The tensor has at most 2^40
  // bytes.
  const int64_t* dims;

  // Bytes from one element to the next in each dimension; may be 0 or
  // negative. NULL: row-major without gaps.
  const int64_t* byte_strides;

  // First element (all indices 0). May be NULL if a dimension is 0, and if the
  // tensor has an `identity`.
  const void* data;

  // For a shard or a copy: how the whole tensor lies on the ranks, as
  // `first+shape/strides:placements`, such as `0+2x4/4x1:R,S(0)`; at most 256
  // bytes. In this example the rank at (i, j) of the mesh is 0 + 4 i + 1 j.
  // Along each dimension of the mesh the tensor is replicated (`R`), sharded
  // along its own dimension d (`S(d)`), or a term of a sum (`P(sum)`). A
  // comparison puts the shards together. NULL or empty: the tensor stands for
  // itself.
  const char* placement;

  // An msit_kind. Default MSIT_KIND_TENSOR.
  int32_t kind;

  // An msit_requires_grad. Default MSIT_REQUIRES_GRAD_UNKNOWN.
  int32_t requires_grad;

  // Required of statistics, and of a value but for an empty MSIT_KIND_TEXT;
  // NULL for all other kinds. Its text, of which 1024 bytes are kept: a longer
  // one is cut at a character and ends with an ellipsis, its length and a hash
  // of all of it, `(2000 bytes, hash 00c1d2e3f4051627)`. The text of statistics
  // is not cut.
  const char* value;

  // Where in the source the record comes from: the innermost frame first, a
  // line `file:line function` for each. 8192 bytes are kept; outer frames that
  // do not fit are left out, and the last line says how many. NULL or empty:
  // not known.
  const char* stack;

  // Not 0: a number that stands for the bytes of the tensor. Two records of one
  // client and token that have the same identity, dtype, dims and device have
  // equal bytes, wherever they lie and whatever their strides are. A later one
  // may then become an *alias* of an earlier one: it is a record with all that
  // a record has, but its bytes are neither copied nor sent. The caller answers
  // for that: if it gives the number to other bytes, the daemon shows the wrong
  // ones.
  //
  // If `data` is NULL, the record becomes an alias, or the call fails with
  // UNKNOWN_IDENTITY: so bytes that are known need not come to the host. The
  // client remembers some 16000 identities of its highest token. It makes no
  // alias of a record of which less is kept than the capture policy asks for,
  // and none after a chunk was dropped, until there are new originals, or after
  // a conflict.
  uint64_t identity;
} msit_tensor;

// What a client has done so far. recorded = acknowledged + pending + those
// dropped and truncated records that had been recorded.
typedef struct msit_counters {
  // sizeof(msit_counters) of the caller.
  size_t struct_size;
  // Records that were taken, and their bytes.
  uint64_t recorded_count;
  uint64_t recorded_bytes;
  // Records that are durable and visible in the daemon, and their bytes.
  uint64_t acknowledged_count;
  uint64_t acknowledged_bytes;
  // Records that will never reach the daemon: there was no room in time, they
  // gave way to a newer token, the daemon refused them or is too old for their
  // kind, msit_close gave them up, their reservation was given up, or they came
  // after the stream had ended for good or in a forked child.
  uint64_t dropped_count;
  // Records that msit_record refused with MSIT_ERROR_INVALID_ARGUMENT.
  uint64_t invalid_count;
  // Chunks that the daemon refused as malformed.
  uint64_t refused_chunk_count;
  // Streams opened after the first one.
  uint64_t reconnect_count;
  // Records for which msit_record returned MSIT_OK and which the capture policy
  // of the run does not ask for. They count nowhere else.
  uint64_t filtered_count;
  // Records given up after some of their parts of 4 MiB had been taken. The
  // daemon does not show those parts. These records do not count as dropped.
  uint64_t truncated_count;
  // Acknowledged records that are kept as summary and hash although the capture
  // policy asks for their bytes; see MSIT_OVERFLOW_DEGRADE.
  uint64_t degraded_count;
  // Acknowledged records that the run already had with other bytes. The first
  // bytes were kept. The name of the run, or a call number, was used twice.
  uint64_t conflict_count;
  // Recorded aliases, and the bytes that they would have taken. They count in
  // recorded_count and acknowledged_count, with 0 bytes; see
  // msit_tensor.identity.
  uint64_t aliased_count;
  uint64_t aliased_bytes;
  // Nanoseconds that all threads spent in msit_record, msit_reserve and
  // msit_begin_call, and from msit_enter to msit_leave; and since the opening.
  uint64_t recording_ns;
  uint64_t open_ns;
} msit_counters;

// Fills the first `options->struct_size` bytes with the defaults.
MSIT_API void msit_options_init(msit_options* options) MSIT_NOEXCEPT;

// Opens a client and stores it in `*client`, which the caller frees with
// msit_free. On failure `*client` is NULL. Blocks for at most
// `open_timeout_us`.
//
// Errors: INVALID_ARGUMENT, NO_TRANSPORT, NO_MEMORY; REFUSED; UNAVAILABLE if
// the daemon did not take the stream in time; INTERRUPTED.
MSIT_API msit_code msit_open(const msit_options* options,
                             msit_client** client) MSIT_NOEXCEPT;

// Copies `tensor` into the client, or counts it as filtered if the capture
// policy of the run does not ask for it. A value follows the rule of its op and
// io, and is taken whole at any level but off. The caller may overwrite the
// bytes when the call returns. Records of one thread keep their order. MSIT_OK
// is no promise: a record may still be dropped later.
//
// Blocks for at most `max_block_us` beyond the copy. This holds for a tensor
// larger than the memory of the client too: it goes through in parts, as fast
// as the daemon takes them.
//
// Errors: INVALID_ARGUMENT. UNKNOWN_IDENTITY. DROPPED, INTERRUPTED, CLOSED,
// FORKED and NO_MEMORY: the record counts as dropped or truncated.
MSIT_API msit_code msit_record(msit_client* client,
                               const msit_tensor* tensor) MSIT_NOEXCEPT;

// Returns whether the capture policy of the run may ask for such a tensor. 0
// means that it does not, on any device, so there is no use in bringing the
// tensor to the host. So in a forked child it is always 0, and what is not
// recorded for that reason is counted nowhere. 1 also stands for arguments that
// msit_record refuses. `token` may be MSIT_TOKEN_CURRENT, `io` may be 0 for any
// side of the op. The policy may change at any time.
MSIT_API int32_t msit_selects(const msit_client* client, int64_t token,
                              const char* op, int32_t io) MSIT_NOEXCEPT;

// How much of a tensor a capture policy asks for.
typedef enum msit_level {
  MSIT_LEVEL_OFF = 0,
  // Its summary and its hash.
  MSIT_LEVEL_SUMMARY = 1,
  // Its bytes as well.
  MSIT_LEVEL_FULL = 2,
  // Summary, hash, and a sample of at most 1024 elements.
  MSIT_LEVEL_SAMPLE = 3
} msit_level;

// Returns how much of such a tensor the capture policy of the run asks for, an
// msit_level. Who reduces tensors where they are, on a device, need not bring
// their bytes to the host at level SUMMARY: see MSIT_KIND_STATISTICS. `device`
// may be NULL for that of the client, `token` MSIT_TOKEN_CURRENT. OFF in a
// forked child. FULL also stands for arguments that msit_record refuses.
MSIT_API int32_t msit_level_of(const msit_client* client, const char* device,
                               int64_t token, const char* op,
                               int32_t io) MSIT_NOEXCEPT;

// Returns a number that changes before msit_selects answers otherwise than
// until now: when there is another policy, and with each token from which the
// policy asks for something else. So who has asked msit_selects for each op
// need not ask again while the number stays the same. `token` is the one that
// begins now; it may be MSIT_TOKEN_CURRENT.
MSIT_API uint64_t msit_selection(const msit_client* client,
                                 int64_t token) MSIT_NOEXCEPT;

// Returns the current token: 0 at first.
MSIT_API int64_t msit_token(const msit_client* client) MSIT_NOEXCEPT;

// Returns a reference to the current token, for callers that keep a token to
// name it later, such as hooks. Every call takes it in place of the token. It
// is the number of the token, unless the client appends and was opened without
// waiting (open_timeout_us 0): then the token gets its number with the daemon's
// first answer, and the reference holds before and after. References of one
// client increase with their tokens, like numbers.
MSIT_API int64_t msit_token_reference(const msit_client* client) MSIT_NOEXCEPT;

// Returns the number of the token that `token` stands for: a number, a
// reference, or MSIT_TOKEN_CURRENT. Before the daemon's first answer, it is the
// number that the token has if the run is empty.
MSIT_API int64_t msit_token_number(const msit_client* client,
                                   int64_t token) MSIT_NOEXCEPT;

// Makes the following token the current one and returns it.
MSIT_API int64_t msit_next_token(msit_client* client) MSIT_NOEXCEPT;

// Makes `token` the current one.
//
// Errors: INVALID_ARGUMENT.
MSIT_API msit_code msit_set_token(msit_client* client,
                                  int64_t token) MSIT_NOEXCEPT;

// Stores in `*call` which call of `op` within `token` (or MSIT_TOKEN_CURRENT)
// begins now: 0, 1, 2, ... Give this number to all tensors of the call. The
// client remembers at most 262,144 ops over all tokens. It forgets the lowest
// token first; calls of a forgotten token begin at 0 again.
//
// Errors: INVALID_ARGUMENT; FORKED; NO_MEMORY: one token has that many ops.
MSIT_API msit_code msit_begin_call(msit_client* client, int64_t token,
                                   const char* op, int32_t* call) MSIT_NOEXCEPT;

// The time of a thread from one to the other counts as spent recording, for
// callers that do more than call this library, such as hooks. Pairs may nest. A
// client that is NULL, or of the parent of a forked process, counts nothing.
MSIT_API void msit_enter(msit_client* client) MSIT_NOEXCEPT;
MSIT_API void msit_leave(msit_client* client) MSIT_NOEXCEPT;

// Waits until everything that was recorded before the call is acknowledged or
// dropped. Blocks for at most `timeout_us`, which is not negative.
//
// Errors: TIMEOUT; INTERRUPTED; REFUSED: the daemon ended the stream for good;
// CLOSED, FORKED, INVALID_ARGUMENT.
MSIT_API msit_code msit_flush(msit_client* client,
                              int64_t timeout_us) MSIT_NOEXCEPT;

// Fills the first `counters->struct_size` bytes.
//
// Errors: INVALID_ARGUMENT.
MSIT_API msit_code msit_get_counters(const msit_client* client,
                                     msit_counters* counters) MSIT_NOEXCEPT;

// Copies into `text` why the stream is broken, has ended, last had a chunk
// refused, or lacks records for which the daemon is too old; empty while all is
// well. The text is cut to `text_bytes`, which include a NUL. Returns the
// length of the whole text. `text` may be NULL, to ask for the length alone.
MSIT_API size_t msit_stream_error(const msit_client* client, char* text,
                                  size_t text_bytes) MSIT_NOEXCEPT;

// Copies the name of the run into `text`, in the way of msit_stream_error: the
// name given to msit_open, or the one that MSIT_IF_EXISTS_NEW chose.
MSIT_API size_t msit_run_name(const msit_client* client, char* text,
                              size_t text_bytes) MSIT_NOEXCEPT;

// Flushes, ends the stream and stops the client's threads. What is not
// acknowledged after `timeout_us` is dropped and counted. Later records are
// refused with CLOSED. Closing again does nothing. See reserve.h, too.
//
// Blocks for at most `timeout_us`. If everything is acknowledged in that time,
// it takes up to one second more to end the stream in good order. A connection
// that cannot be ended by then is freed in the background.
//
// Errors: as msit_flush. INTERRUPTED: the client is closed all the same, as if
// the time had run out.
MSIT_API msit_code msit_close(msit_client* client,
                              int64_t timeout_us) MSIT_NOEXCEPT;

// Destroys the client. Closes it first, with a timeout of 0, if that was not
// done. No other call may use it then; reservations stay valid. NULL does
// nothing.
MSIT_API void msit_free(msit_client* client) MSIT_NOEXCEPT;

// Returns a description of the last failure in this thread; never NULL. Valid
// until the next call of this library in this thread.
MSIT_API const char* msit_last_error(void) MSIT_NOEXCEPT;

// Returns the version of the library, such as "0.1.0".
MSIT_API const char* msit_version(void) MSIT_NOEXCEPT;

// Returns the size of one element in bytes, or 0 if `dtype` is no msit_dtype.
MSIT_API size_t msit_dtype_bytes(int32_t dtype) MSIT_NOEXCEPT;

// Returns the name that torch uses, such as "bfloat16"; NULL if `dtype` is no
// msit_dtype.
MSIT_API const char* msit_dtype_name(int32_t dtype) MSIT_NOEXCEPT;

// Returns the msit_dtype of that name, or MSIT_DTYPE_UNSPECIFIED.
MSIT_API int32_t msit_dtype_from_name(const char* name) MSIT_NOEXCEPT;

#ifdef __cplusplus
}
#endif
