// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/row_block.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "protos/base/byte_codec.h"
#include "protos/base/shared_prefix.h"

namespace msitd::storage {
namespace {

constexpr uint8_t kWholeRowsVersion = 1;
// A row shares only a prefix with the previous row.
constexpr uint8_t kPrefixVersion = 2;
constexpr uint8_t kEditsVersion = 3;

// An edit takes at least 2 bytes, so fewer equal bytes are not worth one.
constexpr size_t kMatchBytes = 4;
// Number of bytes after a difference in which equal bytes are searched: at the
// same positions, as of numbers and hashes, and if one row has more bytes there
// than the other.
constexpr size_t kWindowBytes = 64;
constexpr size_t kShiftedWindowBytes = 16;
constexpr size_t kShiftMax = 4;

template <typename Number>
Number Load(std::string_view text, size_t at) {
  Number out;
  std::memcpy(&out, text.data() + at, sizeof(out));
  return out;
}

template <typename Number>
bool AreEqual(std::string_view a, size_t a_at, std::string_view b,
              size_t b_at) {
  return a_at + sizeof(Number) <= a.size() &&
         b_at + sizeof(Number) <= b.size() &&
         Load<Number>(a, a_at) == Load<Number>(b, b_at);
}

// The bytes of both rows between two stretches of equal bytes.
struct Difference {
  size_t before_bytes = 0;
  size_t row_bytes = 0;
};

// Returns the bytes up to the next equal ones. If none are near, returns some
// of the bytes that differ.
Difference DifferenceOf(std::string_view before, std::string_view row) {
  static_assert(kMatchBytes == sizeof(uint32_t));
  const size_t window = std::min({kWindowBytes, before.size(), row.size()});
  for (size_t i = 1; i + kMatchBytes <= window; ++i) {
    if (Load<uint32_t>(before, i) == Load<uint32_t>(row, i)) return {i, i};
  }
  for (size_t i = 0; i < kShiftedWindowBytes; ++i) {
    for (size_t shift = 1; shift <= kShiftMax; ++shift) {
      if (AreEqual<uint64_t>(before, i + shift, row, i)) return {i + shift, i};
      if (AreEqual<uint64_t>(before, i, row, i + shift)) return {i, i + shift};
    }
  }
  // The rest of the row if the previous row has no more bytes.
  return {window, window == before.size() ? row.size() : window};
}

// An edit: bytes to copy from the previous row, then bytes that replace its
// next bytes. The lowest bit of their number states whether these are equally
// many; otherwise, their number follows.
void PutEdits(std::string_view before, std::string_view row, ByteWriter& out) {
  while (!row.empty()) {
    const size_t copied = SharedPrefixBytes(before, row);
    before.remove_prefix(copied);
    row.remove_prefix(copied);
    const Difference next = DifferenceOf(before, row);
    const bool is_equally_long = next.before_bytes == next.row_bytes;
    out.PutVarint(copied);
    out.PutVarint(next.row_bytes << 1 | (is_equally_long ? 1 : 0));
    if (!is_equally_long) out.PutVarint(next.before_bytes);
    out.PutBytes(row.substr(0, next.row_bytes));
    before.remove_prefix(next.before_bytes);
    row.remove_prefix(next.row_bytes);
  }
}

// Decodes a row. The reader fails if the bytes are not edits of `before`.
bool GetEdits(std::string_view before, ByteReader& in, std::string& out) {
  const uint64_t size = in.GetVarint();
  // Each byte of a row is one of either.
  if (size > before.size() + in.left()) return false;
  out.reserve(size);
  while (out.size() < size) {
    const uint64_t copied = in.GetVarint();
    const uint64_t number = in.GetVarint();
    const uint64_t added = number >> 1;
    const uint64_t replaced = (number & 1) != 0 ? added : in.GetVarint();
    if (!in.ok() || copied > before.size() ||
        replaced > before.size() - copied || copied > size - out.size() ||
        added > size - out.size() - copied) {
      return false;
    }
    out.append(before.substr(0, copied)).append(in.GetBytes(added));
    before.remove_prefix(copied + replaced);
  }
  return in.ok();
}

// Decodes a row of an earlier version.
bool GetRest(std::string_view before, bool has_prefix, ByteReader& in,
             std::string& out) {
  const uint64_t shared = has_prefix ? in.GetVarint() : 0;
  const std::string_view rest = in.GetText();
  if (shared > before.size()) return false;
  out.reserve(shared + rest.size());
  out.append(before.substr(0, shared)).append(rest);
  return in.ok();
}

}  // namespace

std::string EncodeRows(std::span<const std::string> rows) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kEditsVersion);
  std::string_view before;
  for (const std::string_view row : rows) {
    writer.PutVarint(row.size());
    PutEdits(before, row, writer);
    before = row;
  }
  return out;
}

bool DecodeRows(std::string_view bytes, std::vector<std::string>& out) {
  out.clear();
  ByteReader reader(bytes);
  const uint8_t version = reader.GetByte();
  if (version < kWholeRowsVersion || version > kEditsVersion) return false;
  while (reader.ok() && !reader.done() && out.size() < kRowsMax) {
    const std::string_view before =
        out.empty() ? std::string_view() : out.back();
    std::string row;
    const bool is_row =
        version == kEditsVersion
            ? GetEdits(before, reader, row)
            : GetRest(before, version == kPrefixVersion, reader, row);
    if (!is_row) return false;
    out.push_back(std::move(row));
  }
  return reader.done();
}

}  // namespace msitd::storage
