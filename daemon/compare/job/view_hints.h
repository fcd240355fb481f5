// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/measure/rearrangement.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {

// Suggests views for failing rows whose tensors are rearrangements of each
// other.
//
// Examining a pair reads its elements, so only few pairs are examined: the
// first ones of each name, where numbers that are parts of names do not matter.
// A flag covers all tensors of such a name, or several names, if its pattern
// matches no tensors that do not have the finding. Otherwise it names ops.
//
// Thread-compatible.
class ViewHints {
 public:
  // Limits for the pairs that are examined, in total and for each name.
  static constexpr int kExaminedMax = 16;
  static constexpr int kExaminedPerNameMax = 2;
  // Limits for the names that are kept, for the groups whose names are
  // collected, and for flags of one finding.
  static constexpr size_t kNamesMax = 4096;
  static constexpr int kGroupsMax = 4;
  static constexpr size_t kFlagsMax = 8;

  // Adds a failing pair that may be rearranged. Returns whether to examine it.
  bool Wants(const TensorPair& pair);
  // Adds the result for a pair that was examined.
  void Add(const TensorPair& pair, const Rearrangement& found);

  // Adds the names of all pairs of the group that Add was called for. Called at
  // the end of each group.
  void EndGroup(const TensorGroup& group);

  // Sets the hints of the comparison.
  void Show(v1::Comparison& comparison) const;

 private:
  // An op whose numbers are replaced with `*`, an io and an index.
  using Name = std::tuple<std::string, Io, std::string>;
  struct FailingTensors {
    int examined = 0;
    int64_t count = 0;
    std::set<std::string> ops;  // The first ones.
  };
  struct RearrangedTensors {
    std::string tensor;  // The first one.
    std::set<Name> names;
  };
  // The names of one side.
  struct SideNames {
    std::map<Name, FailingTensors> failures;
    std::set<Name> all;
  };

  static Name NameOf(const TensorKey& key);
  SideNames& SideOf(bool is_golden) { return is_golden ? golden_ : target_; }
  std::vector<std::string> PatternsOf(const Rearrangement& view,
                                      const RearrangedTensors& found) const;

  SideNames golden_;
  SideNames target_;
  std::map<Rearrangement, RearrangedTensors> found_;
  int examined_ = 0;
  int groups_ = 0;
  bool has_news_ = false;
};

}  // namespace msitd::compare
