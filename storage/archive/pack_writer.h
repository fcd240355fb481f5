// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/object_uploader.h"

namespace msitd::storage {

// Concatenates pieces of bytes into objects of about kPackedBytes, whose names
// contain their number and their hash. Thread-compatible.
class ObjectPacker {
 public:
  // Size at which an object is full; the last piece may exceed it.
  static constexpr uint64_t kPackedBytes = uint64_t{32} << 20;

  // `kind` is the prefix of the names. `uploader` must outlive this object.
  ObjectPacker(std::string kind, std::string folder, ObjectUploader& uploader);

  // Returns where the piece will be stored.
  absl::StatusOr<PackPlace> Add(std::span<const std::byte> piece,
                                StopCheck stop);
  // Sends the remaining data.
  absl::Status Finish(StopCheck stop);

  const std::vector<ArchiveObject>& objects() const { return objects_; }

 private:
  const std::string kind_;
  const std::string folder_;
  ObjectUploader& uploader_;
  std::string bytes_;
  std::vector<ArchiveObject> objects_;
};

// Returns the description of the object with the contents `bytes`.
ArchiveObject NameObject(std::string_view kind, std::string_view bytes);

// Remembers the location of bytes by their hash, so that equal bytes are packed
// only once.
class PackedParts {
 public:
  std::optional<PackPlace> Find(const ContentHash& hash, uint64_t bytes) const;
  void Add(const ContentHash& hash, uint64_t bytes, const PackPlace& place);
  size_t size() const { return places_.size(); }

 private:
  struct Key {
    ContentHash hash;
    uint64_t bytes = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return key.hash.low ^ key.bytes; }
  };
  std::unordered_map<Key, PackPlace, KeyHash> places_;
};

}  // namespace msitd::storage
