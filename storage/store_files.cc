// SPDX-License-Identifier: Apache-2.0
#include "storage/store_files.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "storage/segment/segment_set.h"
#include "storage/whole_index.h"

namespace msitd::storage {

std::string SegmentDirectory(const std::string& directory) {
  return directory + "/segments";
}

std::string IndexDirectory(const std::string& directory) {
  return directory + "/index";
}

absl::Status CheckNoSegments(Env& env, const std::string& directory) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<SegmentFile> files,
                         ListSegments(env, directory));
  for (const SegmentFile& file : files) {
    if (file.size_bytes == 0) continue;
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "the store has segments, but its index is gone");
  }
  return absl::OkStatus();
}

// When RocksDB opens an index for writing, it removes files that the index does
// not know. If the index is not in the state in which it was left, a rebuild
// may need these files.
absl::Status CheckIndex(const StoreOptions& options, Env& env) {
  const std::string index = IndexDirectory(options.directory);
  const std::string segments = SegmentDirectory(options.directory);
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> names, env.List(index));
  if (std::find(names.begin(), names.end(), "CURRENT") == names.end()) {
    return CheckNoSegments(env, segments);
  }
  const absl::StatusOr<std::unique_ptr<ChunkIndex>> opened =
      ChunkIndex::Open({.directory = index, .read_only = true, .env = &env});
  if (!opened.ok()) {
    // Opening it for writing completes an index whose creation was interrupted
    // by a crash.
    const bool is_half_made = IndexDb::LacksTables(index).value_or(false);
    return is_half_made ? CheckNoSegments(env, segments) : opened.status();
  }
  if ((*opened)->store_id() == 0) return CheckNoSegments(env, segments);
  MSITD_ASSIGN_OR_RETURN(const std::vector<SegmentFile> files,
                         ListSegments(env, segments));
  return CheckIndexIsWhole(**opened, env, files);
}

absl::StatusOr<std::unique_ptr<ChunkIndex>> OpenIndex(
    const StoreOptions& options, Env& env, Ballast& ballast, bool creates) {
  return ChunkIndex::Open(
      {.directory = IndexDirectory(options.directory),
       .write_buffer_bytes = options.index_write_buffer_bytes,
       .cache_bytes = options.index_cache_bytes,
       .creates = creates,
       .env = &env,
       .ballast = &ballast});
}

}  // namespace msitd::storage
