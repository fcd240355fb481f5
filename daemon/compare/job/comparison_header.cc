// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_header.h"

#include <chrono>
#include <string>

#include "daemon/compare/job/run_ranks_message.h"
#include "google/protobuf/util/time_util.h"

namespace msitd::compare {
namespace {

void ToMessage(const RunLosses& losses, v1::RunLosses& out) {
  out.set_dropped_count(static_cast<int64_t>(losses.dropped_count));
  out.set_truncated_count(static_cast<int64_t>(losses.truncated_count));
  out.set_incomplete_count(static_cast<int64_t>(losses.incomplete_count));
  out.set_lost_count(static_cast<int64_t>(losses.lost_count));
  out.set_unread_place_count(static_cast<int64_t>(losses.unread_place_count));
}

void AddSilentRanks(const std::string& run,
                    const std::vector<Outlook::Silent>& ranks,
                    v1::Comparison& header) {
  for (const Outlook::Silent& rank : ranks) {
    if (header.silent_ranks_size() == static_cast<int>(kSilentRanksMax)) return;
    v1::SilentRank& out = *header.add_silent_ranks();
    out.set_run(run);
    out.set_rank(rank.rank);
    out.set_has_finished(rank.has_finished);
    *out.mutable_silent_since() =
        google::protobuf::util::TimeUtil::MillisecondsToTimestamp(
            std::chrono::duration_cast<std::chrono::milliseconds>(
                rank.since.time_since_epoch())
                .count());
  }
}

}  // namespace

void ShowRanks(const storage::RunRanks& golden, const storage::RunRanks& target,
               v1::Comparison& header) {
  header.clear_golden_ranks();
  header.clear_target_ranks();
  ToMessage(golden, *header.mutable_golden_ranks());
  ToMessage(target, *header.mutable_target_ranks());
  UpdatePartial(header);
}

void ShowLosses(const RunLosses& golden, const RunLosses& target,
                v1::Comparison& header) {
  header.clear_golden_losses();
  header.clear_target_losses();
  if (golden != RunLosses()) {
    ToMessage(golden, *header.mutable_golden_losses());
  }
  if (target != RunLosses()) {
    ToMessage(target, *header.mutable_target_losses());
  }
  UpdatePartial(header);
}

void ShowRequests(const RequestJoin& join, v1::Comparison& header) {
  const auto count = [](uint64_t number) {
    return static_cast<int64_t>(number);
  };
  header.set_joined_request_count(count(join.joined_count()));
  header.set_golden_only_request_count(count(join.golden_only_count()));
  header.set_target_only_request_count(count(join.target_only_count()));
  header.set_renamed_request_count(count(join.paired_by_order_count()));
  header.set_target_only_position_count(count(join.target_only_positions()));
}

void ShowSilentRanks(const std::vector<Outlook::Silent>& golden,
                     const std::vector<Outlook::Silent>& target,
                     v1::Comparison& header) {
  header.clear_silent_ranks();
  AddSilentRanks(header.golden_run(), golden, header);
  AddSilentRanks(header.target_run(), target, header);
}

void UpdatePartial(v1::Comparison& header) {
  header.set_partial(header.golden_ranks().partial() ||
                     header.target_ranks().partial() ||
                     header.has_golden_losses() || header.has_target_losses() ||
                     header.not_compared_count() > 0);
}

void UpdateMayDivergeBefore(std::optional<int64_t> first_absent_token,
                            v1::Comparison& header) {
  const int64_t token = header.first_divergence().token();
  const bool is_rank_absent =
      first_absent_token.has_value() && *first_absent_token <= token;
  // It is not known at which token a lost record was recorded.
  const bool are_records_lost =
      header.has_golden_losses() || header.has_target_losses();
  const bool is_row_not_compared = header.has_first_not_compared() &&
                                   header.first_not_compared().token() <= token;
  // Ranks send each other data. An absent rank may therefore have diverged
  // first even at the same token.
  header.set_may_diverge_before(
      header.has_first_divergence() &&
      (is_rank_absent || are_records_lost || is_row_not_compared));
}

}  // namespace msitd::compare
