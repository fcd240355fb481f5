// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/file_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "client/foreign/trees/tree.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::msit_command {

uint64_t FileIndex::HashOf(const TensorKey& key, std::string_view device,
                           bool is_shared) const {
  std::string text;
  text.reserve(key.op.size() + device.size() + 64);
  const auto add_number = [&text](int64_t number) {
    text += std::to_string(number);
    text += ' ';
  };
  const auto add_text = [&](std::string_view part) {
    add_number(static_cast<int64_t>(part.size()));
    text += part;
  };
  add_number(has_ranks_ ? key.rank : 0);
  add_number(key.token);
  add_number(key.call);
  add_number(is_shared ? 0 : static_cast<int>(key.io));
  add_text(is_shared ? std::string_view() : std::string_view(key.index));
  add_text(device);
  add_text(key.op);
  return chunk::HashBytes(std::as_bytes(std::span(text))).low;
}

absl::Status FileIndex::Note(const trees::TreeEntry& entry) {
  if (entry.file.empty()) return absl::OkStatus();
  const std::string_view path = entry.file;
  const size_t slash = path.rfind('/');
  const size_t name_begin = slash == std::string_view::npos ? 0 : slash + 1;
  const std::string_view name = path.substr(name_begin);
  if (slots_.size() == kIndexedFilesMax ||
      names_.size() + name.size() > std::numeric_limits<uint32_t>::max()) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "more than {} files of one token, or their names are too "
                      "long",
                      kIndexedFilesMax);
  }
  const auto [folder, is_new] = folder_numbers_.try_emplace(
      std::string(path.substr(0, name_begin)), folders_.size());
  if (is_new) folders_.push_back(folder->first);
  const bool is_shared = entry.key.io == Io::kUnspecified;
  slots_.push_back({HashOf(entry.key, entry.key.device, is_shared),
                    {.folder = folder->second,
                     .name_begin = static_cast<uint32_t>(names_.size()),
                     .name_bytes = static_cast<uint16_t>(name.size()),
                     .is_shared = is_shared}});
  names_ += name;
  is_sorted_ = false;
  return absl::OkStatus();
}

const FileIndex::Slot* FileIndex::FindHash(uint64_t hash) const {
  const auto less = [](const Slot& a, const Slot& b) {
    return a.hash < b.hash;
  };
  if (!is_sorted_) std::stable_sort(slots_.begin(), slots_.end(), less);
  is_sorted_ = true;
  const auto found =
      std::lower_bound(slots_.begin(), slots_.end(), Slot{hash, {}}, less);
  return found != slots_.end() && found->hash == hash ? &*found : nullptr;
}

FileIndex::File FileIndex::Find(const TensorKey& key) const {
  // If a tree does not specify the device, the client determines it.
  for (const std::string_view device :
       {std::string_view(key.device), std::string_view()}) {
    for (const bool is_shared : {true, false}) {
      const Slot* const slot = FindHash(HashOf(key, device, is_shared));
      if (slot == nullptr) continue;
      const FileLocation& place = slot->place;
      return {std::string(folders_[place.folder]) +
                  names_.substr(place.name_begin, place.name_bytes),
              place.is_shared};
    }
  }
  return {};
}

void FileIndex::Clear() {
  slots_.clear();
  is_sorted_ = true;
  folders_.clear();
  folder_numbers_.clear();
  names_.clear();
}

std::string MsitPath(const FileIndex::File& file, const TensorKey& key) {
  if (!file.is_shared) return file.path;
  const bool is_input = key.io == Io::kInput;
  return fmt::format("{},{},{}", file.path, is_input ? "inputs" : "outputs",
                     key.index);
}

}  // namespace msitd::msit_command
