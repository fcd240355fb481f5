// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace msitd::compare {

// Maximum number of token runs (TokenRuns) in the groups of a comparison, which
// take about 25 MiB. A comparison with more is refused; the user has to narrow
// the filter. A rank needs a single run if all its tokens are evenly spaced,
// and another one for each change of the distance. In the worst case, runs have
// two tokens each.
inline constexpr size_t kGroupRunsMax = size_t{1} << 20;

// A set of tokens, stored as runs of evenly spaced tokens.
//
// Thread-compatible.
class TokenRuns {
 public:
  struct Run {
    int64_t first = 0;
    int64_t last = 0;
    int64_t step = 0;  // 0 for a single token.

    friend bool operator==(const Run&, const Run&) = default;
  };

  // Adds a token that is above all others.
  void Append(int64_t token);
  // Adds any token. Takes time proportional to the size if it is not the
  // largest.
  void Insert(int64_t token);

  bool Has(int64_t token) const;
  bool empty() const { return runs_.empty(); }
  size_t count() const { return count_; }
  // The runs ascend and do not overlap. Equal sets have equal runs.
  const std::vector<Run>& runs() const { return runs_; }

  friend bool operator==(const TokenRuns&, const TokenRuns&) = default;

 private:
  std::vector<Run> runs_;
  size_t count_ = 0;
};

// Iterates over tokens in order. Borrows them.
class TokenCursor {
 public:
  explicit TokenCursor(const TokenRuns& tokens) : runs_(&tokens.runs()) {}

  // Returns nothing at the end.
  std::optional<int64_t> Next();

 private:
  const std::vector<TokenRuns::Run>* runs_;
  size_t run_ = 0;
  int64_t token_ = 0;
  // `token_` is the token returned last, and is in run `run_`.
  bool is_inside_ = false;
};

// A rank or group number and a token, both of the golden run.
struct GroupKey {
  int64_t token = 0;
  int32_t rank = 0;

  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

// A set of groups. Ten million groups take a few KiB for each rank if tokens
// are evenly spaced.
//
// Thread-compatible.
class GroupSet {
 public:
  // Fastest if the token is above all others of its rank.
  void Insert(const GroupKey& key);
  // Adds all groups of a rank that is not in the set yet.
  void Add(int32_t rank, TokenRuns tokens);

  bool Has(const GroupKey& key) const;
  size_t count() const { return count_; }
  size_t run_count() const;
  const std::map<int32_t, TokenRuns>& ranks() const { return ranks_; }

 private:
  std::map<int32_t, TokenRuns> ranks_;
  size_t count_ = 0;
};

// Iterates over the groups of a set by token, then rank. Borrows the set, which
// must not change.
class GroupCursor {
 public:
  explicit GroupCursor(const GroupSet& groups);

  // Returns nothing at the end.
  std::optional<GroupKey> Next();

 private:
  struct Head {
    GroupKey key;
    size_t cursor;

    friend bool operator>(const Head& a, const Head& b) {
      return a.key > b.key;
    }
  };

  void Push(int32_t rank, size_t cursor);

  std::vector<TokenCursor> cursors_;
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_;
};

// Merges the tokens of groups that have tensors on several ranks. Ranks often
// have the same tokens, which are stored once.
class GroupCollector {
 public:
  // Errors: RESOURCE_EXHAUSTED above kGroupRunsMax.
  absl::Status Add(int32_t rank, const TokenRuns& tokens);
  absl::StatusOr<GroupSet> Finish() &&;

 private:
  // Merges the lists of each rank into one.
  absl::Status Compact();

  // Different lists of tokens, by rank.
  std::map<int32_t, std::vector<TokenRuns>> lists_;
  size_t run_count_ = 0;
};

}  // namespace msitd::compare
