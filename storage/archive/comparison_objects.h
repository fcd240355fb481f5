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

// Comparisons stored with an archived run (docs/format/archive.md). Each has an
// object that is written last and names the objects with its rows. Documents
// and rows are not interpreted here, as in the store.
namespace msitd::storage {

inline constexpr uint64_t kComparisonBytesMax = uint64_t{16} << 20;
// Maximum number of comparisons of one run.
inline constexpr size_t kArchivedComparisonsMax = size_t{1} << 16;

struct ArchivedComparison {
  uint64_t id = 0;  // Id in the store where the comparison was created.
  std::string document;
  uint64_t row_count = 0;
  std::vector<ArchiveObject> rows;
};

std::string EncodeComparison(const ArchivedComparison& comparison);
// Decodes untrusted bytes.
//
// Errors: DATA_LOSS for damaged bytes; FAILED_PRECONDITION for a later format.
absl::StatusOr<ArchivedComparison> DecodeComparison(std::string_view bytes);

// Writes a comparison to the folder of the run with that name. `read` returns
// rows starting at a number, at least one as long as there are more; the total
// is `row_count`. Objects that already exist are not sent again. Returns the
// number of bytes sent.
//
// Errors: those of the store and of `read`; RESOURCE_EXHAUSTED for a document
// that is too large.
absl::StatusOr<uint64_t> WriteComparison(
    ObjectStore& store, std::string_view run, ArchivedComparison comparison,
    absl::FunctionRef<absl::StatusOr<std::vector<std::string>>(uint64_t)> read,
    StopCheck stop);

// True for the name of an object that holds a comparison.
bool IsComparisonObject(std::string_view name);

// Returns the names of the objects of a run's comparisons, ordered by name.
//
// Errors: RESOURCE_EXHAUSTED above kArchivedComparisonsMax.
absl::StatusOr<std::vector<std::string>> ListComparisonObjects(
    ObjectStore& store, std::string_view run);

// Errors: DATA_LOSS for an object that does not match its name; those of
// DecodeComparison.
absl::StatusOr<ArchivedComparison> ReadComparison(ObjectStore& store,
                                                  std::string_view run,
                                                  const std::string& object);

// Passes all rows to `take` in order, some thousand at a time.
//
// Errors: DATA_LOSS for damaged or missing objects; those of `take`.
absl::Status ReadComparisonRows(
    ObjectStore& store, std::string_view run,
    const ArchivedComparison& comparison,
    absl::FunctionRef<absl::Status(std::span<const std::string>)> take);

}  // namespace msitd::storage
