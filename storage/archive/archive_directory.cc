// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <set>
#include <span>

#include "protos/base/byte_codec.h"
#include "protos/base/limits.h"
#include "protos/base/placement.h"
#include "protos/base/utf8.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "storage/archive/archive_format.h"
#include "storage/batch/entry_batch.h"

namespace msitd::storage {
namespace {

constexpr std::string_view kDirectoryMagic = "msitd directory\n";
constexpr size_t kDevicesMax = size_t{1} << 20;

absl::Status BadDirectory(std::string_view what) {
  return MakeStatus(absl::StatusCode::kDataLoss, "the directory {}", what);
}

bool GetName(ByteReader& in, size_t bytes_max, std::string& out) {
  out = in.GetText();
  return in.ok() && !out.empty() && out.size() <= bytes_max &&
         IsValidUtf8(out) && out.find('\0') == std::string::npos;
}

// Each entry has at least one byte, so a larger count is invalid.
bool IsCount(uint64_t count, const ByteReader& in) {
  return in.ok() && count <= in.left();
}

bool GetGroup(ByteReader& in, ArchiveGroup& group, uint64_t& entry_count) {
  const uint64_t rank = in.GetVarint();
  const uint64_t device = in.GetVarint();
  const uint64_t count = in.GetVarint();
  if (rank > kRankMax || !IsCount(count, in) || count == 0) return false;
  group.rank = static_cast<int32_t>(rank);
  group.device = static_cast<uint32_t>(device);
  int64_t token = -1;
  group.tokens.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t step = in.GetVarint();
    if (step > static_cast<uint64_t>(kTokenMax - token - 1)) return false;
    token += static_cast<int64_t>(step) + 1;
    const uint64_t entries = in.GetVarint();
    if (!in.ok() || entries > kArchiveEntriesMax) return false;
    entry_count += entries;
    group.tokens.push_back({token, entries});
  }
  return entry_count <= kArchiveEntriesMax;
}

bool GetBlock(ByteReader& in, ArchiveBlock& block) {
  block.index = static_cast<uint32_t>(in.GetVarint());
  block.offset = in.GetVarint();
  block.bytes = in.GetVarint();
  block.hash.low = in.GetFixed64();
  block.hash.high = in.GetFixed64();
  block.entry_count = in.GetVarint();
  const uint64_t count = in.GetVarint();
  if (!IsCount(count, in) || count > block.entry_count) return false;
  block.ops.reserve(count);
  uint64_t mark = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t step = in.GetVarint();
    if (step > std::numeric_limits<uint32_t>::max() - mark) return false;
    mark += step;
    block.ops.push_back(static_cast<uint32_t>(mark));
  }
  return in.ok();
}

// True if the groups are in primary order: ranks ascend, and no rank has a
// device twice.
bool IsInOrder(const ArchiveDirectory& directory) {
  std::set<uint32_t> devices;
  for (size_t i = 0; i < directory.groups.size(); ++i) {
    const ArchiveGroup& group = directory.groups[i];
    if (group.device >= directory.devices.size()) return false;
    const bool is_same = i > 0 && directory.groups[i - 1].rank == group.rank;
    if (i > 0 && directory.groups[i - 1].rank > group.rank) return false;
    if (!is_same) devices.clear();
    if (!devices.insert(group.device).second) return false;
  }
  return true;
}

}  // namespace

uint32_t OpMark(std::string_view op) {
  return static_cast<uint32_t>(
      chunk::HashBytes(std::as_bytes(std::span(op))).low);
}

std::string EncodeDirectory(const ArchiveDirectory& directory) {
  std::string bytes(kDirectoryMagic);
  ByteWriter out(bytes);
  for (const auto* const names : {&directory.devices, &directory.placements}) {
    out.PutVarint(names->size());
    for (const std::string& name : *names) out.PutText(name);
  }
  out.PutVarint(directory.groups.size());
  for (const ArchiveGroup& group : directory.groups) {
    out.PutVarint(static_cast<uint64_t>(group.rank));
    out.PutVarint(group.device);
    out.PutVarint(group.tokens.size());
    int64_t last = -1;
    for (const ArchiveGroup::Token& token : group.tokens) {
      out.PutVarint(static_cast<uint64_t>(token.token - last - 1));
      out.PutVarint(token.entry_count);
      last = token.token;
    }
  }
  out.PutVarint(directory.blocks.size());
  for (const ArchiveBlock& block : directory.blocks) {
    out.PutVarint(block.index);
    out.PutVarint(block.offset);
    out.PutVarint(block.bytes);
    out.PutFixed64(block.hash.low);
    out.PutFixed64(block.hash.high);
    out.PutVarint(block.entry_count);
    out.PutVarint(block.ops.size());
    uint32_t last = 0;
    for (const uint32_t mark : block.ops) {
      out.PutVarint(mark - last);
      last = mark;
    }
  }
  return bytes;
}

absl::StatusOr<ArchiveDirectory> DecodeDirectory(
    std::string_view bytes, const ArchiveManifest& manifest) {
  if (!bytes.starts_with(kDirectoryMagic))
    return BadDirectory("is none of msitd");
  ByteReader in(bytes.substr(kDirectoryMagic.size()));
  ArchiveDirectory out;
  const uint64_t device_count = in.GetVarint();
  if (!IsCount(device_count, in) || device_count > kDevicesMax) {
    return BadDirectory("has impossible devices");
  }
  out.devices.resize(device_count);
  for (std::string& device : out.devices) {
    if (!GetName(in, kDeviceBytesMax, device)) {
      return BadDirectory("has an impossible device");
    }
  }
  const uint64_t placement_count = in.GetVarint();
  if (!IsCount(placement_count, in)) {
    return BadDirectory("has impossible placements");
  }
  out.placements.resize(placement_count);
  for (std::string& placement : out.placements) {
    if (!GetName(in, kPlacementBytesMax, placement) ||
        !ParsePlacement(placement).has_value()) {
      return BadDirectory("has an impossible placement");
    }
  }
  const uint64_t group_count = in.GetVarint();
  if (!IsCount(group_count, in)) return BadDirectory("has impossible groups");
  out.groups.resize(group_count);
  uint64_t entry_count = 0;
  for (ArchiveGroup& group : out.groups) {
    if (!GetGroup(in, group, entry_count)) {
      return BadDirectory("has an impossible group of tokens");
    }
  }
  if (!IsInOrder(out) || entry_count != manifest.entry_count) {
    return BadDirectory("does not have the entries that the manifest says");
  }
  const uint64_t block_count = in.GetVarint();
  if (!IsCount(block_count, in)) return BadDirectory("has impossible blocks");
  out.blocks.resize(block_count);
  uint64_t block_entries = 0;
  for (ArchiveBlock& block : out.blocks) {
    if (!GetBlock(in, block) || block.index >= manifest.indexes.size() ||
        block.bytes > kEntryBatchBytesMax || block.entry_count == 0 ||
        block.entry_count > kBatchEntriesMax ||
        block.offset > manifest.indexes[block.index].bytes ||
        block.bytes > manifest.indexes[block.index].bytes - block.offset) {
      return BadDirectory("has an impossible block");
    }
    block_entries += block.entry_count;
  }
  if (!in.done() || block_entries != entry_count) {
    return BadDirectory("does not have the entries that the manifest says");
  }
  return out;
}

}  // namespace msitd::storage
