// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/scalar_text.h"

#include <charconv>
#include <cstdint>
#include <cstring>

namespace msitd::fill {
namespace {

template <typename T>
Scalar MakeScalar(DType dtype, T value) {
  Scalar scalar;
  scalar.dtype = dtype;
  std::memcpy(scalar.bytes.data(), &value, sizeof(value));
  return scalar;
}

// Parses and removes a float at the beginning of `text`. It may have a sign.
std::optional<double> TakeFloat(std::string_view& text) {
  std::string_view rest = text;
  const bool has_plus = rest.starts_with('+');
  if (has_plus) rest.remove_prefix(1);
  if (has_plus && rest.starts_with('-')) return std::nullopt;
  double value = 0;
  const auto [end, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), value);
  // Python itself writes `inf` for a number beyond the range.
  if (error != std::errc()) return std::nullopt;
  text = rest.substr(static_cast<size_t>(end - rest.data()));
  return value;
}

std::optional<Scalar> ParseComplex(std::string_view text) {
  if (text.starts_with('(') && text.ends_with(')')) {
    text = text.substr(1, text.size() - 2);
  }
  if (!text.ends_with('j')) return std::nullopt;
  std::array<double, 2> parts = {};
  std::optional<double> part = TakeFloat(text);
  if (!part) return std::nullopt;
  parts[1] = *part;
  if (text != "j") {
    // The second part begins with a sign, which separates the two.
    if (!text.starts_with('+') && !text.starts_with('-')) return std::nullopt;
    parts[0] = parts[1];
    part = TakeFloat(text);
    if (!part || text != "j") return std::nullopt;
    parts[1] = *part;
  }
  return MakeScalar(DType::kComplex128, parts);
}

}  // namespace

std::optional<Scalar> ParseScalar(std::string_view text) {
  if (text == "True" || text == "true") return MakeScalar(DType::kBool, true);
  if (text == "False" || text == "false") {
    return MakeScalar(DType::kBool, false);
  }
  const char* const end = text.data() + text.size();
  int64_t integer = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, integer);
  if (stop == end && error == std::errc()) {
    return MakeScalar(DType::kInt64, integer);
  }
  if (stop == end && error == std::errc::result_out_of_range) {
    return std::nullopt;
  }
  std::string_view rest = text;
  const std::optional<double> number = TakeFloat(rest);
  if (number && rest.empty()) return MakeScalar(DType::kFloat64, *number);
  return ParseComplex(text);
}

}  // namespace msitd::fill
