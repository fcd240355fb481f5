// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/compare/judge/drift_bounds.h"
#include "daemon/compare/origin/call_tree.h"

namespace msitd::compare {

// The largest errors that the tensors of a group were computed from.
//
// Rounding errors accumulate with the depth of a network. How fast depends on
// the network: residual connections and averages slow it down, attention with
// few large scores speeds it up. A bound that is a constant, or that grows with
// the number of layers, is therefore too tight for some deep networks and too
// loose for all others. Measured errors are better evidence. A tensor whose
// error is at most kDriftGrowthMax times the error that it was computed from
// adds no more than its op could add by rounding, and so many times the default
// bound is tolerable for it.
//
// Thread-compatible.
class MeasuredDrift {
 public:
  // The tree must outlive the object.
  explicit MeasuredDrift(const CallTree& tree);

  // Adds the next event. `error` is its nl2; nullopt if it fails or has no
  // known error.
  void Add(std::optional<double> error, bool fails);

  // Returns the largest error of the tensors that `event` was computed from, as
  // far as they have been added. Returns 0 if there are none. Also returns 0 if
  // the event follows from a tensor that fails, because its error is not one of
  // roundings. State that follows a gradient of its op, such as the accumulated
  // gradient, was computed from that gradient.
  double ErrorOfSources(int32_t event) const;

 private:
  // The largest error of some tensors, and whether one of them fails or follows
  // from one that does.
  struct Seen {
    double error = 0;
    bool has_failed = false;

    void Take(const Seen& other) {
      error = std::max(error, other.error);
      has_failed = has_failed || other.has_failed;
    }
  };
  Seen SourcesOf(int32_t event) const;

  const CallTree& tree_;
  std::vector<Seen> events_;
  // The tensors that each call has received so far. The first entry is for
  // CallTree::kNone.
  std::vector<Seen> seen_;
  // The results of each op's backward pass so far.
  std::map<std::string_view, Seen> gradients_;
};

}  // namespace msitd::compare
