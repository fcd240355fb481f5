// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/coarsest_difference.h"

#include <map>
#include <string>
#include <tuple>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/compare/judge/basis.h"
#include "daemon/compare/judge/precision.h"
#include "protos/base/selector.h"

namespace msitd::compare {
namespace {

void ForEachOutput(const RunRank& of, int64_t token, storage::StopCheck stop,
                   absl::FunctionRef<void(const storage::TensorInfo&)> take) {
  Selector selector;
  selector.ranks = {of.rank};
  selector.tokens = {{0, token - 1}};
  selector.ios = {Io::kOutput};
  const auto scan = of.run->Scan(selector, "");
  if (!scan.ok()) return;
  storage::TensorInfo tensor;
  for (int count = 0; count < kTypedRecordsMax; ++count) {
    const absl::StatusOr<bool> more = (*scan)->Next(tensor, stop);
    if (!more.ok() || !*more) return;
    take(tensor);
  }
}

// Outputs of both runs.
class Differences {
 public:
  void Add(DType golden, DType target, bool is_equal) {
    ++count_;
    if (golden != target) {
      ++other_count_;
      other_ = Coarser(other_, Coarser(golden, target));
    } else if (!is_equal) {
      common_ = Coarser(common_, target);
    }
  }

  DType Coarsest() const {
    return AreExceptions(other_count_, count_) ? common_
                                               : Coarser(common_, other_);
  }

 private:
  DType common_ =
      DType::kUnspecified;  // From outputs with one type in both runs.
  DType other_ = DType::kUnspecified;
  int64_t count_ = 0;
  int64_t other_count_ = 0;
};

}  // namespace

DType CoarsestDifference(const RunRank& golden, const RunRank& target,
                         int64_t token, storage::StopCheck stop) {
  using Name = std::tuple<int64_t, std::string, int32_t, std::string>;
  const auto name_of = [](const TensorKey& key) {
    return Name(key.token, key.op, key.call, key.index);
  };
  struct Value {
    DType dtype;
    ContentHash hash;
  };
  std::map<Name, Value> values;
  ForEachOutput(golden, token, stop, [&](const storage::TensorInfo& tensor) {
    values[name_of(tensor.key)] = {tensor.dtype, tensor.hash};
  });
  Differences differences;
  ForEachOutput(target, token, stop, [&](const storage::TensorInfo& tensor) {
    const auto found = values.find(name_of(tensor.key));
    if (found == values.end()) return;
    const Value& value = found->second;
    differences.Add(value.dtype, tensor.dtype, value.hash == tensor.hash);
  });
  return differences.Coarsest();
}

DType CoarsestDifference(const std::vector<TensorPair>& pairs) {
  Differences differences;
  for (const TensorPair& pair : pairs) {
    if (pair.golden == nullptr || pair.target == nullptr ||
        pair.golden->key.io != Io::kOutput) {
      continue;
    }
    differences.Add(PrecisionOf(*pair.golden), PrecisionOf(*pair.target),
                    !pair.golden->is_rearranged &&
                        !pair.target->is_rearranged &&
                        pair.golden->hash == pair.target->hash);
  }
  return differences.Coarsest();
}

}  // namespace msitd::compare
