// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protos/base/selector.h"
#include "protos/base/tensor_key.h"

namespace msitd::capture {

// Bounds of one policy, then of all that a run knows; more is refused.
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

// What is recorded of the tensors that are selected.
struct Rule {
  Level level = Level::kOff;
  Selector tensors;

  friend bool operator==(const Rule&, const Rule&) = default;
};

// What the clients of a run record from `first_token` on. The first rule that
// a tensor agrees with says how much; one that agrees with none is off.
struct Policy {
  // 1, 2, 3, ... within the run.
  uint64_t revision = 0;
  int64_t first_token = 0;
  std::vector<Rule> rules;

  friend bool operator==(const Policy&, const Policy&) = default;
};

// Those of a run that still hold for some token; first_token and revision
// ascend.
using Policies = std::vector<Policy>;

// Adds `policy`, whose revision is set: it replaces those that would begin with
// it or later. Where there are too many, the oldest are forgotten, and the next
// one holds in their place. False if it is too long by itself; nothing changes
// then.
bool Add(Policy policy, Policies& policies);

std::string Encode(const Policies& policies);

// The inverse, for foreign bytes. False if they are no policies inside the
// bounds, or none at all.
bool Decode(std::string_view bytes, Policies& out);

// Of which ranks something may be recorded.
struct RecordedRanks {
  bool has_most = true;         // All ranks but those below.
  std::vector<int32_t> others;  // Ascending: those with the other answer.

  bool Has(int32_t rank) const;
};

// Finds the ranks of which the policies, which are not empty, do not leave out
// all tensors. Takes time in proportion to the ranks that rules name.
RecordedRanks FindRecordedRanks(const Policies& policies);

// The same of the ranks whose first tensors are recorded whatever they are. Not
// those of which rules for some tensors only, or those that leave some out, may
// leave out all.
RecordedRanks FindRanksRecordedAtFirst(const Policies& policies);

// Which rules the name of an op agrees with: bit r of word p stands for rule r
// of policy p of a schedule, and for nothing in another schedule.
using OpRules = std::array<uint64_t, kPoliciesMax>;

// What one rank asks for every tensor. Immutable, so any thread may use it.
class Schedule {
 public:
  // `policies` are not empty.
  Schedule(Policies policies, int32_t rank);

  // Of the newest policy.
  uint64_t revision() const { return policies_.back().revision; }

  // kFull below the first token of all policies.
  Level LevelOf(std::string_view device, int64_t token, std::string_view op,
                Io io) const;

  // True if a tensor like that is recorded on some device; kUnspecified: on any
  // side of the op.
  bool MayRecord(int64_t token, std::string_view op, Io io) const;

  // The same of an op whose rules are known, for which no pattern is looked at.
  OpRules RulesOf(std::string_view op) const;
  Level LevelOf(std::string_view device, int64_t token, const OpRules& rules,
                Io io) const;
  bool MayRecord(int64_t token, const OpRules& rules, Io io) const;

  // Numbers the spans of tokens in which these answers stay as they are.
  uint32_t SpanOf(int64_t token) const;

 private:
  // Null below the first token of all policies.
  const Policy* PolicyFor(int64_t token) const;

  // Without the rules of other ranks.
  Policies policies_;
  // The tokens with which a span begins, ascending.
  std::vector<int64_t> span_begins_;
};

}  // namespace msitd::capture
