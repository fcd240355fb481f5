// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "msit.h"

// Records whose bytes are not on the host yet, such as tensors on an
// accelerator. What msit.h says of all functions holds here too.

#ifdef __cplusplus
extern "C" {
#endif

// A record whose bytes come later. Made by msit_reserve, ended by msit_publish.
typedef struct msit_reservation msit_reservation;

// A piece of memory.
typedef struct msit_span {
  void* data;
  size_t bytes;
} msit_span;

// Begins a record whose bytes are not there yet, such as those of a tensor on
// an accelerator, and stores a reservation of memory for them in
// `*reservation`. The caller has them written there, by whatever means and
// thread, and calls msit_publish when they are all there.
//
// All but the bytes is as for msit_record, and is settled when the call
// returns: what the capture policy asks for, the token, the number of the call,
// and the place among the records of the thread. `data` and `byte_strides` of
// the tensor are not looked at: its bytes lie row-major without gaps. If there
// is nothing to write, `*reservation` is NULL and the call has done what
// msit_record would do: the policy does not ask for the tensor, it has become
// an alias, or it has no bytes.
//
// The daemon gets nothing of the record, nor of what is recorded after it,
// before msit_publish. So msit_flush waits for open reservations as it waits
// for the daemon, and records wait for room that they take. A thread that
// reserves more than the client has memory and publishes none of it waits in
// vain. One reservation has at most half of the memory of the client, and at
// most 32 MiB.
//
// Where the policy asks for a summary, the bytes do not go to the daemon: they
// go to other memory, of 32 MiB in all, and msit_publish reduces them.
//
// Errors: TOO_LARGE. INVALID_ARGUMENT, also of what is no tensor. DROPPED,
// INTERRUPTED, CLOSED, FORKED and NO_MEMORY: the record counts as dropped.
// `*reservation` is NULL then.
MSIT_API msit_code msit_reserve(msit_client* client, const msit_tensor* tensor,
                                msit_reservation** reservation) MSIT_NOEXCEPT;

// Stores in `*spans` where the bytes of the tensor go, one span behind the
// other, and returns how many spans there are. They are valid until
// msit_publish, even if the client is closed or freed before that.
MSIT_API size_t msit_spans(const msit_reservation* reservation,
                           const msit_span** spans) MSIT_NOEXCEPT;

// Ends a reservation and frees it; nobody may use its memory afterwards. If
// `is_filled` is 0, the record is given up: it counts as dropped, and none of
// its bytes is shown anywhere. Any thread may call this, once; it never waits.
//
// A reservation that is still open when half of the time of msit_close is over
// is withdrawn by that: it counts as dropped, and so do records that are
// aliases of it. The other half of the time is for the records after it. A
// reservation that was withdrawn has to be published all the same, which frees
// the memory of a client that was freed.
//
// Errors: CLOSED, DROPPED: the record was dropped and counted before. FORKED:
// the reservation belongs to the parent process, and is leaked.
// INVALID_ARGUMENT if `reservation` is NULL.
MSIT_API msit_code msit_publish(msit_reservation* reservation,
                                int32_t is_filled) MSIT_NOEXCEPT;

// Stores in `spans` the memory that reservations lie in, as far as it stays
// where it is, so that a driver can pin it; at most `span_count` pieces.
// Returns how many there are, at most 2. There is none before it is needed, and
// none of the first kind without a daemon that shares memory: reservations then
// lie in memory that comes and goes. The pieces are valid until the client is
// freed and all its reservations are published.
MSIT_API size_t msit_memory(const msit_client* client, msit_span* spans,
                            size_t span_count) MSIT_NOEXCEPT;

#ifdef __cplusplus
}
#endif
