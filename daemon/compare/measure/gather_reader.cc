// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/gather_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Elements whose runs are listed at a time.
constexpr uint64_t kListedElements = kGatherRunsMax;

// Columns of a matrix that are copied together. Each row of them is in one or
// two cache lines.
constexpr size_t kColumns = 16;

// Copies `count` elements of `kWidth` bytes that are `stride` bytes apart.
template <size_t kWidth>
void CopyStrided(const std::byte* from, size_t stride, size_t count,
                 std::byte* to) {
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(to + i * kWidth, from + i * stride, kWidth);
  }
}

// Copies rows of `length` bytes.
void CopyRows(const std::byte* from, size_t stride, size_t length, size_t count,
              std::byte* to) {
  switch (length) {
    case 1:
      return CopyStrided<1>(from, stride, count, to);
    case 2:
      return CopyStrided<2>(from, stride, count, to);
    case 4:
      return CopyStrided<4>(from, stride, count, to);
    case 8:
      return CopyStrided<8>(from, stride, count, to);
    case 16:
      return CopyStrided<16>(from, stride, count, to);
    default:
      for (size_t i = 0; i < count; ++i) {
        std::memcpy(to + i * length, from + i * stride, length);
      }
  }
}

// Copies columns of `count` elements from neighboring places to `to`.
template <size_t kWidth>
void CopyColumnsOf(const std::byte* from, size_t stride, size_t count,
                   std::span<std::byte* const> to) {
  for (size_t i = 0; i < count; ++i, from += stride) {
    for (size_t j = 0; j < to.size(); ++j) {
      std::memcpy(to[j] + i * kWidth, from + j * kWidth, kWidth);
    }
  }
}

}  // namespace

absl::Status GatherReader::Read(uint64_t begin, uint64_t count, uint64_t step,
                                std::span<std::byte> out) {
  MSITD_CHECK(out.size() == count * width_);
  uint64_t done = 0;
  while (done < count) {
    const uint64_t first = done;
    cursors_.clear();
    while (done < count && cursors_.size() < kGatherRunsMax) {
      const uint64_t listed =
          step == 1 ? std::min(count - done, kListedElements) : 1;
      gather_.VisitRuns(begin + done * step, listed, [&](const GatherRun& run) {
        cursors_.push_back({run});
        cursors_.back().run.to += done - first;
      });
      done += listed;
    }
    MSITD_RETURN_IF_ERROR(
        CopyAll(out.subspan(first * width_, (done - first) * width_)));
  }
  return absl::OkStatus();
}

absl::Status GatherReader::CopyAll(std::span<std::byte> out) {
  const auto comes_before = [](const Cursor& a, const Cursor& b) {
    return std::tie(a.run.leaf, a.run.from) < std::tie(b.run.leaf, b.run.from);
  };
  if (!std::is_sorted(cursors_.begin(), cursors_.end(), comes_before)) {
    std::sort(cursors_.begin(), cursors_.end(), comes_before);
  }
  for (auto first = cursors_.begin(); first != cursors_.end();) {
    const auto last =
        std::find_if(first, cursors_.end(), [first](const Cursor& other) {
          return other.run.leaf != first->run.leaf;
        });
    MSITD_RETURN_IF_ERROR(Sweep({first, last}, *leaves_[first->run.leaf], out));
    first = last;
  }
  return absl::OkStatus();
}

absl::Status GatherReader::Sweep(std::span<Cursor> runs, LeafReader& leaf,
                                 std::span<std::byte> out) {
  size_t next = 0;
  active_.clear();
  uint64_t position = runs.front().position();
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const LeafReader::Block block, leaf.At(position));
    const uint64_t end = block.begin + block.bytes.size() / width_;
    while (next < runs.size() && runs[next].position() < end) {
      active_.push_back(static_cast<uint32_t>(next++));
    }
    position = CopyFrom(block, runs, out);
    if (next < runs.size()) {
      position = std::min(position, runs[next].position());
    } else if (active_.empty()) {
      return absl::OkStatus();
    }
  }
}

uint64_t GatherReader::CopyFrom(const LeafReader::Block& block,
                                std::span<Cursor> runs,
                                std::span<std::byte> out) {
  uint64_t position = std::numeric_limits<uint64_t>::max();
  size_t kept = 0;
  for (size_t first = 0; first < active_.size();) {
    const size_t count = CopyColumns(block, runs, first, out);
    for (size_t i = first; i < first + count; ++i) {
      Cursor& run = runs[active_[i]];
      CopyRun(block, run, out);
      if (run.is_done()) continue;
      position = std::min(position, run.position());
      active_[kept++] = active_[i];
    }
    first += count;
  }
  active_.resize(kept);
  return position;
}

void GatherReader::CopyRun(const LeafReader::Block& block, Cursor& cursor,
                           std::span<std::byte> out) const {
  const GatherRun& run = cursor.run;
  const uint64_t end = block.begin + block.bytes.size() / width_;
  while (!cursor.is_done() && cursor.position() < end) {
    const uint64_t from = cursor.position();
    const std::byte* const source =
        block.bytes.data() + (from - block.begin) * width_;
    std::byte* const to =
        out.data() +
        (run.to + cursor.row * run.length + cursor.skipped) * width_;
    if (cursor.skipped > 0 || from + run.length > end) {
      const uint64_t count = std::min(run.length - cursor.skipped, end - from);
      std::memcpy(to, source, count * width_);
      cursor.skipped += count;
      if (cursor.skipped == run.length) {
        cursor.skipped = 0;
        ++cursor.row;
      }
      continue;
    }
    uint64_t rows = run.count - cursor.row;
    if (rows > 1 && run.stride > 0) {
      rows = std::min(rows, (end - run.length - from) / run.stride + 1);
    }
    CopyRows(source, run.stride * width_, run.length * width_, rows, to);
    cursor.row += rows;
  }
}

size_t GatherReader::CopyColumns(const LeafReader::Block& block,
                                 std::span<Cursor> runs, size_t first,
                                 std::span<std::byte> out) const {
  const Cursor& leader = runs[active_[first]];
  const GatherRun& run = leader.run;
  if (run.length != 1 || run.count == 1 || run.stride == 0) return 1;
  std::byte* to[kColumns];
  size_t count = 0;
  while (count < kColumns && first + count < active_.size()) {
    const Cursor& other = runs[active_[first + count]];
    if (other.run.from != run.from + count || other.row != leader.row ||
        other.run.count != run.count || other.run.stride != run.stride ||
        other.run.length != 1) {
      break;
    }
    to[count++] = out.data() + (other.run.to + other.row) * width_;
  }
  const uint64_t end = block.begin + block.bytes.size() / width_;
  const uint64_t from = leader.position();
  if (count == 1 || from + count > end) return count;
  const uint64_t rows =
      std::min(run.count - leader.row, (end - count - from) / run.stride + 1);
  const std::byte* const source =
      block.bytes.data() + (from - block.begin) * width_;
  const std::span<std::byte* const> columns(to, count);
  const size_t stride = run.stride * width_;
  switch (width_) {
    case 1:
      CopyColumnsOf<1>(source, stride, rows, columns);
      break;
    case 2:
      CopyColumnsOf<2>(source, stride, rows, columns);
      break;
    case 4:
      CopyColumnsOf<4>(source, stride, rows, columns);
      break;
    case 8:
      CopyColumnsOf<8>(source, stride, rows, columns);
      break;
    default:
      CopyColumnsOf<16>(source, stride, rows, columns);
  }
  for (size_t i = 0; i < count; ++i) runs[active_[first + i]].row += rows;
  return count;
}

}  // namespace msitd::compare
