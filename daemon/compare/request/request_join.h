// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/request/request_book.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Maximum number of tensors that are put together for one side of a row. A part
// of a request that is in more tokens of the other run is divided into several
// rows.
inline constexpr size_t kJoinedTokensMax = 60;

// Positions of a request that one piece has.
struct PieceRange {
  RequestPiece piece;
  RowRange positions;  // Within those of the piece.

  friend bool operator==(const PieceRange&, const PieceRange&) = default;
};

// The same positions of a request in both runs.
struct JoinedPart {
  // Ids of the request; they differ only if requests were paired by their
  // order.
  std::string golden_id;
  std::string target_id;
  // Ascending and without overlaps. The ranges of each run have the same
  // positions in total. All golden ranges are of one token. Both are empty if
  // there is only something that is missing.
  std::vector<PieceRange> golden;
  std::vector<PieceRange> target;
  // The number of the rank that has the target ranges; see RequestJoin.
  int32_t target_number = 0;
  // The golden run has the request on the rank of that number too, so that
  // target tensors without a counterpart are reported there.
  bool is_of_other_rank = false;
  // Positions of the golden piece that the target run does not have.
  std::vector<RowRange> missing;
  // It has the last of the joined positions of the golden piece.
  bool is_last_of_piece = false;
  // Positions before this one have their final values after the golden token,
  // and after the last target token: they are not processed again.
  int64_t golden_settled = 0;
  int64_t target_settled = 0;

  friend bool operator==(const JoinedPart&, const JoinedPart&) = default;
};

// Joins the requests of two runs by their ids and the positions of their
// sequences.
//
// One run may process a prompt at once, the other in chunks or as a row of a
// padded batch. Tokens and rows of tensors then differ, but each position of
// each request is computed once in each run. If a position is processed again,
// as after speculative steps whose result was rejected, the last time counts,
// because the others did not contribute to the result.
//
// The order and the number of the rows of a comparison follow the golden run:
// a part belongs to the golden token that has its positions.
//
// Ranks are numbers that both runs share. A request that several ranks of the
// target run have is taken from the one with the number of the golden rank, or
// else from the first one.
//
// Immutable, hence thread-safe.
class RequestJoin {
 public:
  using Requests = std::map<int32_t, std::vector<RequestHistory>>;
  // `selected` are the ids of the golden requests to join; empty for all.
  // `has_token` selects golden tokens; empty for all. Unselected tokens still
  // determine positions. `stop` is called regularly.
  //
  // Errors: those of `stop`.
  static absl::StatusOr<std::unique_ptr<const RequestJoin>> Create(
      Requests golden, Requests target, std::vector<std::string> selected,
      std::function<bool(int64_t)> has_token, storage::StopCheck stop);
  RequestJoin(const RequestJoin&) = delete;
  RequestJoin& operator=(const RequestJoin&) = delete;

  // Golden ranks with the tokens, ascending, for which PartsOf returns parts.
  const std::map<int32_t, std::vector<int64_t>>& tokens() const {
    return tokens_;
  }

  // Returns the parts of a golden rank and token, by request in the order of
  // their first appearance.
  std::vector<JoinedPart> PartsOf(int32_t number, int64_t token) const;

  bool HasGolden(int32_t number) const { return golden_.contains(number); }
  // Returns the requests of a golden rank; it must have some.
  const std::vector<RequestHistory>& GoldenRequestsOf(int32_t number) const {
    return golden_.at(number);
  }

  // Selected requests that both runs have, that only one run has, and that were
  // paired although their ids differ. Each is counted once, on however many
  // ranks it is. If requests are selected, those of the target run only are not
  // counted.
  size_t joined_count() const { return joined_count_; }
  size_t golden_only_count() const { return golden_only_count_; }
  size_t target_only_count() const { return target_only_count_; }
  size_t paired_by_order_count() const { return paired_by_order_count_; }
  // Positions of joined requests in the target run that the golden run lacks.
  uint64_t target_only_positions() const { return target_only_positions_; }

 private:
  // Which piece has the last word on which positions. By first position.
  struct Interval {
    int64_t end = 0;
    size_t piece = 0;
  };
  using Owners = std::map<int64_t, Interval>;
  // Positions of a request, ascending, with the largest token that is
  // responsible for one of the positions up to them.
  using LastTokens = std::vector<std::pair<int64_t, int64_t>>;
  struct OwnersOfTarget {
    Owners owners;
    LastTokens last_tokens;
  };

  // A request of a golden rank, with its counterpart.
  struct Pair {
    const RequestHistory* golden = nullptr;
    const RequestHistory* target = nullptr;  // Null if there is none.
    int32_t target_number = 0;
    bool is_of_other_rank = false;
    // The positions for which each golden piece has the last word.
    std::vector<std::vector<RowRange>> own_positions;
    Owners golden_owners;
    LastTokens golden_last_tokens;
    std::shared_ptr<const OwnersOfTarget> target_owners;
  };
  // A piece of a pair.
  struct PieceOfPair {
    size_t pair = 0;
    size_t piece = 0;
  };

  RequestJoin(Requests golden, Requests target,
              std::vector<std::string> selected,
              std::function<bool(int64_t)> has_token)
      : golden_(std::move(golden)),
        target_(std::move(target)),
        selected_(std::move(selected)),
        has_token_(std::move(has_token)) {}

  absl::Status Join(storage::StopCheck stop);
  static Owners OwnersOf(const RequestHistory& history);
  static LastTokens LastTokensOf(const RequestHistory& history,
                                 const Owners& owners);
  // Returns the first position that is processed after a token, or the largest
  // number if there is none.
  static int64_t SettledAt(const LastTokens& tokens, int64_t token);
  static std::vector<PieceRange> RangesIn(const RequestHistory& history,
                                          const Owners& owners,
                                          RowRange within);
  // Pairs ids of requests that only one run has, if their order is sufficient
  // evidence. Returns target ids by golden ids.
  std::map<std::string, std::string> PairByOrder() const;
  // The requests of a run by id, then rank.
  using RequestTable =
      std::map<std::string_view, std::map<int32_t, const RequestHistory*>>;
  static RequestTable TableOf(const Requests& requests);
  // Tables of both runs, and the owners of target requests.
  struct Tables {
    RequestTable golden;
    RequestTable target;
    std::map<std::string, std::string> renamed;
    std::map<const RequestHistory*, std::shared_ptr<const OwnersOfTarget>>
        owners;
  };
  void AddPair(int32_t number, const RequestHistory& golden, Tables& tables);
  void Count(const std::map<std::string, std::string>& renamed);
  void AddParts(const Pair& pair, const RequestPiece& piece, size_t number,
                std::vector<JoinedPart>& out) const;

  bool IsSelected(const std::string& id) const;

  Requests golden_;
  Requests target_;
  std::vector<std::string> selected_;
  std::function<bool(int64_t)> has_token_;
  std::vector<Pair> pairs_;
  std::map<std::pair<int32_t, int64_t>, std::vector<PieceOfPair>> pieces_;
  std::map<int32_t, std::vector<int64_t>> tokens_;
  size_t joined_count_ = 0;
  size_t golden_only_count_ = 0;
  size_t target_only_count_ = 0;
  size_t paired_by_order_count_ = 0;
  uint64_t target_only_positions_ = 0;
};

}  // namespace msitd::compare
