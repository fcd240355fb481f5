// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protos/base/tensor_key.h"

namespace msitd::capture {

// Bounds of one policy; more is refused. kFilter...: see filter.proto.
inline constexpr size_t kRulesMax = 64;
inline constexpr size_t kRanksMax = 4096;
inline constexpr size_t kDevicesMax = 64;
inline constexpr size_t kTokenRangesMax = 256;
inline constexpr size_t kOpPatternsMax = 64;
inline constexpr size_t kPolicyBytesMax = size_t{256} << 10;

// How much of a tensor is recorded.
enum class Level : uint8_t {
  kOff = 0,      // Nothing: the tensor counts as filtered.
  kSummary = 1,  // Its summary and its hash.
  kFull = 2,     // Its bytes as well.
};
inline constexpr int kLevelCount = 3;

// An inclusive range of tokens.
struct TokenRange {
  int64_t first = 0;
  int64_t last = 0;

  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

// What is recorded of the tensors with which every list that is not empty
// agrees.
struct Rule {
  Level level = Level::kOff;
  std::vector<int32_t> ranks;
  std::vector<std::string> devices;
  std::vector<TokenRange> tokens;
  std::vector<std::string> op_patterns;  // GlobMatch; one of them must match.
  std::vector<Io> ios;

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

// Returns the bytes of `policy`, which is inside the bounds above but for
// kPolicyBytesMax.
std::string Encode(const Policy& policy);

// The inverse, for foreign bytes. False if they are no policy inside the
// bounds.
bool Decode(std::string_view bytes, Policy& out);

// What one rank asks for every tensor: the policies of its run that still hold
// for some token. Immutable, so any thread may use it.
class Schedule {
 public:
  // Of more policies the oldest are forgotten: the next one holds in their
  // place.
  static constexpr size_t kPoliciesMax = 16;

  // Adds `policy` to those of `before`, which may be null. It replaces those
  // that would begin with it or later.
  Schedule(const Policy& policy, int32_t rank, const Schedule* before);

  // Of the newest policy.
  uint64_t revision() const { return policies_.back()->revision; }

  // kFull below the first token of all policies.
  Level LevelOf(std::string_view device, int64_t token, std::string_view op,
                Io io) const;

  // True if a tensor like that is recorded on some device.
  bool MayRecord(int64_t token, std::string_view op, Io io) const;

 private:
  // Null below the first token of all policies.
  const Policy* PolicyFor(int64_t token) const;

  // Without the rules of other ranks; first_token ascends.
  std::vector<std::shared_ptr<const Policy>> policies_;
};

}  // namespace msitd::capture
