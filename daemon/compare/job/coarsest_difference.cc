// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/coarsest_difference.h"

#include <map>
#include <string>
#include <tuple>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/compare/judge/basis.h"
#include "protos/base/selector.h"

namespace msitd::compare {
namespace {

void ForEachOutput(const RunRank& of, int64_t begin, int64_t end,
                   storage::StopCheck stop,
                   absl::FunctionRef<void(const storage::TensorInfo&)> take) {
  Selector selector;
  selector.ranks = {of.rank};
  selector.tokens = {{begin, end - 1}};
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

}  // namespace

DType CoarsestDifference(const RunRank& golden, const RunRank& target,
                         int64_t begin, int64_t end, storage::StopCheck stop) {
  using Name = std::tuple<int64_t, std::string, int32_t, std::string>;
  const auto name_of = [](const TensorKey& key) {
    return Name(key.token, key.op, key.call, key.index);
  };
  struct Value {
    DType dtype;
    ContentHash hash;
  };
  std::map<Name, Value> values;
  ForEachOutput(golden, begin, end, stop,
                [&](const storage::TensorInfo& tensor) {
                  values[name_of(tensor.key)] = {tensor.dtype, tensor.hash};
                });
  DType common =
      DType::kUnspecified;  // From outputs with one type in both runs.
  DType other = DType::kUnspecified;
  int64_t outputs = 0;
  int64_t other_outputs = 0;
  ForEachOutput(target, begin, end, stop,
                [&](const storage::TensorInfo& tensor) {
                  const auto found = values.find(name_of(tensor.key));
                  if (found == values.end()) return;
                  const Value& value = found->second;
                  ++outputs;
                  if (value.dtype != tensor.dtype) {
                    ++other_outputs;
                    other = Coarser(other, Coarser(value.dtype, tensor.dtype));
                  } else if (value.hash != tensor.hash) {
                    common = Coarser(common, tensor.dtype);
                  }
                });
  return AreExceptions(other_outputs, outputs) ? common
                                               : Coarser(common, other);
}

}  // namespace msitd::compare
