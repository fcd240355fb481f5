// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/page/shards_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "client/ask/text/maker_text.h"
#include "protos/base/rank_set.h"

namespace msitd::ask {
namespace {

// How the daemon names the shard with the largest difference in the reason of
// a row.
constexpr std::string_view kShard = ", in the shard of ";

// Returns the text at the end of a reason that names shards, such as `target
// rank 1`, in order. Names of ops precede it, and contain no such text.
std::vector<std::string> WorstShards(std::string_view reason) {
  std::vector<std::string> out;
  for (size_t at = reason.find(kShard); at != std::string_view::npos;
       at = reason.find(kShard, at)) {
    at += kShard.size();
    const std::string_view rest = reason.substr(at);
    for (const std::string_view side : {"target rank ", "golden rank "}) {
      if (!rest.starts_with(side)) continue;
      const size_t end = std::min(
          rest.find_first_not_of("0123456789", side.size()), rest.size());
      if (end > side.size()) out.emplace_back(rest.substr(0, end));
    }
  }
  return out;
}

}  // namespace

std::string ShardRanksText(const v1::ComparisonRow& row) {
  std::vector<int32_t> ranks(row.target().ranks().begin(),
                             row.target().ranks().end());
  ranks.insert(ranks.end(), row.golden().ranks().begin(),
               row.golden().ranks().end());
  return ranks.empty() ? "" : RankSet::Of(ranks).Text();
}

std::string ShardsText(const v1::ComparisonRow& row) {
  if (row.target().ranks().empty() && row.golden().ranks().empty()) return "";
  std::string out = fmt::format("group {} ({})", row.rank(), RanksText(row));
  std::string_view separator = "; largest difference in the piece of ";
  for (const std::string& shard : WorstShards(row.reason())) {
    out += fmt::format("{}{}", separator, shard);
    separator = " and of ";
  }
  return out;
}

}  // namespace msitd::ask
