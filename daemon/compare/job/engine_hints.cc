// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/measure/rearrangement.h"
#include "daemon/requests/request_documents.h"
#include "protos/status/status.h"

// Suggests how else to compare rows that fail.
namespace msitd::compare {

void ComparisonEngine::ShowHints(v1::Comparison& header) {
  std::vector<std::string> flags = pairing_hints_.Flags();
  if (flags.empty() && WouldCompareByRequest()) {
    flags.emplace_back("--by request");
  }
  header.mutable_pairing_hints()->Assign(flags.begin(), flags.end());
  view_hints_.Show(header);
}

absl::Status ComparisonEngine::AddToHints(const TensorPair& pair,
                                          const PairPlan& plan) {
  if (plan.way == PairPlan::Way::kShapes && !shape_difference_.has_value()) {
    shape_difference_ = {pair.golden->key, pair.target->key};
  }
  const bool is_alone = pair.golden == nullptr || pair.target == nullptr;
  if (is_alone) {
    // The user has already changed names.
    if (row_.verdict() == v1::UNMATCHED && !row_.for_want_of_ranks() &&
        !plan_.matching.renames()) {
      const bool is_golden = pair.golden != nullptr;
      const TensorKey& key = (is_golden ? pair.golden : pair.target)->key;
      pairing_hints_.Add(key.op, key.io, key.index, is_golden);
    }
    return absl::OkStatus();
  }
  // Rows of requests are views, whose tensors are not examined.
  if (row_.verdict() != v1::FAIL || plan_.reading != Reading::kBytes ||
      plan_.matching.by_request()) {
    return absl::OkStatus();
  }
  const double tolerance = DefaultNl2Bound(pair, plan.basis.basis);
  if (!MayBeRearranged(pair, tolerance) || !view_hints_.Wants(pair)) {
    return absl::OkStatus();
  }
  const absl::StatusOr<std::optional<Rearrangement>> found =
      FindRearrangement(pair, tolerance, *golden_, *target_, observer_);
  if (absl::IsCancelled(found.status()) ||
      HasReason(found.status(), ErrorReason::kSourceFailed)) {
    return found.status();
  }
  if (found.ok() && found->has_value()) view_hints_.Add(pair, **found);
  return absl::OkStatus();
}

bool ComparisonEngine::WouldCompareByRequest() {
  const MatchRules& matching = plan_.matching;
  if (!shape_difference_.has_value() || plan_.follow || matching.by_request() ||
      matching.token_offset() != 0) {
    return false;
  }
  for (const auto& [run, key] :
       {std::pair(golden_.get(), shape_difference_->golden),
        std::pair(target_.get(), shape_difference_->target)}) {
    Selector selector;
    selector.ranks = {key.rank};
    selector.tokens = {{key.token, key.token}};
    bool has_requests = false;
    const absl::Status status = requests::VisitRequestDocuments(
        *run, std::move(selector), [this] { return observer_.Check(); },
        [&](const storage::TensorInfo&) -> absl::StatusOr<bool> {
          has_requests = true;
          return false;
        });
    // Without this hint, the comparison is complete nevertheless.
    if (!status.ok() || !has_requests) return false;
  }
  return true;
}

}  // namespace msitd::compare
