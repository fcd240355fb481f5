// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"

namespace msitd {

// An inclusive range of tokens.
struct TokenRange {
  int64_t first = 0;
  int64_t last = 0;

  bool Contains(int64_t token) const { return first <= token && token <= last; }
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

// Selects records of a run that match every list that is not empty. Only for
// `kinds`, empty does not mean all: it means tensors only. Queries, comparisons
// and the rules of a capture policy use it, although rules have no kinds. The
// corresponding message is msitd.v1.TensorFilter.
struct Selector {
  // Maximum list sizes; requests with longer lists are refused.
  static constexpr size_t kRanksMax = 4096;
  static constexpr size_t kDevicesMax = 64;
  static constexpr size_t kTokenRangesMax = 256;
  static constexpr size_t kOpPatternsMax = 64;
  static constexpr size_t kRequestsMax = 64;

  std::vector<int32_t> ranks = {};
  std::vector<std::string> devices = {};
  std::vector<TokenRange> tokens = {};
  std::vector<std::string> op_patterns = {};  // GlobMatch; one must match.
  std::vector<Io> ios = {};
  std::vector<RecordKind> kinds = {};
  // Ids of requests; the rank must process one of them at the token. See
  // protos/base/request.h. Only the store and, for rules of a capture policy,
  // the client can evaluate this list.
  std::vector<std::string> requests = {};

  // True if the list matches.
  bool HasRank(int32_t rank) const;
  bool HasDevice(std::string_view device) const;
  bool HasToken(int64_t token) const;
  bool HasOp(std::string_view op) const;
  // kUnspecified matches any side.
  bool HasIo(Io io) const;
  bool HasKind(RecordKind kind) const;

  // True if all lists except the ranks are empty.
  bool TakesWholeRanks() const;

  // True if the key matches; ignores its run, its kind and requests.
  bool Matches(const TensorKey& key) const;

  friend bool operator==(const Selector&, const Selector&) = default;
};

}  // namespace msitd
