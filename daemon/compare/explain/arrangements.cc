// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string>

#include "absl/status/status.h"
#include "daemon/compare/explain/hypothesis.h"
#include "daemon/compare/measure/rearrangement.h"
#include "daemon/compare/work_observer.h"

// Elements in another arrangement, as the suggestions of views find them.
namespace msitd::compare::explain {
namespace {

// The search is bounded by the size of the tensors.
class NeverStops final : public WorkObserver {
 public:
  absl::Status Check() override { return absl::OkStatus(); }
  void OnRead(uint64_t /*bytes*/) override {}
};

}  // namespace

void TestArrangements(Examination& pair) {
  NeverStops observer;
  const ExaminedOp& op = pair.op();
  const auto found = FindArrangement(
      {op.golden.values, op.golden.shape, op.dtype},
      {op.target.values, op.target.shape, op.dtype}, pair.limit(), observer);
  if (!found.ok() || !found->has_value()) return;
  const Rearrangement& arrangement = (*found)->arrangement;
  pair.Offer({Kind::kArrangement,
              fmt::format("{}: {} of the {} tensor is the other one",
                          FindingOf(arrangement.kind), arrangement.view,
                          arrangement.is_of_golden ? "golden" : "target"),
              {},
              1,
              0,
              (*found)->error,
              op.golden.shape == op.target.shape ? std::optional<double>()
                                                 : kInfinite});
}

}  // namespace msitd::compare::explain
