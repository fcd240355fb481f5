// SPDX-License-Identifier: Apache-2.0
#include "storage/index/scan/compiled_selector.h"

#include <algorithm>
#include <bitset>
#include <optional>
#include <string>

#include "protos/base/glob.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr uint64_t kRankEnd = uint64_t{1} << 24;
constexpr uint64_t kNameEnd = uint64_t{1} << 32;
constexpr uint64_t kTokenEnd = uint64_t{1} << 40;

using NameSet = std::bitset<GlobNames::kNamesMax + 1>;

void SortUnique(std::vector<uint64_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// Returns the first allowed number that is at least `value`; `end` if there is
// none.
uint64_t AtOrAbove(const std::vector<uint64_t>& allowed, uint64_t value,
                   uint64_t end) {
  if (allowed.empty()) return value;
  const auto it = std::lower_bound(allowed.begin(), allowed.end(), value);
  return it == allowed.end() ? end : *it;
}

std::vector<TokenRange> Merged(std::vector<TokenRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const TokenRange& a, const TokenRange& b) {
              return a.first < b.first;
            });
  std::vector<TokenRange> out;
  for (TokenRange range : ranges) {
    range.first = std::max<int64_t>(range.first, 0);
    range.last = std::min(range.last, kTokenMax);
    if (range.first > range.last) continue;
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

bool IsLiteral(std::string_view pattern) {
  return pattern.find_first_of("*?") == std::string_view::npos;
}

// Returns the numbers of those `names` that the store has.
absl::StatusOr<std::vector<uint64_t>> IdsOf(
    const std::vector<std::string>& names, NameTable& table) {
  std::vector<uint64_t> ids;
  for (const std::string& name : names) {
    MSITD_ASSIGN_OR_RETURN(const std::optional<uint32_t> id, table.Find(name));
    if (id.has_value()) ids.push_back(*id);
  }
  SortUnique(ids);
  return ids;
}

}  // namespace

absl::StatusOr<CompiledSelector> CompiledSelector::Compile(
    const Selector& selector, NameTable& names, GlobNames& globs) {
  CompiledSelector out;
  for (const int32_t rank : selector.ranks) {
    if (rank >= 0) out.ranks_.push_back(static_cast<uint64_t>(rank));
  }
  SortUnique(out.ranks_);
  out.is_void_ |= out.ranks_.empty() && !selector.ranks.empty();

  MSITD_ASSIGN_OR_RETURN(out.devices_, IdsOf(selector.devices, names));
  out.is_void_ |= out.devices_.empty() && !selector.devices.empty();

  out.tokens_ = Merged(selector.tokens);
  out.is_void_ |= out.tokens_.empty() && !selector.tokens.empty();

  MSITD_RETURN_IF_ERROR(out.CompileOps(selector.op_patterns, names, globs));
  if (!selector.ios.empty()) {
    out.ios_ = 0;
    for (const Io io : selector.ios) {
      if (IsValid(io)) out.ios_ |= 1U << static_cast<int>(io);
    }
  }
  if (!selector.kinds.empty()) out.kinds_ = 0;
  for (const RecordKind kind : selector.kinds) {
    if (IsValid(kind)) out.kinds_ |= 1U << static_cast<int>(kind);
  }
  return out;
}

absl::Status CompiledSelector::CompileOps(
    const std::vector<std::string>& patterns, NameTable& names,
    GlobNames& globs) {
  if (patterns.empty() ||
      std::find(patterns.begin(), patterns.end(), "*") != patterns.end()) {
    return absl::OkStatus();
  }
  int64_t units_left = GlobNames::kUnitsMax;
  NameSet matches;  // Patterns may match the same names.
  for (const std::string& pattern : patterns) {
    if (IsLiteral(pattern)) {
      MSITD_ASSIGN_OR_RETURN(const std::optional<uint32_t> id,
                             names.Find(pattern));
      if (id.has_value()) ops_.push_back(*id);
      continue;
    }
    MSITD_ASSIGN_OR_RETURN(const auto ids, globs.Find(pattern, units_left));
    if (ids == nullptr) {
      ops_.clear();
      patterns_ = patterns;
      return absl::OkStatus();
    }
    for (const uint64_t id : *ids) {
      if (!matches[id]) ops_.push_back(id);
      matches[id] = true;
    }
  }
  SortUnique(ops_);
  is_void_ |= ops_.empty();
  return absl::OkStatus();
}

absl::StatusOr<bool> CompiledSelector::MatchesOp(std::string_view op,
                                                 WorkMeter& meter,
                                                 StopCheck stop) const {
  for (const std::string& pattern : patterns_) {
    uint64_t steps = 0;
    if (GlobMatch(pattern, op, steps)) return true;
    MSITD_RETURN_IF_ERROR(meter.Spend(1 + steps / kGlobStepsPerUnit, stop));
  }
  return patterns_.empty();
}

bool CompiledSelector::AdvanceToken(IndexKey& key) const {
  if (tokens_.empty()) return true;
  const auto token = static_cast<int64_t>(key.token);
  const auto it = std::lower_bound(
      tokens_.begin(), tokens_.end(), token,
      [](const TokenRange& range, int64_t t) { return range.last < t; });
  if (it == tokens_.end()) return false;
  if (it->first > token) {
    key.token = static_cast<uint64_t>(it->first);
    key.op = 0;
  }
  return true;
}

bool CompiledSelector::Advance(IndexKey& key) const {
  const IndexKey start = key;
  uint64_t rank = key.rank;
  uint64_t device = key.device;
  uint64_t token = key.token;
  uint64_t op = key.op;
  while (true) {
    const uint64_t next_rank = AtOrAbove(ranks_, rank, kRankEnd);
    if (next_rank >= kRankEnd) return false;
    if (next_rank > rank) device = token = op = 0;
    rank = next_rank;

    const uint64_t next_device = AtOrAbove(devices_, device, kNameEnd);
    if (next_device > device) token = op = 0;
    device = next_device;
    if (device >= kNameEnd) {
      ++rank;
      device = token = op = 0;
      continue;
    }

    IndexKey at = key;
    at.token = token;
    at.op = static_cast<uint32_t>(op);
    if (token >= kTokenEnd || !AdvanceToken(at)) {
      ++device;
      token = op = 0;
      continue;
    }
    token = at.token;
    op = AtOrAbove(ops_, at.op, kNameEnd);
    if (op >= kNameEnd) {
      ++token;
      op = 0;
      continue;
    }
    break;
  }
  key.rank = static_cast<uint32_t>(rank);
  key.device = static_cast<uint32_t>(device);
  key.token = token;
  key.op = static_cast<uint32_t>(op);
  const bool stayed = key == start;
  if (!stayed) {
    key.call = 0;
    key.io = Io::kUnspecified;
    key.index = 0;
    key.part = 0;
  }
  return true;
}

}  // namespace msitd::storage
