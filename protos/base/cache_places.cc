// SPDX-License-Identifier: Apache-2.0
#include "protos/base/cache_places.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "protos/base/limits.h"
#include "protos/base/utf8.h"

namespace msitd {
namespace {

constexpr int64_t kCacheNumberMax = int64_t{1} << 40;
constexpr size_t kReasonBytesMax = 256;
constexpr std::string_view kUnknown = "unknown: ";
constexpr std::string_view kNameEnd = " = ";
constexpr char kOtherForm[] = "the record of its places has an unknown form";

// Consumes the parts of a text from its beginning. After the first part that
// does not fit, nothing fits.
class PlaceTextReader {
 public:
  explicit PlaceTextReader(std::string_view text) : text_(text) {}

  bool Take(std::string_view part) {
    if (!fits_ || !text_.starts_with(part)) return false;
    text_.remove_prefix(part.size());
    return true;
  }

  void Require(std::string_view part) { fits_ = Take(part) && fits_; }

  int64_t Number() {
    int64_t out = 0;
    const char* const end = text_.data() + text_.size();
    if (text_.empty() || text_.front() == '-') fits_ = false;
    const auto [rest, error] = std::from_chars(text_.data(), end, out);
    fits_ = fits_ && error == std::errc() && out <= kCacheNumberMax;
    text_ = std::string_view(rest, static_cast<size_t>(end - rest));
    return out;
  }

  size_t Dim() {
    const int64_t out = Number();
    fits_ = fits_ && out < static_cast<int64_t>(kDimsMax);
    return static_cast<size_t>(out);
  }

  RowRange Range() {
    RowRange out;
    out.first = Number();
    out.end = Take(":") ? Number() : out.first + 1;
    fits_ = fits_ && out.first < out.end;
    return out;
  }

  bool is_at_end() const { return fits_ && text_.empty(); }
  bool has_number() const { return !text_.empty() && text_.front() != '+'; }

 private:
  std::string_view text_;
  bool fits_ = true;
};

bool Overlap(std::vector<RowRange> ranges) {
  std::sort(
      ranges.begin(), ranges.end(),
      [](const RowRange& a, const RowRange& b) { return a.first < b.first; });
  return std::adjacent_find(ranges.begin(), ranges.end(),
                            [](const RowRange& a, const RowRange& b) {
                              return a.end > b.first;
                            }) != ranges.end();
}

CachePlaces Unknown(std::string_view reason) {
  CachePlaces out;
  out.problem = reason;
  return out;
}

}  // namespace

int64_t CachePlaces::position_count() const {
  int64_t count = 0;
  for (const RowRange& range : ranges) count += range.size();
  int64_t out = 0;
  return __builtin_mul_overflow(count, std::max<int64_t>(page_size, 1), &out)
             ? std::numeric_limits<int64_t>::max()
             : out;
}

std::vector<std::pair<std::string_view, std::string_view>> SplitCacheText(
    std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> out;
  for (size_t lines = 0; lines < kCacheLinesMax && !text.empty(); ++lines) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t name = line.find(kNameEnd);
    if (name == 0 || name == line.npos) continue;
    out.emplace_back(line.substr(0, name), line.substr(name + kNameEnd.size()));
  }
  return out;
}

CachePlaces ParseCachePlaces(std::string_view text) {
  if (text.size() > kCacheTextBytesMax || !IsValidUtf8(text)) {
    return Unknown(kOtherForm);
  }
  if (text.starts_with(kUnknown)) {
    return Unknown(text.substr(kUnknown.size(), kReasonBytesMax));
  }
  PlaceTextReader reader(text);
  CachePlaces out;
  if (reader.Take("pages of ")) {
    out.page_size = reader.Number();
    if (out.page_size < 1 || out.page_size > kCachePageMax) {
      return Unknown(kOtherForm);
    }
  } else {
    reader.Require("row ");
    out.row = reader.Number();
  }
  reader.Require(" dims ");
  out.outer_dim = reader.Dim();
  if (reader.Take(",")) out.inner_dim = reader.Dim();
  reader.Require(":");
  if (reader.Take(" ") && reader.has_number()) {
    do {
      out.ranges.push_back(reader.Range());
    } while (reader.Take(",") && out.ranges.size() <= kCacheRangesMax);
  }
  if (reader.Take("+")) {
    out.left_out = static_cast<uint64_t>(reader.Number());
  }
  // A page without a dimension of its own is a single position.
  const bool needs_inner = out.page_size != 1;
  if (!reader.is_at_end() || out.ranges.size() > kCacheRangesMax ||
      (needs_inner && !out.inner_dim.has_value()) ||
      out.inner_dim == out.outer_dim) {
    return Unknown(kOtherForm);
  }
  if (Overlap(out.ranges)) {
    return Unknown("the record of its places names an element twice");
  }
  return out;
}

}  // namespace msitd
