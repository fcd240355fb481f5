// SPDX-License-Identifier: Apache-2.0
#include "protos/capture/capture_policy.h"

#include <algorithm>
#include <utility>

#include "protos/base/byte_codec.h"
#include "protos/base/limits.h"
#include "protos/base/request.h"

namespace msitd::capture {

static_assert(kRulesMax <= 64, "RuleBits has a bit for each");

namespace {

constexpr uint8_t kFirstVersion = 1;
// Rules may name requests.
constexpr uint8_t kRequestsVersion = 2;

// Matches the rules of one policy, of those in `bits`, against the name of an
// op.
struct MatchText {
  std::string_view op;
  uint64_t bits;
  bool operator()(size_t number, const Rule& rule) const {
    return (bits >> number & 1) != 0 && rule.tensors.HasOp(op);
  }
};

// Matches the rules of one policy by the bits of a word of RuleBits.
struct MatchBits {
  uint64_t bits;
  bool operator()(size_t number, const Rule& /*rule*/) const {
    return (bits >> number & 1) != 0;
  }
};

template <typename Match>
Level LevelIn(const Policy& policy, std::string_view device, int64_t token,
              const Match& has_op, Io io) {
  for (size_t i = 0; i < policy.rules.size(); ++i) {
    const Rule& rule = policy.rules[i];
    const Selector& tensors = rule.tensors;
    // Cheapest checks first: for a narrow policy, most tensors fail the check
    // of the token.
    if (tensors.HasToken(token) && tensors.HasIo(io) &&
        tensors.HasDevice(device) && has_op(i, rule)) {
      return rule.level;
    }
  }
  return Level::kOff;
}

template <typename Match>
bool MayRecordIn(const Policy& policy, int64_t token, const Match& has_op,
                 Io io) {
  for (size_t i = 0; i < policy.rules.size(); ++i) {
    const Rule& rule = policy.rules[i];
    const Selector& tensors = rule.tensors;
    if (!tensors.HasToken(token) || !tensors.HasIo(io) || !has_op(i, rule)) {
      continue;
    }
    if (rule.level != Level::kOff) return true;
    // The rule excludes all devices and all sides in question, so later rules
    // do not apply.
    const bool is_for_all_sides = tensors.ios.empty() || io != Io::kUnspecified;
    if (tensors.devices.empty() && is_for_all_sides) return false;
  }
  return false;
}

// Whether a policy records something, for each rank that a rule names and for
// all other ranks together.
class RankAnswers {
 public:
  explicit RankAnswers(const Policies& policies) {
    for (const Policy& policy : policies) {
      for (const Rule& rule : policy.rules) {
        const std::vector<int32_t>& ranks = rule.tensors.ranks;
        named_.insert(named_.end(), ranks.begin(), ranks.end());
      }
    }
    std::sort(named_.begin(), named_.end());
    named_.erase(std::unique(named_.begin(), named_.end()), named_.end());
    may_record_.resize(named_.size() + 1);
  }

  // Selects which rules for only some tensors of a rank affect its answer:
  // those that record, or those that exclude. Rules for all of its tensors
  // always do.
  enum class Partial { kRecords, kLeavesOut };
  void Add(const Policy& policy, Partial partial) {
    // The first rule that applies to a rank decides.
    std::vector<bool> is_decided(may_record_.size());
    for (const Rule& rule : policy.rules) {
      const bool records = rule.level != Level::kOff;
      if (records != (partial == Partial::kRecords) &&
          !rule.tensors.TakesWholeRanks()) {
        continue;
      }
      const auto decide = [&](size_t index) {
        if (!is_decided[index] && records) may_record_[index] = true;
        is_decided[index] = true;
      };
      for (const int32_t rank : rule.tensors.ranks) {
        const auto at = std::lower_bound(named_.begin(), named_.end(), rank);
        decide(static_cast<size_t>(at - named_.begin()));
      }
      if (!rule.tensors.ranks.empty()) continue;
      for (size_t i = 0; i < is_decided.size(); ++i) decide(i);
      return;
    }
  }

  RecordedRanks Find() const {
    RecordedRanks out;
    out.has_most = may_record_.back();
    for (size_t i = 0; i < named_.size(); ++i) {
      if (may_record_[i] != out.has_most) out.others.push_back(named_[i]);
    }
    return out;
  }

