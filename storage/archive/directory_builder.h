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
  // Adds the next coordinate. It must be added before the entries at this
  // coordinate, but may also be added before those of earlier coordinates.
  void AddCoordinate(const Coordinate& coordinate);

  // Adds an entry to the current block; false if the coordinate of the entry
  // was not added, or is before that of the previous entry.
  bool AddEntry(const TensorKey& key);

  // Ends the current block, which is at `place` in the indexes.
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
  std::set<uint32_t> ops_;  // Ops of the current block.
};

}  // namespace msitd::storage
