// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/lone_conversions.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {
namespace {

using CallKey = std::pair<std::string_view, int32_t>;

// The arguments and the result of a call in one run.
struct CallTensors {
  std::vector<const LogicalTensor*> inputs;
  const LogicalTensor* output = nullptr;
  bool has_other_outputs = false;

  void Add(const LogicalTensor& tensor) {
    if (!IsFloatingPoint(tensor.dtype)) return;
    if (tensor.key.io == Io::kInput) {
      inputs.push_back(&tensor);
    } else if (tensor.key.io == Io::kOutput) {
      has_other_outputs = has_other_outputs || output != nullptr;
      output = &tensor;
    }
  }

  bool IsKnown() const {
    return output != nullptr && !has_other_outputs && !inputs.empty();
  }

  bool ReturnsArgument() const {
    return IsKnown() && std::any_of(inputs.begin(), inputs.end(),
                                    [&](const LogicalTensor* input) {
                                      return input->dtype == output->dtype &&
                                             input->shape == output->shape &&
                                             HasHash(*input) &&
                                             input->hash == output->hash;
                                    });
  }

  bool Converts() const {
    return IsKnown() && std::all_of(inputs.begin(), inputs.end(),
                                    [&](const LogicalTensor* input) {
                                      return input->dtype != output->dtype;
                                    });
  }
};

bool IsGradient(const TensorPair& pair) {
  return pair.golden != nullptr && pair.target != nullptr &&
         (pair.golden->key.io == Io::kGradOutput ||
          pair.golden->key.io == Io::kGradInput);
}

CallKey CallOf(const LogicalTensor& tensor) {
  return {tensor.key.op, tensor.key.call};
}

}  // namespace

std::vector<Converts> LoneConversionsOf(const std::vector<TensorPair>& pairs) {
  std::map<CallKey, CallTensors> golden;
  std::map<CallKey, CallTensors> target;
  for (const TensorPair& pair : pairs) {
    if (!IsGradient(pair)) continue;
    golden.try_emplace(CallOf(*pair.golden));
    target.try_emplace(CallOf(*pair.target));
  }
  if (golden.empty()) return {};
  const auto add = [](const LogicalTensor* tensor,
                      std::map<CallKey, CallTensors>& calls) {
    if (tensor == nullptr) return;
    const auto call = calls.find(CallOf(*tensor));
    if (call != calls.end()) call->second.Add(*tensor);
  };
  for (const TensorPair& pair : pairs) {
    add(pair.golden, golden);
    add(pair.target, target);
  }
  std::vector<Converts> out(pairs.size(), Converts::kNoneOrBoth);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (!IsGradient(pairs[i])) continue;
    const CallTensors& of_golden = golden[CallOf(*pairs[i].golden)];
    const CallTensors& of_target = target[CallOf(*pairs[i].target)];
    if (of_golden.ReturnsArgument() && of_target.Converts()) {
      out[i] = Converts::kOnlyTarget;
    } else if (of_target.ReturnsArgument() && of_golden.Converts()) {
      out[i] = Converts::kOnlyGolden;
    }
  }
  return out;
}

}  // namespace msitd::compare
