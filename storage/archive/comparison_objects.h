// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/object_store.h"
#include "storage/face/run_reader.h"

// Comparisons beside an archived run (docs/format/archive.md): of each an
// object that is written last and names those with its rows. Documents and rows
// are opaque, as they are to the store.
namespace msitd::storage {

inline constexpr uint64_t kComparisonBytesMax = uint64_t{16} << 20;
// Of one run.
inline constexpr size_t kArchivedComparisonsMax = size_t{1} << 16;

struct ArchivedComparison {
  uint64_t id = 0;  // Of the store that it was made in.
  std::string document;
  uint64_t row_count = 0;
  std::vector<ArchiveObject> rows;
};

std::string EncodeComparison(const ArchivedComparison& comparison);
// Reads what anybody may have written.
//
// Errors: DATA_LOSS for what is damaged; FAILED_PRECONDITION for a later
// format.
absl::StatusOr<ArchivedComparison> DecodeComparison(std::string_view bytes);

// Writes a comparison beside the run of that name. `read` gives rows from a
// number on, at least one while there are any; there are `row_count`. What is
// there is not sent again. Returns how many bytes were.
//
// Errors: those of the store and of `read`; RESOURCE_EXHAUSTED for a document
// that is too large.
absl::StatusOr<uint64_t> WriteComparison(
    ObjectStore& store, std::string_view run, ArchivedComparison comparison,
    absl::FunctionRef<absl::StatusOr<std::vector<std::string>>(uint64_t)> read,
    StopCheck stop);

// True for the name of an object that holds a comparison.
bool IsComparisonObject(std::string_view name);

// The objects of the comparisons beside a run, in the order of their names.
//
// Errors: RESOURCE_EXHAUSTED above kArchivedComparisonsMax.
absl::StatusOr<std::vector<std::string>> ListComparisonObjects(
    ObjectStore& store, std::string_view run);

// Errors: DATA_LOSS for an object that its name does not belong to; those of
// DecodeComparison.
absl::StatusOr<ArchivedComparison> ReadComparison(ObjectStore& store,
                                                  std::string_view run,
                                                  const std::string& object);

// Hands all rows on, some thousand at a time and in their order.
//
// Errors: DATA_LOSS for what is damaged or missing; those of `take`.
absl::Status ReadComparisonRows(
    ObjectStore& store, std::string_view run,
    const ArchivedComparison& comparison,
    absl::FunctionRef<absl::Status(std::span<const std::string>)> take);

}  // namespace msitd::storage
