// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/pack_writer.h"

#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::storage {

ArchiveObject NameObject(std::string_view kind, std::string_view bytes) {
  ArchiveObject object;
  object.bytes = bytes.size();
  object.hash = chunk::HashBytes(std::as_bytes(std::span(bytes)));
  object.name = fmt::format("{}-{}", kind, HashText(object.hash));
  return object;
}

ObjectPacker::ObjectPacker(std::string kind, std::string folder,
                           ObjectUploader& uploader)
    : kind_(std::move(kind)), folder_(std::move(folder)), uploader_(uploader) {}

absl::StatusOr<PackPlace> ObjectPacker::Add(std::span<const std::byte> piece,
                                            StopCheck stop) {
  if (bytes_.empty()) bytes_.reserve(kPackedBytes + piece.size());
  const PackPlace place{static_cast<uint32_t>(objects_.size()), bytes_.size()};
  bytes_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  if (bytes_.size() >= kPackedBytes) MSITD_RETURN_IF_ERROR(Finish(stop));
  return place;
}

absl::Status ObjectPacker::Finish(StopCheck stop) {
  if (bytes_.empty()) return absl::OkStatus();
  objects_.push_back(
      NameObject(fmt::format("{}-{:06}", kind_, objects_.size()), bytes_));
  std::string bytes = std::move(bytes_);
  bytes_.clear();
  return uploader_.Add(folder_, objects_.back(), std::move(bytes), stop);
}

std::optional<PackPlace> PackedParts::Find(const ContentHash& hash,
                                           uint64_t bytes) const {
  const auto it = places_.find(Key{hash, bytes});
  if (it == places_.end()) return std::nullopt;
  return it->second;
}

void PackedParts::Add(const ContentHash& hash, uint64_t bytes,
                      const PackPlace& place) {
  places_.emplace(Key{hash, bytes}, place);
}

}  // namespace msitd::storage
