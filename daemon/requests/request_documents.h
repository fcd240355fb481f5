// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/selector.h"
#include "protos/os/aligned_buffer.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

// The documents by which ranks report the requests of their tokens, and where
// these are in caches; see protos/base/request.h and
// protos/base/cache_places.h.
namespace msitd::requests {

// Returns the text of a request document; empty if it is no longer stored, is
// too long, or is not UTF-8. `buffer` is used for reading.
//
// Errors: UNAVAILABLE if the run cannot be read at present.
absl::StatusOr<std::string> ReadRequestText(storage::RunReader& run,
                                            const storage::TensorInfo& document,
                                            AlignedBuffer& buffer);

// Returns the id of the request that a document reports.
std::string RequestIdOf(const storage::TensorInfo& document);

// The same for a document of a cache, whose text may be longer.
absl::StatusOr<std::string> ReadCacheText(storage::RunReader& run,
                                          const storage::TensorInfo& document,
                                          AlignedBuffer& buffer);
std::string CacheRequestIdOf(const storage::TensorInfo& document);

// Visits the request documents of the selected ranks and tokens, by rank, then
// token, then in the order of their first appearance in the store. Other
// fields of the selector are ignored. Stops if `visit` returns false.
//
// Errors: those of `stop`, of `visit` and of the reader.
absl::Status VisitRequestDocuments(
    storage::RunReader& run, Selector selector, storage::StopCheck stop,
    absl::FunctionRef<absl::StatusOr<bool>(const storage::TensorInfo&)> visit);

// Visits the documents of caches in the same way.
absl::Status VisitCacheDocuments(
    storage::RunReader& run, Selector selector, storage::StopCheck stop,
    absl::FunctionRef<absl::StatusOr<bool>(const storage::TensorInfo&)> visit);

}  // namespace msitd::requests
