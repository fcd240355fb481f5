// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/acl/dump_bytes.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace msitd::acl {
namespace {

class PieceSource final : public formats::ByteSource {
 public:
  PieceSource(DumpBytes::Pieces pieces, uint64_t size)
      : pieces_(std::move(pieces)), size_(size) {}

  uint64_t size() const override { return size_; }

  absl::Status ReadAt(uint64_t offset,
                      std::span<std::byte> out) const override {
    if (!Has(offset, out.size())) {
      return absl::DataLossError("the file ends before");
    }
    if (out.empty()) return absl::OkStatus();
    // The pieces have no gap, so one begins at or before `offset`.
    for (auto at = std::prev(pieces_.upper_bound(offset)); !out.empty(); ++at) {
      const DumpBytes::Piece& piece = at->second;
      const size_t skipped = offset - at->first;
      const size_t taken = std::min(piece.size - skipped, out.size());
      std::memcpy(out.data(), piece.memory.get() + piece.begin + skipped,
                  taken);
      out = out.subspan(taken);
      offset += taken;
    }
    return absl::OkStatus();
  }

 private:
  const DumpBytes::Pieces pieces_;
  const uint64_t size_;
};

}  // namespace

void DumpBytes::Cut(uint64_t begin, uint64_t end) {
  auto at = pieces_.upper_bound(begin);
  if (at != pieces_.begin()) --at;
  while (at != pieces_.end() && at->first < end) {
    const uint64_t first = at->first;
    const Piece piece = at->second;
    const uint64_t last = first + piece.size;
    if (last <= begin) {
      ++at;
      continue;
    }
    at = pieces_.erase(at);
    if (first < begin) {
      pieces_[first] = {piece.memory, piece.begin, begin - first};
    }
    if (last > end) {
      pieces_[end] = {piece.memory, piece.begin + (end - first), last - end};
      break;
    }
  }
}

void DumpBytes::Put(uint64_t offset, std::shared_ptr<const std::byte[]> memory,
                    size_t size) {
  end_ = std::max(end_, offset + size);
  if (size == 0) return;
  Cut(offset, offset + size);
  pieces_[offset] = {std::move(memory), 0, size};
  for (;;) {
    const auto next = pieces_.upper_bound(prefix_);
    if (next == pieces_.begin()) return;
    const auto& [first, piece] = *std::prev(next);
    if (first + piece.size <= prefix_) return;
    prefix_ = first + piece.size;
  }
}

std::shared_ptr<const formats::ByteSource> DumpBytes::TakePrefix() {
  auto source =
      std::make_shared<PieceSource>(std::exchange(pieces_, {}), prefix_);
  return source;
}

}  // namespace msitd::acl
