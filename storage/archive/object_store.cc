// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/object_store.h"

#include <fmt/format.h>

#include <random>

#include "protos/status/status.h"

namespace msitd::storage {

absl::StatusOr<bool> HasExclusiveWrites(ObjectStore& store) {
  std::random_device random;
  const std::string key =
      fmt::format("{}{:08x}{:08x}", kProbePrefix, random(), random());
  const auto write = [&](std::string_view text) {
    return store.PutIfAbsent(key, std::as_bytes(std::span(text)));
  };
  constexpr std::string_view kFirst = "first";
  const absl::Status first = write(kFirst);
  if (absl::IsUnimplemented(first)) return false;
  // If a response is lost, the next attempt fails although the object was
  // written.
  if (!first.ok() && !absl::IsAlreadyExists(first)) return first;
  const absl::Status second = write("second");
  const absl::StatusOr<std::string> there = store.Get(key, kFirst.size());
  // An object that remains only costs space.
  (void)store.Delete(key);
  if (second.ok()) return false;
  if (!absl::IsAlreadyExists(second)) return second;
  // A longer object is the second one.
  if (absl::IsDataLoss(there.status())) return false;
  MSITD_RETURN_IF_ERROR(there.status());
  return *there == kFirst;
}

}  // namespace msitd::storage
