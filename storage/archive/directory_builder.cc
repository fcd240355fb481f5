// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/directory_builder.h"

#include <span>

#include "protos/chunk/chunk.h"

namespace msitd::storage {

void DirectoryBuilder::AddCoordinate(const Coordinate& coordinate) {
  const uint32_t device = NumberOf(coordinate.device);
  std::vector<ArchiveGroup>& groups = directory_.groups;
  if (groups.empty() || groups.back().rank != coordinate.rank ||
      groups.back().device != device) {
    groups.push_back({coordinate.rank, device, {}});
  }
  groups.back().tokens.push_back({coordinate.token, 0});
}

bool DirectoryBuilder::AddEntry(const TensorKey& key) {
  while (group_ < directory_.groups.size()) {
    ArchiveGroup& group = directory_.groups[group_];
    if (group.rank == key.rank &&
        directory_.devices[group.device] == key.device) {
      while (token_ < group.tokens.size() &&
             group.tokens[token_].token < key.token) {
        ++token_;
      }
      if (token_ == group.tokens.size()) return false;
      if (group.tokens[token_].token != key.token) return false;
      ++group.tokens[token_].entry_count;
      ops_.insert(OpMark(key.op));
      return true;
    }
    ++group_;
    token_ = 0;
  }
  return false;
}

void DirectoryBuilder::EndBlock(const PackPlace& place, std::string_view bytes,
                                uint64_t entry_count) {
  ArchiveBlock& block = directory_.blocks.emplace_back();
  block.index = place.pack;
  block.offset = place.offset;
  block.bytes = bytes.size();
  block.hash = chunk::HashBytes(std::as_bytes(std::span(bytes)));
  block.entry_count = entry_count;
  block.ops.assign(ops_.begin(), ops_.end());
  ops_.clear();
}

uint32_t DirectoryBuilder::NumberOf(const std::string& device) {
  const auto [it, is_new] =
      numbers_.emplace(device, static_cast<uint32_t>(numbers_.size()));
  if (is_new) directory_.devices.push_back(device);
  return it->second;
}

}  // namespace msitd::storage
