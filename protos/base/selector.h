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

// Selects records of a run: those with which every list that is not empty
// agrees. No kinds stand for tensors alone; for that list only, empty is not
// "all". Queries, comparisons and the rules of a capture all select with it,
// but the rules name no kinds; msitd.v1.TensorFilter is its message.
struct Selector {
  // More are refused where one comes in.
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
  // Ids of requests, one of which the token of the rank works at; see
  // protos/base/request.h. Only the store can tell. Rules of a capture and
  // comparisons have none.
  std::vector<std::string> requests = {};

  // True if the one list agrees.
  bool HasRank(int32_t rank) const;
  bool HasDevice(std::string_view device) const;
  bool HasToken(int64_t token) const;
  bool HasOp(std::string_view op) const;
  // kUnspecified agrees with any side.
  bool HasIo(Io io) const;
  bool HasKind(RecordKind kind) const;

  // True if nothing but the ranks is asked for.
  bool TakesWholeRanks() const;

  // True if the key is selected; neither its run nor the kind counts, nor do
  // requests.
  bool Matches(const TensorKey& key) const;

  friend bool operator==(const Selector&, const Selector&) = default;
};

}  // namespace msitd
