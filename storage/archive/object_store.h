// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace msitd::storage {

// The most that one object may have, so that one request writes it.
inline constexpr uint64_t kObjectBytesMax = uint64_t{256} << 20;

// What a folder of an object store holds.
struct ObjectList {
  std::vector<std::string> folders;  // Names below the folder, without `/`.
  std::vector<std::string> objects;
};

struct ObjectStat {
  uint64_t bytes = 0;
  // Seconds since the Unix epoch, by the clock of the store; 0 if it does not
  // say.
  int64_t modify_time_s = 0;
};

// Objects below one place, by keys such as `run/pack-000001`: components of
// [A-Za-z0-9._-], none of which begins with a dot, parted by `/`. Whole objects
// come and go; nobody sees half of one. Thread-safe; calls block.
//
// NOT_FOUND if there is no such object; PERMISSION_DENIED if the place is not
// ours to use; RESOURCE_EXHAUSTED with DISK_FULL if it is full; UNAVAILABLE for
// what may be there later, after the store has tried again for a while;
// CANCELLED once it is to stop. No error shows a secret.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // For people: the URL of the place.
  virtual const std::string& url() const = 0;

  virtual absl::StatusOr<ObjectStat> Stat(std::string_view key) = 0;

  // Fills `out` with the bytes from `offset` on. DATA_LOSS if the object ends
  // before.
  virtual absl::Status Read(std::string_view key, uint64_t offset,
                            std::span<std::byte> out) = 0;

  // Returns a whole object. DATA_LOSS if it has more than `bytes_max`.
  virtual absl::StatusOr<std::string> Get(std::string_view key,
                                          uint64_t bytes_max) = 0;

  // Writes an object, durable on return, in place of one that may be there.
  virtual absl::Status Put(std::string_view key,
                           std::span<const std::byte> bytes) = 0;

  // The same, but ALREADY_EXISTS if there is one. Of several who try at once
  // one succeeds, provided that the server does what it is asked for: see
  // HasExclusiveWrites. An attempt whose answer was lost may have succeeded
  // though a later one says ALREADY_EXISTS: the caller looks at what is there.
  virtual absl::Status PutIfAbsent(std::string_view key,
                                   std::span<const std::byte> bytes) = 0;

  // OK if it was not there.
  virtual absl::Status Delete(std::string_view key) = 0;

  // Returns what lies directly in a folder, in the order of names; empty names
  // the place itself. Names that are no components of a key are left out.
  // RESOURCE_EXHAUSTED above kListedMax.
  virtual absl::StatusOr<ObjectList> List(std::string_view folder) = 0;
  static constexpr size_t kListedMax = size_t{1} << 20;
};

// True if `key` is one as ObjectStore says.
bool IsObjectKey(std::string_view key);

// Writes a small object twice with PutIfAbsent, and removes it: false if the
// second write succeeds, or if the store does not know such writes. Some
// servers ignore `If-None-Match`.
absl::StatusOr<bool> HasExclusiveWrites(ObjectStore& store);
// Begins the names of these objects, which lie at the place itself.
inline constexpr std::string_view kProbePrefix = "probe-";

}  // namespace msitd::storage
