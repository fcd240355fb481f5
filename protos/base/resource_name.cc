// SPDX-License-Identifier: Apache-2.0
#include "protos/base/resource_name.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "protos/base/limits.h"

namespace msitd {
namespace {

constexpr char kHexDigits[] = "0123456789ABCDEF";

// Size of most names without their components, in bytes.
constexpr size_t kNumbersAndFixedBytes = 96;

constexpr std::array<bool, 256> kMustEscape = [] {
  std::array<bool, 256> out{};
  for (size_t byte = 0; byte <= 0x20; ++byte) out[byte] = true;
  out['/'] = out['%'] = out[0x7f] = true;
  return out;
}();

bool MustEscape(char c) { return kMustEscape[static_cast<unsigned char>(c)]; }

void AppendEscaped(std::string_view component, std::string& out) {
  // Few components need escapes.
  if (std::none_of(component.begin(), component.end(), MustEscape)) {
    out += component;
    return;
  }
  for (const char c : component) {
    if (MustEscape(c)) {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 15];
    } else {
      out += c;
    }
  }
}

void AppendNumber(int64_t number, std::string& out) {
  std::array<char, 24> text;
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), number);
  out.append(text.data(), end);
}

std::optional<std::string> Unescape(std::string_view component) {
  std::string out;
  out.reserve(component.size());
  for (size_t i = 0; i < component.size(); ++i) {
    if (component[i] != '%') {
      out += component[i];
      continue;
    }
    if (i + 2 >= component.size()) return std::nullopt;
    unsigned value = 0;
    const char* first = component.data() + i + 1;
    const auto [end, error] = std::from_chars(first, first + 2, value, 16);
    if (error != std::errc() || end != first + 2) return std::nullopt;
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

// Accepts only canonical decimals, so that a tensor has a single name: no sign
// and no leading zero.
template <typename Int>
bool ParseNumber(std::string_view text, Int max, Int& out) {
  if (text.empty() || text[0] == '-' || (text[0] == '0' && text.size() > 1)) {
    return false;
  }
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && last == end && out <= max;
}

}  // namespace

std::string FormatTensorName(const TensorKey& key) {
  return FormatTensorName(key.run, key);
}

std::string FormatTensorName(std::string_view run, const TensorKey& key) {
  std::string out;
  out.reserve(kNumbersAndFixedBytes + run.size() + key.device.size() +
              key.op.size() + key.index.size());
  out += "runs/";
  AppendEscaped(run, out);
  out += "/ranks/";
  AppendNumber(key.rank, out);
  out += "/devices/";
  AppendEscaped(key.device, out);
  out += "/tokens/";
  AppendNumber(key.token, out);
  out += "/ops/";
  AppendEscaped(key.op, out);
  out += "/calls/";
  AppendNumber(key.call, out);
  out += '/';
  out += IoName(key.io);
  out += '/';
  AppendEscaped(key.index, out);
  return out;
}

std::optional<TensorKey> ParseTensorName(std::string_view name) {
  std::array<std::string_view, 14> parts;
  size_t count = 0;
  size_t begin = 0;
  while (true) {
    const size_t slash = name.find('/', begin);
    if (count == parts.size()) return std::nullopt;
    parts[count++] = name.substr(begin, slash - begin);
    if (slash == std::string_view::npos) break;
    begin = slash + 1;
  }
  if (count != parts.size() || parts[0] != "runs" || parts[2] != "ranks" ||
      parts[4] != "devices" || parts[6] != "tokens" || parts[8] != "ops" ||
      parts[10] != "calls") {
    return std::nullopt;
  }
  TensorKey key;
  const auto run = Unescape(parts[1]);
  const auto device = Unescape(parts[5]);
  const auto op = Unescape(parts[9]);
  const auto io = ParseIo(parts[12]);
  const auto index = Unescape(parts[13]);
  if (!run || !device || !op || !io || !index ||
      !ParseNumber(parts[3], kRankMax, key.rank) ||
      !ParseNumber(parts[7], kTokenMax, key.token) ||
      !ParseNumber(parts[11], kCallMax, key.call)) {
    return std::nullopt;
  }
  key.run = *run;
  key.device = *device;
  key.op = *op;
  key.io = *io;
  key.index = *index;
  return key;
}

}  // namespace msitd
