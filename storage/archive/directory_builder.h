// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "protos/base/resource_name.h"
#include "storage/archive/archive_format.h"
#include "storage/face/types.h"

namespace msitd::storage {

// Builds the directory of an archive from its entries, which the caller adds in
// primary order, block by block. Thread-compatible.
class DirectoryBuilder {
 public:
  // Adds the next coordinate. It precedes the entries that lie at it, but not
  // necessarily those of other coordinates.
  void AddCoordinate(const Coordinate& coordinate);

  // Adds an entry to the current block; false if the entry is at no coordinate
  // from that of the last entry on.
  bool AddEntry(const TensorKey& key);

  // Ends the current block, which lies at `place` among the indexes.
  void EndBlock(const PackPlace& place, std::string_view bytes,
                uint64_t entry_count);

  // The caller sets the placements.
  ArchiveDirectory& directory() { return directory_; }

 private:
  uint32_t NumberOf(const std::string& device);

  ArchiveDirectory directory_;
  std::map<std::string, uint32_t> numbers_;
  // The coordinate of the last entry.
  size_t group_ = 0;
  size_t token_ = 0;
  std::set<uint32_t> ops_;  // Of the current block.
};

}  // namespace msitd::storage
