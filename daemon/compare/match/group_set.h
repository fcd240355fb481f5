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

// A comparison whose groups take more runs of tokens (TokenRuns) than this is
// refused; narrow its filter. They take some 25 MiB. A rank has a run for each
// change in the distance of its tokens, so for all its tokens one, if they are
// evenly spaced; however they lie, there are twice as many groups.
inline constexpr size_t kGroupRunsMax = size_t{1} << 20;

// A set of tokens, held as runs of evenly spaced ones.
//
// Thread-compatible.
class TokenRuns {
 public:
  struct Run {
    int64_t first = 0;
    int64_t last = 0;
    int64_t step = 0;  // 0 if it is a single token.

    friend bool operator==(const Run&, const Run&) = default;
  };

  // Adds a token above all others.
  void Append(int64_t token);
  // Adds any token. Takes long if there are others above it.
  void Insert(int64_t token);

  bool Has(int64_t token) const;
  bool empty() const { return runs_.empty(); }
  size_t count() const { return count_; }
  // They ascend and do not overlap, and are the same for the same tokens.
  const std::vector<Run>& runs() const { return runs_; }

  friend bool operator==(const TokenRuns&, const TokenRuns&) = default;

 private:
  std::vector<Run> runs_;
  size_t count_ = 0;
};

// Gives out tokens in order. Borrows them.
class TokenCursor {
 public:
  explicit TokenCursor(const TokenRuns& tokens) : runs_(&tokens.runs()) {}

  // Nothing at the end.
  std::optional<int64_t> Next();

 private:
  const std::vector<TokenRuns::Run>* runs_;
  size_t run_ = 0;
  int64_t token_ = 0;
  bool is_inside_ = false;  // `token_` was the last one, of run `run_`.
};

// A rank, or group number, and a token of the golden run.
struct GroupKey {
  int64_t token = 0;
  int32_t rank = 0;

  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

// A set of groups. Ten million of them take a few kilobytes for each rank if
// the ranks have tokens that are evenly spaced.
//
// Thread-compatible.
class GroupSet {
 public:
  // Fastest if it is above all others of its rank.
  void Insert(const GroupKey& key);
  // Adds all groups of a rank that has none so far.
  void Add(int32_t rank, TokenRuns tokens);

  bool Has(const GroupKey& key) const;
  size_t count() const { return count_; }
  size_t run_count() const;
  const std::map<int32_t, TokenRuns>& ranks() const { return ranks_; }

 private:
  std::map<int32_t, TokenRuns> ranks_;
  size_t count_ = 0;
};

// Gives out the groups of a set by token, then rank. Borrows the set, which
// does not change.
class GroupCursor {
 public:
  explicit GroupCursor(const GroupSet& groups);

  // Nothing at the end.
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

// Collects the tokens of groups that many ranks have part in.
class GroupCollector {
 public:
  // Errors: RESOURCE_EXHAUSTED above kGroupRunsMax.
  absl::Status Add(int32_t rank, const TokenRuns& tokens);
  absl::StatusOr<GroupSet> Finish() &&;

 private:
  // Leaves one list for each rank.
  absl::Status Compact();

  // Lists that differ, by rank.
  std::map<int32_t, std::vector<TokenRuns>> lists_;
  size_t run_count_ = 0;
};

}  // namespace msitd::compare
