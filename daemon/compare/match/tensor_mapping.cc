// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/tensor_mapping.h"

#include <utility>

#include "daemon/compare/match/target_names.h"
#include "protos/base/mapping_limits.h"
#include "protos/status/status.h"

namespace msitd::compare {

TensorMapping::Form TensorMapping::FormOf(const MappedTensor& tensor) {
  if (tensor.is_whole_op()) return tensor.call.has_value() ? kOpAtCall : kOp;
  return tensor.call.has_value() ? kTensorAtCall : kTensor;
}

std::string TensorMapping::NameOf(Form form, const TensorKey& key) {
  // Parts do not contain NUL. Call numbers are not empty, so that names of
  // different forms differ.
  std::string out = key.op;
  const auto add = [&out](std::string_view part) {
    out += '\0';
    out += part;
  };
  if (form == kOpAtCall || form == kTensorAtCall) {
    add(std::to_string(key.call));
  }
  if (form == kTensor || form == kTensorAtCall) {
    add("");
    add(IoName(key.io));
    add(key.index);
  }
  return out;
}

std::string TensorMapping::NameOf(const MappedTensor& tensor) {
  TensorKey key;
  key.op = tensor.op;
  key.call = tensor.call.value_or(0);
  key.io = tensor.io;
  key.index = tensor.index;
  return NameOf(FormOf(tensor), key);
}

absl::Status TensorMapping::AddTarget(const MappedPair& pair) {
  const auto [found, is_new] =
      by_target_.emplace(NameOf(pair.target), pairs_.size());
  if (!is_new) {
    const MappedPair& first = pairs_[found->second];
    if (!first.has_view() || !pair.has_view()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "line {} has the same target{}", first.line,
                        first.has_view() || pair.has_view()
                            ? "; both lines need a view"
                            : "");
    }
    same_target_[found->second].push_back(pairs_.size());
  }
  forms_[FormOf(pair.target)] = true;
  return absl::OkStatus();
}

absl::Status TensorMapping::AddGolden(const MappedPair& pair) {
  const auto [found, is_new] =
      by_golden_.emplace(NameOf(pair.golden), pairs_.size());
  if (!is_new && (pair.is_alone() || pairs_[found->second].is_alone())) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "line {} has the same golden tensor, and one of the two "
                      "says that it belongs to none",
                      pairs_[found->second].line);
  }
  forms_[FormOf(pair.golden)] = true;
  return absl::OkStatus();
}

absl::Status TensorMapping::Add(MappedPair pair) {
  const bool is_alone = pair.is_alone();
  if (!is_alone && pair.target.is_whole_op() != pair.golden.is_whole_op()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "target and golden need both io and index, or neither");
  }
  if (pair.has_view() && (is_alone || pair.target.is_whole_op())) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "a view needs target and golden with io and index");
  }
  if (pairs_.size() == kMappingPairsMax) {
    return MakeStatus(absl::StatusCode::kInvalidArgument, "more than {} pairs",
                      kMappingPairsMax);
  }
  if (!is_alone) {
    if (!pair.target.call.has_value()) pair.target.call = pair.golden.call;
    if (!pair.golden.call.has_value()) pair.golden.call = pair.target.call;
  }
  if (!pair.target.op.empty()) MSITD_RETURN_IF_ERROR(AddTarget(pair));
  if (!pair.golden.op.empty()) MSITD_RETURN_IF_ERROR(AddGolden(pair));
  has_views_ = has_views_ || pair.has_view();
  pairs_.push_back(std::move(pair));
  return absl::OkStatus();
}

std::vector<size_t> TensorMapping::WithSameTarget(size_t number) const {
  std::vector<size_t> out = {number};
  const auto found = same_target_.find(number);
  if (found != same_target_.end()) {
    out.insert(out.end(), found->second.begin(), found->second.end());
  }
  return out;
}

std::optional<size_t> TensorMapping::Find(
    const std::unordered_map<std::string, size_t>& numbers,
    const TensorKey& key) const {
  for (const Form form : {kTensorAtCall, kTensor, kOpAtCall, kOp}) {
    if (!forms_[form]) continue;
    const auto found = numbers.find(NameOf(form, key));
    if (found != numbers.end()) return found->second;
  }
  return std::nullopt;
}

std::optional<size_t> TensorMapping::Find(const TensorKey& target) const {
  return Find(by_target_, target);
}

std::optional<size_t> TensorMapping::FindGolden(const TensorKey& golden) const {
  return Find(by_golden_, golden);
}

std::string TensorMapping::GoldenName(size_t number,
                                      const TensorKey& target) const {
  const MappedTensor& golden = pairs_[number].golden;
  TensorKey key;
  key.call = golden.call.value_or(target.call);
  key.io = golden.is_whole_op() ? target.io : golden.io;
  key.index = golden.is_whole_op() ? target.index : golden.index;
  return PairName(golden.op, key);
}

}  // namespace msitd::compare
