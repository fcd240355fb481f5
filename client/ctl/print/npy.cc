// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/print/npy.h"

#include <fmt/format.h>

#include <string_view>

#include "protos/base/check.h"

namespace msitd::ctl {
namespace {

constexpr size_t kAlignment = 64;
// Magic, version and the two bytes of the length.
constexpr size_t kPrefixBytes = 10;

// The type string of NumPy, without a byte order for single bytes.
std::string DescriptorOf(DType dtype) {
  const std::string_view type = InfoOf(dtype).numpy;
  MSITD_CHECK(!type.empty());
  return fmt::format("{}{}", type.ends_with('1') ? '|' : '<', type);
}

// The unsigned integer that stands for a type that NumPy cannot name.
std::string StoredAs(DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  const bool has_number =
      info.kind == DTypeKind::kFloat || info.kind == DTypeKind::kComplex;
  if (!has_number || !info.numpy.starts_with('u')) return {};
  return fmt::format("uint{}", 8 * info.bytes);
}

}  // namespace

NpyHeader MakeNpyHeader(DType dtype, const std::vector<int64_t>& shape) {
  std::string text = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
      DescriptorOf(dtype), fmt::join(shape, ", "),
      shape.size() == 1 ? "," : "");
  const size_t unpadded = kPrefixBytes + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text += '\n';
  // Holds for every shape that the chunk format can carry.
  MSITD_CHECK(text.size() <= 0xffff);
  NpyHeader header;
  header.bytes = std::string("\x93NUMPY\x01\x00", 8);
  header.bytes += static_cast<char>(text.size() & 0xff);
  header.bytes += static_cast<char>(text.size() >> 8);
  header.bytes += text;
  header.stored_as = StoredAs(dtype);
  return header;
}

}  // namespace msitd::ctl
