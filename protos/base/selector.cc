// SPDX-License-Identifier: Apache-2.0
#include "protos/base/selector.h"

#include <algorithm>

#include "protos/base/glob.h"

namespace msitd {
namespace {

template <typename Items, typename Item>
bool HasOrIsEmpty(const Items& items, const Item& item) {
  return items.empty() ||
         std::find(items.begin(), items.end(), item) != items.end();
}

bool MatchesOne(const std::vector<std::string>& patterns, std::string_view op) {
  return std::any_of(
      patterns.begin(), patterns.end(),
      [op](const std::string& pattern) { return GlobMatch(pattern, op); });
}

}  // namespace

bool Selector::HasRank(int32_t rank) const { return HasOrIsEmpty(ranks, rank); }

bool Selector::HasDevice(std::string_view device) const {
  return HasOrIsEmpty(devices, device);
}

bool Selector::HasToken(int64_t token) const {
  return tokens.empty() || std::any_of(tokens.begin(), tokens.end(),
                                       [token](const TokenRange& range) {
                                         return range.Contains(token);
                                       });
}

bool Selector::HasOp(std::string_view op) const {
  return op_patterns.empty() || MatchesOne(op_patterns, op);
}

bool Selector::HasIo(Io io) const {
  return io == Io::kUnspecified || HasOrIsEmpty(ios, io);
}

bool Selector::HasKind(RecordKind kind) const {
  if (kinds.empty()) return kind == RecordKind::kTensor;
  return HasOrIsEmpty(kinds, kind);
}

bool Selector::TakesWholeRanks() const {
  // Compares the whole object, so that lists added later are included.
  Selector whole;
  whole.ranks = ranks;
  return *this == whole;
}

bool Selector::Matches(const TensorKey& key) const {
  return HasRank(key.rank) && HasToken(key.token) && HasIo(key.io) &&
         HasDevice(key.device) && HasOp(key.op);
}

}  // namespace msitd
