// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/read_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// The elements of a source that a pass needs.
struct Extent {
  uint64_t begin = std::numeric_limits<uint64_t>::max();
  uint64_t end = 0;

  uint64_t size() const { return end > begin ? end - begin : 0; }
};

// The first pass of a term.
struct Pass {
  uint64_t elements = 0;
  std::vector<Extent> extents;  // One for each source.
};

Pass FirstPass(const Gather& term, size_t source_count, uint64_t count) {
  Pass out;
  out.extents.resize(source_count);
  size_t runs = 0;
  while (out.elements < count && runs < kPassRunsMax) {
    const uint64_t listed =
        std::min<uint64_t>(count - out.elements, kPassRunsMax);
    term.VisitRuns(out.elements, listed, [&](const GatherRun& run) {
      ++runs;
      Extent& extent = out.extents[run.leaf];
      extent.begin = std::min(extent.begin, run.from);
      extent.end = std::max(
          extent.end, run.from + (run.count - 1) * run.stride + run.length);
    });
    out.elements += listed;
  }
  return out;
}

bool IsSmall(const ViewLeaf& leaf) {
  return ElementCount(leaf.shape) * ElementBytes(leaf.dtype) <= kPartBytes;
}

// Returns whether reading a term in order may read a tensor more than once.
bool MayReadAgain(const Gather& term, std::span<const ViewLeaf> leaves) {
  if (term.is_ascending()) return false;
  for (uint32_t i = 0; i < leaves.size(); ++i) {
    if (term.uses(i) && !IsSmall(leaves[i])) return true;
  }
  return false;
}

}  // namespace

uint64_t EstimatedReads(const ViewPlan& plan,
                        std::span<const ViewLeaf> leaves) {
  const uint64_t count = ElementCount(plan.shape);
  uint64_t width = ElementBytes(plan.dtype);
  for (const DType dtype : plan.term_dtypes) {
    width = std::max<uint64_t>(width, ElementBytes(dtype));
  }
  double most = 1;
  for (const Gather& term : plan.terms) {
    if (count == 0 || !MayReadAgain(term, leaves)) continue;
    const Pass pass =
        FirstPass(term, leaves.size(), std::min(count, kPassBytesMax / width));
    const double passes =
        static_cast<double>(count) / static_cast<double>(pass.elements);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (IsSmall(leaves[i])) continue;
      const auto size = static_cast<double>(ElementCount(leaves[i].shape));
      const auto extent = static_cast<double>(pass.extents[i].size());
      most = std::max(most, passes * extent / size);
    }
  }
  return static_cast<uint64_t>(std::ceil(most));
}

absl::Status CheckReadCost(const ViewPlan& plan,
                           std::span<const ViewLeaf> leaves) {
  const uint64_t reads = EstimatedReads(plan, leaves);
  if (reads <= kViewReadsMax) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kFailedPrecondition,
                    "the view would read the tensor about {} times, at most "
                    "{}; view a slice of it",
                    reads, kViewReadsMax);
}

}  // namespace msitd::compare
