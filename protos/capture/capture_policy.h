// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "protos/base/selector.h"
#include "protos/base/tensor_key.h"

namespace msitd::capture {

// Limits of a policy, then of the policies of a run. Excess items are refused.
inline constexpr size_t kRulesMax = 64;
inline constexpr size_t kPoliciesMax = 16;
inline constexpr size_t kPoliciesBytesMax = size_t{256} << 10;

// How much of a tensor is recorded.
enum class Level : uint8_t {
  kOff = 0,      // Nothing: the tensor counts as filtered.
  kSummary = 1,  // Its summary and its hash.
  kFull = 2,     // Its bytes as well.
  kSample = 3,   // Summary, hash, and its sample (protos/base/sample.h).
};
inline constexpr int kLevelCount = 4;

// How much to record of the selected tensors.
struct Rule {
  Level level = Level::kOff;
  Selector tensors;

  friend bool operator==(const Rule&, const Rule&) = default;
};

// Rules for what the clients of a run record from `first_token` on. The first
// rule that matches a tensor determines the level; a tensor that no rule
// matches is not recorded.
struct Policy {
  // Number of the policy in the run, from 1.
  uint64_t revision = 0;
  int64_t first_token = 0;
  std::vector<Rule> rules;

  friend bool operator==(const Policy&, const Policy&) = default;
};

// Policies of a run that still apply to some token; first_token and revision
// ascend.
using Policies = std::vector<Policy>;

// Adds `policy`, whose revision must be set. It replaces policies that begin at
// its first token or later. If there are too many policies, the oldest ones are
// dropped, and the next one applies to their tokens. Returns false, without a
// change, if `policy` is too long by itself.
bool Add(Policy policy, Policies& policies);

std::string Encode(const Policies& policies);

// Inverse of encoding, for untrusted bytes. Returns false if they are not valid
// policies within the limits, or if there are none.
bool Decode(std::string_view bytes, Policies& out);

// Ranks for which something may be recorded.
struct RecordedRanks {
  bool has_most = true;         // The answer for all ranks that are not in
                                // `others`.
  std::vector<int32_t> others;  // Ranks with the opposite answer, ascending.

  bool Has(int32_t rank) const;
};

// Finds the ranks whose tensors are not all excluded by the policies, which
// must not be empty. Takes time proportional to the number of ranks that rules
// name.
RecordedRanks FindRecordedRanks(const Policies& policies);

// Finds the ranks whose first tensors are certainly recorded. Excludes ranks
// whose tensors may all be excluded by rules that record only some tensors or
// that exclude some tensors.
RecordedRanks FindRanksRecordedAtFirst(const Policies& policies);

// Some rules of a schedule, such as those that match the name of an op: bit r
// of word p stands for rule r of policy p. Valid only for that schedule.
using RuleBits = std::array<uint64_t, kPoliciesMax>;

// The capture policies of one rank, evaluated for every tensor. Immutable, so
// it can be used by any thread.
class Schedule {
 public:
  // `policies` must not be empty.
  Schedule(Policies policies, int32_t rank);

  // Revision of the newest policy.
  uint64_t revision() const { return policies_.back().revision; }

  // Whether a rule names requests. Only then do the answers below depend on
  // `requested`.
  bool has_requests() const { return !by_request_.empty(); }

  // Returns the rules that name the request. The union for the requests of a
  // token is `requested` below.
  RuleBits RulesOfRequest(std::string_view id) const;

  // Returns how much of the tensor to record: kFull below the first token of
  // all policies. Rules that name requests only apply if they are in
  // `requested`.
  Level LevelOf(std::string_view device, int64_t token, std::string_view op,
                Io io, const RuleBits& requested = {}) const;

  // True if such a tensor is recorded on at least one device. With
  // kUnspecified, true if any side of the op is recorded.
  bool MayRecord(int64_t token, std::string_view op, Io io,
                 const RuleBits& requested = {}) const;

  // As above, for an op whose rules are known, so that no patterns are matched.
  RuleBits RulesOf(std::string_view op) const;
  Level LevelOf(std::string_view device, int64_t token, const RuleBits& rules,
                Io io, const RuleBits& requested = {}) const;
  bool MayRecord(int64_t token, const RuleBits& rules, Io io,
                 const RuleBits& requested = {}) const;

  // Returns the number of the span of tokens that contains `token`. The answers
  // above do not change within a span, for equal `requested`.
  uint32_t SpanOf(int64_t token) const;

 private:
  // Returns null below the first token of all policies.
  const Policy* PolicyFor(int64_t token) const;
  // Returns the word of a policy.
  uint64_t WordOf(const RuleBits& bits, const Policy& policy) const {
    return bits[static_cast<size_t>(&policy - policies_.data())];
  }
  // Returns the rules of a policy that apply while these requests are
  // processed.
  uint64_t Applying(const Policy& policy, const RuleBits& requested) const {
    return WordOf(without_requests_, policy) | WordOf(requested, policy);
  }

  // Excludes rules for other ranks.
  Policies policies_;
  RuleBits without_requests_ = {};  // The rules that name no request.
  std::map<std::string, RuleBits, std::less<>> by_request_;
  // First tokens of the spans, ascending.
  std::vector<int64_t> span_begins_;
};

}  // namespace msitd::capture