 private:
  std::vector<int32_t> named_;    // Ascending.
  std::vector<bool> may_record_;  // In the order of `named_`; the last element
                                  // is for all other ranks.
};

void Put(ByteWriter& out, const Selector& tensors) {
  out.PutVarint(tensors.ranks.size());
  for (const int32_t rank : tensors.ranks) {
    out.PutVarint(static_cast<uint64_t>(rank));
  }
  out.PutVarint(tensors.devices.size());
  for (const std::string& device : tensors.devices) out.PutText(device);
  out.PutVarint(tensors.tokens.size());
  for (const TokenRange& range : tensors.tokens) {
    out.PutVarint(static_cast<uint64_t>(range.first));
    out.PutVarint(static_cast<uint64_t>(range.last));
  }
  out.PutVarint(tensors.op_patterns.size());
  for (const std::string& pattern : tensors.op_patterns) out.PutText(pattern);
  out.PutVarint(tensors.ios.size());
  for (const Io io : tensors.ios) out.PutByte(static_cast<uint8_t>(io));
}

void Put(ByteWriter& out, const Rule& rule, uint8_t version) {
  out.PutByte(static_cast<uint8_t>(rule.level));
  Put(out, rule.tensors);
  if (version < kRequestsVersion) return;
  out.PutVarint(rule.tensors.requests.size());
  for (const std::string& id : rule.tensors.requests) out.PutText(id);
}

bool GetToken(ByteReader& in, int64_t& token) {
  const uint64_t value = in.GetVarint();
  token = static_cast<int64_t>(value);
  return in.ok() && value <= static_cast<uint64_t>(kTokenMax);
}

// Reads a list of at most `size_max` items, calling `get` for each.
template <typename Items, typename Get>
bool GetList(ByteReader& in, size_t size_max, Items& items, const Get& get) {
  const uint64_t size = in.GetVarint();
  if (!in.ok() || size > size_max) return false;
  items.resize(size);
  return std::all_of(items.begin(), items.end(), get);
}

bool GetText(ByteReader& in, uint32_t bytes_max, std::string& text) {
  text = std::string(in.GetText());
  return in.ok() && text.size() <= bytes_max;
}

bool Get(ByteReader& in, Selector& tensors) {
  return GetList(in, Selector::kRanksMax, tensors.ranks,
                 [&in](int32_t& rank) {
                   const uint64_t value = in.GetVarint();
                   rank = static_cast<int32_t>(value);
                   return in.ok() && value <= uint64_t{kRankMax};
                 }) &&
         GetList(in, Selector::kDevicesMax, tensors.devices,
                 [&in](std::string& device) {
                   return GetText(in, kDeviceBytesMax, device);
                 }) &&
         GetList(in, Selector::kTokenRangesMax, tensors.tokens,
                 [&in](TokenRange& range) {
                   return GetToken(in, range.first) && GetToken(in, range.last);
                 }) &&
         GetList(in, Selector::kOpPatternsMax, tensors.op_patterns,
                 [&in](std::string& pattern) {
                   return GetText(in, kOpBytesMax, pattern);
                 }) &&
         GetList(in, kIoCount, tensors.ios, [&in](Io& io) {
           io = static_cast<Io>(in.GetByte());
           return in.ok() && IsValid(io);
         });
}

bool Get(ByteReader& in, uint8_t version, Rule& rule) {
  const uint8_t level = in.GetByte();
  rule.level = static_cast<Level>(level);
  return level < kLevelCount && Get(in, rule.tensors) &&
         (version < kRequestsVersion ||
          GetList(in, Selector::kRequestsMax, rule.tensors.requests,
                  [&in](std::string& id) {
                    return GetText(in, kRequestIdBytesMax, id);
                  }));
}

void Put(ByteWriter& out, const Policy& policy, uint8_t version) {
  out.PutVarint(policy.revision);
  out.PutVarint(static_cast<uint64_t>(policy.first_token));
  out.PutVarint(policy.rules.size());
  for (const Rule& rule : policy.rules) Put(out, rule, version);
}

bool Get(ByteReader& in, uint8_t version, Policy& policy) {
  policy.revision = in.GetVarint();
  return GetToken(in, policy.first_token) &&
         GetList(in, kRulesMax, policy.rules,
                 [&in, version](Rule& rule) { return Get(in, version, rule); });
}

bool NamesRequests(const Policies& policies) {
  return std::any_of(
      policies.begin(), policies.end(), [](const Policy& policy) {
        return std::any_of(
            policy.rules.begin(), policy.rules.end(),
            [](const Rule& rule) { return !rule.tensors.requests.empty(); });
      });
}

// True if both first tokens and revisions strictly ascend.
bool Ascend(const Policies& policies) {
  return std::adjacent_find(policies.begin(), policies.end(),
                            [](const Policy& a, const Policy& b) {
                              return a.revision >= b.revision ||
                                     a.first_token >= b.first_token;
                            }) == policies.end();
}

}  // namespace

bool Add(Policy policy, Policies& policies) {
  if (Encode({policy}).size() > kPoliciesBytesMax) return false;
  std::erase_if(policies, [&policy](const Policy& older) {
    return older.first_token >= policy.first_token;
  });
  policies.push_back(std::move(policy));
  while (policies.size() > kPoliciesMax ||
         Encode(policies).size() > kPoliciesBytesMax) {
    policies[1].first_token = policies[0].first_token;
    policies.erase(policies.begin());
  }
  return true;
}

std::string Encode(const Policies& policies) {
  std::string bytes;
  ByteWriter out(bytes);
  // Programs that do not know requests read all other policies.
  const uint8_t version =
      NamesRequests(policies) ? kRequestsVersion : kFirstVersion;
  out.PutByte(version);
  out.PutVarint(policies.size());
  for (const Policy& policy : policies) Put(out, policy, version);
  return bytes;
}

bool Decode(std::string_view bytes, Policies& out) {
  if (bytes.size() > kPoliciesBytesMax) return false;
  ByteReader in(bytes);
  const uint8_t version = in.GetByte();
  if (version < kFirstVersion || version > kRequestsVersion) return false;
  Policies policies;
  if (!GetList(in, kPoliciesMax, policies,
               [&in, version](Policy& policy) {
                 return Get(in, version, policy);
               }) ||
      !in.done() || policies.empty() || !Ascend(policies)) {
    return false;
  }
  out = std::move(policies);
  return true;
}

bool RecordedRanks::Has(int32_t rank) const {
  return has_most != std::binary_search(others.begin(), others.end(), rank);
}

RecordedRanks FindRecordedRanks(const Policies& policies) {
  // Below the first policy everything is recorded.
  if (policies.front().first_token > 0) return {};
  RankAnswers answers(policies);
  for (const Policy& policy : policies) {
    answers.Add(policy, RankAnswers::Partial::kRecords);
  }
  return answers.Find();
}

RecordedRanks FindRanksRecordedAtFirst(const Policies& policies) {
  // Below the first policy everything is recorded.
  if (policies.front().first_token > 0) return {};
  RankAnswers answers(policies);
  answers.Add(policies.front(), RankAnswers::Partial::kLeavesOut);
  return answers.Find();
}

Schedule::Schedule(Policies policies, int32_t rank)
    : policies_(std::move(policies)) {
  for (Policy& policy : policies_) {
    std::erase_if(policy.rules, [rank](const Rule& rule) {
      return !rule.tensors.HasRank(rank);
    });
    span_begins_.push_back(policy.first_token);
    const auto number = static_cast<size_t>(&policy - policies_.data());
    for (size_t i = 0; i < policy.rules.size(); ++i) {
      const Rule& rule = policy.rules[i];
      const uint64_t bit = uint64_t{1} << i;
      if (rule.tensors.requests.empty()) without_requests_[number] |= bit;
      for (const std::string& id : rule.tensors.requests) {
        by_request_[id][number] |= bit;
      }
      for (const TokenRange& range : rule.tensors.tokens) {
        span_begins_.push_back(range.first);
        // A range to the last token has no end.
        if (range.last < kTokenMax) span_begins_.push_back(range.last + 1);
      }
    }
  }
  std::sort(span_begins_.begin(), span_begins_.end());
  span_begins_.erase(std::unique(span_begins_.begin(), span_begins_.end()),
                     span_begins_.end());
}

uint32_t Schedule::SpanOf(int64_t token) const {
  const auto next =
      std::upper_bound(span_begins_.begin(), span_begins_.end(), token);
  return static_cast<uint32_t>(next - span_begins_.begin());
}

const Policy* Schedule::PolicyFor(int64_t token) const {
  for (auto it = policies_.rbegin(); it != policies_.rend(); ++it) {
    if (it->first_token <= token) return &*it;
  }
  return nullptr;
}

RuleBits Schedule::RulesOfRequest(std::string_view id) const {
  const auto found = by_request_.find(id);
  return found == by_request_.end() ? RuleBits{} : found->second;
}

Level Schedule::LevelOf(std::string_view device, int64_t token,
                        std::string_view op, Io io,
                        const RuleBits& requested) const {
  const Policy* policy = PolicyFor(token);
  if (policy == nullptr) return Level::kFull;
  return LevelIn(*policy, device, token,
                 MatchText{op, Applying(*policy, requested)}, io);
}

bool Schedule::MayRecord(int64_t token, std::string_view op, Io io,
                         const RuleBits& requested) const {
  const Policy* policy = PolicyFor(token);
  return policy == nullptr ||
         MayRecordIn(*policy, token,
                     MatchText{op, Applying(*policy, requested)}, io);
}

RuleBits Schedule::RulesOf(std::string_view op) const {
  RuleBits rules{};
  for (size_t p = 0; p < policies_.size(); ++p) {
    for (size_t r = 0; r < policies_[p].rules.size(); ++r) {
      if (policies_[p].rules[r].tensors.HasOp(op)) rules[p] |= uint64_t{1} << r;
    }
  }
  return rules;
}

Level Schedule::LevelOf(std::string_view device, int64_t token,
                        const RuleBits& rules, Io io,
                        const RuleBits& requested) const {
  const Policy* policy = PolicyFor(token);
  if (policy == nullptr) return Level::kFull;
  const uint64_t bits = WordOf(rules, *policy) & Applying(*policy, requested);
  if (bits == 0) return Level::kOff;
  return LevelIn(*policy, device, token, MatchBits{bits}, io);
}

bool Schedule::MayRecord(int64_t token, const RuleBits& rules, Io io,
                         const RuleBits& requested) const {
  const Policy* policy = PolicyFor(token);
  if (policy == nullptr) return true;
  const uint64_t bits = WordOf(rules, *policy) & Applying(*policy, requested);
  return bits != 0 && MayRecordIn(*policy, token, MatchBits{bits}, io);
}

}  // namespace msitd::capture
