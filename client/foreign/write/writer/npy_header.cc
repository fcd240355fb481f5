// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/npy_header.h"

#include <fmt/format.h>

#include <string_view>

#include "protos/base/check.h"

namespace msitd::write {
namespace {

constexpr size_t kNpyAlignment = 64;
// Magic number, version and the two bytes of the length.
constexpr size_t kNpyPrefixBytes = 10;

// Returns true if numpy has no such type, but one that can store its bits.
bool IsLacking(const DTypeInfo& info) {
  const bool has_number =
      info.kind == DTypeKind::kFloat || info.kind == DTypeKind::kComplex;
  return has_number && info.numpy.starts_with('u');
}

bool IsVoid(const DTypeInfo& info, NpySubstitute substitute) {
  const bool is_short = info.kind == DTypeKind::kInteger && info.bits < 8;
  return substitute == NpySubstitute::kVoid && info.bytes <= 2 &&
         (is_short || IsLacking(info));
}

// Returns NumPy's type string, without a byte order for single bytes.
std::string DescriptorOf(DType dtype, NpySubstitute substitute) {
  const DTypeInfo& info = InfoOf(dtype);
  MSITD_CHECK(!info.numpy.empty());
  if (IsVoid(info, substitute)) return info.bytes == 1 ? "|V1" : "<V2";
  return fmt::format("{}{}", info.numpy.ends_with('1') ? '|' : '<', info.numpy);
}

std::string StoredAs(DType dtype, NpySubstitute substitute) {
  const DTypeInfo& info = InfoOf(dtype);
  if (IsVoid(info, substitute)) return DescriptorOf(dtype, substitute);
  return IsLacking(info) ? fmt::format("uint{}", 8 * info.bytes) : "";
}

}  // namespace

NpyHeader MakeNpyHeader(DType dtype, const std::vector<int64_t>& shape,
                        NpySubstitute substitute) {
  std::string text = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
      DescriptorOf(dtype, substitute), fmt::join(shape, ", "),
      shape.size() == 1 ? "," : "");
  const size_t unpadded = kNpyPrefixBytes + text.size() + 1;
  text.append((kNpyAlignment - unpadded % kNpyAlignment) % kNpyAlignment, ' ');
  text += '\n';
  // True for every shape that the chunk format can represent.
  MSITD_CHECK(text.size() <= 0xffff);
  NpyHeader header;
  header.bytes = std::string("\x93NUMPY\x01\x00", 8);
  header.bytes += static_cast<char>(text.size() & 0xff);
  header.bytes += static_cast<char>(text.size() >> 8);
  header.bytes += text;
  header.stored_as = StoredAs(dtype, substitute);
  return header;
}

}  // namespace msitd::write
