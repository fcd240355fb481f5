// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/kink_reader.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "daemon/compare/measure/element_reader.h"
#include "daemon/compare/origin/pair_facts.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

constexpr uint64_t kBlockElements = uint64_t{1} << 14;
// The gradient of the argument is rounded once. The slope is known up to the
// rounding of the element that shows it.
constexpr double kKinkRoundingsMax = 4;

// The elements of a call in one run, block by block.
class KinkSide {
 public:
  static absl::StatusOr<KinkSide> Open(const KinkedCall& call,
                                       const LogicalTensor* TensorPair::*side,
                                       std::string_view name,
                                       storage::RunReader& run,
                                       WorkObserver& observer) {
    KinkSide out;
    const TensorPair* const pairs[] = {&call.input, &call.grad_output,
                                       &call.grad_input};
    for (size_t i = 0; i < 3; ++i) {
      const LogicalTensor& tensor = *(pairs[i]->*side);
      MSITD_ASSIGN_OR_RETURN(out.readers_[i],
                             ElementReader::Open(tensor, name, run, observer));
    }
    out.roundoff_ = RoundoffOf((call.grad_input.*side)->dtype);
    return out;
  }

  absl::Status Next(uint64_t count) {
    for (size_t i = 0; i < 3; ++i) {
      blocks_[i].clear();
      MSITD_RETURN_IF_ERROR(readers_[i]->Next(count, &blocks_[i]));
    }
    return absl::OkStatus();
  }

  double x(size_t i) const { return blocks_[0][i]; }

  // Returns whether the block has the gradients of a kink whose slope below 0
  // is `slope`, which the first suitable element sets.
  bool IsOfKink(std::optional<double>& slope) const {
    for (size_t i = 0; i < blocks_[0].size(); ++i) {
      const double given = blocks_[1][i];
      const double made = blocks_[2][i];
      const double allowed = kKinkRoundingsMax * roundoff_ * std::fabs(given);
      if (x(i) > 0) {
        if (!(std::fabs(made - given) <= allowed)) return false;
        continue;
      }
      if (!slope.has_value() && given != 0) slope = made / given;
      const double expected = slope.value_or(0) * given;
      if (!(std::fabs(made - expected) <= allowed)) return false;
    }
    return true;
  }

 private:
  // For x, dL/dy and dL/dx.
  std::unique_ptr<ElementReader> readers_[3];
  std::vector<double> blocks_[3];
  double roundoff_ = 0;
};

}  // namespace

absl::StatusOr<std::optional<uint64_t>> CountChangedSigns(
    const KinkedCall& call, const PairRuns& runs, WorkObserver& observer) {
  MSITD_ASSIGN_OR_RETURN(KinkSide golden,
                         KinkSide::Open(call, &TensorPair::golden, "golden",
                                        runs.golden, observer));
  MSITD_ASSIGN_OR_RETURN(KinkSide target,
                         KinkSide::Open(call, &TensorPair::target, "target",
                                        runs.target, observer));
  const uint64_t count = ElementCount(call.input.golden->shape);
  std::optional<double> slope;
  uint64_t changed_count = 0;
  for (uint64_t done = 0; done < count; done += kBlockElements) {
    const uint64_t block = std::min(kBlockElements, count - done);
    MSITD_RETURN_IF_ERROR(golden.Next(block));
    MSITD_RETURN_IF_ERROR(target.Next(block));
    if (!golden.IsOfKink(slope) || !target.IsOfKink(slope)) {
      return std::nullopt;
    }
    for (size_t i = 0; i < block; ++i) {
      changed_count += (golden.x(i) > 0) != (target.x(i) > 0) ? 1 : 0;
    }
  }
  return changed_count;
}

}  // namespace msitd::compare
