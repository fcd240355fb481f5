// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/ranges.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "client/ask/text/trim.h"
#include "protos/base/limits.h"
#include "protos/base/selector.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

absl::StatusOr<int64_t> ParseNumber(std::string_view text,
                                    std::string_view part, int64_t max) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range ||
      (error == std::errc() && last == end && value > max)) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\": the maximum is {}", part, max);
  }
  if (error != std::errc() || last != end || value < 0) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\" is not a number or a range such as 2-5", part);
  }
  return value;
}

absl::StatusOr<Range> ParseRange(std::string_view part, int64_t max) {
  const size_t dash = part.find('-', 1);
  Range range;
  MSITD_ASSIGN_OR_RETURN(range.first,
                         ParseNumber(Trim(part.substr(0, dash)), part, max));
  range.last = range.first;
  if (dash != std::string_view::npos) {
    MSITD_ASSIGN_OR_RETURN(range.last,
                           ParseNumber(Trim(part.substr(dash + 1)), part, max));
  }
  if (range.last < range.first) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\": the end is before the beginning", part);
  }
  return range;
}

}  // namespace

absl::StatusOr<std::vector<Range>> ParseRanges(std::string_view text,
                                               int64_t number_max) {
  std::vector<Range> ranges;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = Trim(text.substr(begin, comma - begin));
    if (part.empty()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "\"{}\": a number is missing", text);
    }
    MSITD_ASSIGN_OR_RETURN(ranges.emplace_back(), ParseRange(part, number_max));
    begin = comma + 1;
  }
  return ranges;
}

absl::StatusOr<std::vector<int32_t>> ParseRanks(std::string_view text) {
  std::vector<Range> ranges;
  MSITD_ASSIGN_OR_RETURN(ranges, ParseRanges(text, kRankMax));
  std::set<int32_t> ranks;
  for (const Range& range : ranges) {
    for (int64_t rank = range.first; rank <= range.last; ++rank) {
      ranks.insert(static_cast<int32_t>(rank));
      if (ranks.size() > Selector::kRanksMax) {
        return MakeStatus(absl::StatusCode::kInvalidArgument,
                          "\"{}\" has more than {} ranks", text,
                          Selector::kRanksMax);
      }
    }
  }
  return std::vector<int32_t>(ranks.begin(), ranks.end());
}

std::vector<std::string> SplitLists(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const std::string_view text : texts) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t comma = std::min(text.find(',', begin), text.size());
      const std::string_view part = Trim(text.substr(begin, comma - begin));
      if (!part.empty()) parts.emplace_back(part);
      begin = comma + 1;
    }
  }
  return parts;
}

}  // namespace msitd::ask
