// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "msit.h"

// Records whose bytes are not on the host yet, such as tensors on an
// accelerator. The statements about all functions in msit.h also apply here.

#ifdef __cplusplus
extern "C" {
#endif

// A record whose bytes are written later. Created by msit_reserve and ended by
// msit_publish.
typedef struct msit_reservation msit_reservation;

// A piece of memory.
typedef struct msit_span {
  void* data;
  size_t bytes;
} msit_span;

// Begins a record whose bytes do not exist yet, such as those of a tensor on an
// accelerator, and stores a reservation of memory for them in `*reservation`.
// The caller lets any thread or device write the bytes there, and calls
// msit_publish when all of them have been written.
//
// Everything except the bytes is handled as in msit_record, and is final when
// the call returns: the level in the capture policy, the token, the number of
// the call, and the position among the records of the thread. `data` and
// `byte_strides` of the tensor are ignored: its bytes are written in row-major
// order without gaps. If there is nothing to write, `*reservation` is NULL and
// the call has the effect of msit_record: the policy does not request the
// tensor, it has become an alias, or it has no bytes.
//
// The daemon receives neither the record nor the records after it before
// msit_publish. Therefore, msit_flush waits for open reservations as it waits
// for the daemon, and records wait for memory that reservations hold. A thread
// that reserves more than the client's memory and publishes none of it waits in
// vain. One reservation has at most half of the memory of the client, and at
// most 32 MiB.
//
// If the policy requests a summary, the bytes are not sent to the daemon: they
// are written to other memory, of 32 MiB in all, and msit_publish reduces them.
//
// Errors: TOO_LARGE. INVALID_ARGUMENT, also if `tensor` is not a tensor.
// DROPPED, INTERRUPTED, CLOSED, FORKED and NO_MEMORY: the record counts as
// dropped. `*reservation` is NULL then.
MSIT_API msit_code msit_reserve(msit_client* client, const msit_tensor* tensor,
                                msit_reservation** reservation) MSIT_NOEXCEPT;

// Stores in `*spans` the memory for the bytes of the tensor, as consecutive
// spans, and returns the number of spans. They are valid until msit_publish,
// even if the client is closed or freed before that.
MSIT_API size_t msit_spans(const msit_reservation* reservation,
                           const msit_span** spans) MSIT_NOEXCEPT;

// Ends a reservation and frees it. Its memory must not be used afterwards. If
// `is_filled` is 0, the record is given up: it counts as dropped, and none of
// its bytes is shown anywhere. Any thread may call this, once. The call never
// waits.
//
// A reservation that is still open after half of the timeout of msit_close is
// withdrawn: it counts as dropped, and so do records that are aliases of it.
// The other half of the timeout is for the records after it. A reservation that
// was withdrawn must still be published, which frees the memory of a client
// that was freed.
//
// Errors: CLOSED, DROPPED: the record was dropped and counted before. FORKED:
// the reservation belongs to the parent process, and is leaked.
// INVALID_ARGUMENT if `reservation` is NULL.
MSIT_API msit_code msit_publish(msit_reservation* reservation,
                                int32_t is_filled) MSIT_NOEXCEPT;

// Stores in `spans` the memory of reservations whose address does not change,
// so that a driver can pin it, as at most `span_count` pieces. Returns the
// number of pieces, at most 2: the memory shared with the daemon, if there is
// any, and the memory for summaries, once it is needed. Without shared memory,
// reservations use memory that is allocated and freed repeatedly. The pieces
// are valid until the client is freed and all its reservations are published.
MSIT_API size_t msit_memory(const msit_client* client, msit_span* spans,
                            size_t span_count) MSIT_NOEXCEPT;

#ifdef __cplusplus
}
#endif
