// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/print/npy.h"

#include <fmt/format.h>

#include "protos/base/check.h"

namespace msitd::ctl {
namespace {

constexpr size_t kAlignment = 64;
// Magic, version and the two bytes of the length.
constexpr size_t kPrefixBytes = 10;

const char* DescriptorOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kInt8:
      return "|i1";
    case DType::kInt16:
      return "<i2";
    case DType::kInt32:
      return "<i4";
    case DType::kInt64:
      return "<i8";
    case DType::kUint8:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E5m2:
      return "|u1";
    case DType::kUint16:
    case DType::kBfloat16:
      return "<u2";
    case DType::kUint32:
      return "<u4";
    case DType::kUint64:
      return "<u8";
    case DType::kFloat16:
      return "<f2";
    case DType::kFloat32:
      return "<f4";
    case DType::kFloat64:
      return "<f8";
    case DType::kComplex64:
      return "<c8";
    case DType::kComplex128:
      return "<c16";
    case DType::kUnspecified:
      break;
  }
  MSITD_CHECK(false);
  return "";
}

std::string StoredAs(DType dtype) {
  if (dtype == DType::kBfloat16) return "uint16";
  if (dtype == DType::kFloat8E4m3fn || dtype == DType::kFloat8E5m2) {
    return "uint8";
  }
  return {};
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
