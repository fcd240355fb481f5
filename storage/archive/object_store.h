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

// Maximum size of an object, which a single request can write.
inline constexpr uint64_t kObjectBytesMax = uint64_t{256} << 20;

// Contents of a folder of an object store.
struct ObjectList {
  std::vector<std::string> folders;  // Names below the folder, without `/`.
  std::vector<std::string> objects;
};

struct ObjectStat {
  uint64_t bytes = 0;
  // Seconds since the Unix epoch, by the clock of the store; 0 if it does not
  // report the time.
  int64_t modify_time_s = 0;
};

// Objects below one location, identified by keys such as `run/pack-000001`:
// components of [A-Za-z0-9._-] that do not begin with a dot, separated by `/`.
// Objects are created and removed as a whole; partial objects are never
// visible. Thread-safe; calls block.
//
// Errors: NOT_FOUND if the object does not exist; PERMISSION_DENIED if access
// is denied; RESOURCE_EXHAUSTED with DISK_FULL if there is no space;
// UNAVAILABLE for temporary errors, after the store has retried for some time;
// CANCELLED after it was stopped. Messages never contain secrets.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // The URL of the location, for users.
  virtual const std::string& url() const = 0;

  virtual absl::StatusOr<ObjectStat> Stat(std::string_view key) = 0;

  // Fills `out` with the bytes starting at `offset`. DATA_LOSS if the object is
  // too short.
  virtual absl::Status Read(std::string_view key, uint64_t offset,
                            std::span<std::byte> out) = 0;

  // Returns a whole object. DATA_LOSS if it is larger than `bytes_max`.
  virtual absl::StatusOr<std::string> Get(std::string_view key,
                                          uint64_t bytes_max) = 0;

  // Writes an object, replacing an existing one. Durable on return.
  virtual absl::Status Put(std::string_view key,
                           std::span<const std::byte> bytes) = 0;

  // As Put, but returns ALREADY_EXISTS if the object exists. If several callers
  // try concurrently, one succeeds, provided that the server supports this: see
  // HasExclusiveWrites. An attempt whose response was lost may have succeeded
  // although a later one returns ALREADY_EXISTS: the caller must examine the
  // existing object.
  virtual absl::Status PutIfAbsent(std::string_view key,
                                   std::span<const std::byte> bytes) = 0;

  // OK if the object did not exist.
  virtual absl::Status Delete(std::string_view key) = 0;

  // Returns the direct contents of a folder, ordered by name; an empty name
  // means the location itself. Omits names that are not components of a key.
  // RESOURCE_EXHAUSTED above kListedMax.
  virtual absl::StatusOr<ObjectList> List(std::string_view folder) = 0;
  static constexpr size_t kListedMax = size_t{1} << 20;
};

// True if `key` is valid as defined at ObjectStore.
bool IsObjectKey(std::string_view key);

// Writes a small object twice with PutIfAbsent, and removes it. Returns false
// if the second write succeeds, or if the store does not support such writes.
// Some servers ignore `If-None-Match`.
absl::StatusOr<bool> HasExclusiveWrites(ObjectStore& store);
// Prefix of the names of these objects, which are at the location itself.
inline constexpr std::string_view kProbePrefix = "probe-";

}  // namespace msitd::storage
