// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/op_examiner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/compare/measure/element_reader.h"
#include "daemon/compare/origin/pair_facts.h"
#include "daemon/compare/view/any_order.h"
#include "protos/base/selector.h"
#include "protos/base/shape.h"
#include "protos/base/tensor_key.h"
#include "protos/compute/number/element.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using explain::Elements;
using explain::ExaminedOp;
using explain::kExaminedElementsMax;

bool HasRealElements(const LogicalTensor& tensor) {
  return tensor.kind == RecordKind::kTensor && tensor.has_bytes &&
         !IsComplex(tensor.dtype) && HasAllShards(tensor);
}

// Returns the shape of the first elements of a tensor, at most
// kExaminedElementsMax, as whole indices of a dimension.
std::vector<int64_t> ExaminedShape(std::vector<int64_t> shape) {
  for (int64_t& size : shape) {
    const uint64_t count = ElementCount(shape);
    if (count <= kExaminedElementsMax) break;
    const uint64_t inner = count / static_cast<uint64_t>(size);
    size = static_cast<int64_t>(std::max<uint64_t>(
        1, kExaminedElementsMax / std::max<uint64_t>(inner, 1)));
  }
  return shape;
}

absl::StatusOr<Elements> ReadExamined(const LogicalTensor& tensor,
                                      std::string_view side,
                                      storage::RunReader& run,
                                      WorkObserver& observer) {
  Elements out;
  out.shape = ExaminedShape(tensor.shape);
  const uint64_t count = ElementCount(out.shape);
  std::string bytes;
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<ElementReader> reader,
                         ElementReader::Open(tensor, side, run, observer));
  MSITD_RETURN_IF_ERROR(reader->Next(count, &bytes));
  out.values.resize(count);
  // The shards of a sum have another type than the sum.
  compute::ToDouble(reader->dtype(),
                    reinterpret_cast<const std::byte*>(bytes.data()), count,
                    out.values.data());
  return out;
}

// Returns whether a source of another shape than the output may be a value for
// each channel, or an input of an elementwise op in another arrangement.
bool MayBeInput(const LogicalTensor& source, const LogicalTensor& output) {
  const uint64_t count = ElementCount(source.shape);
  return count <= kExaminedElementsMax &&
         (source.shape.size() == 1 || count == ElementCount(output.shape));
}

// Returns whether an input of an op without parts may determine its result
// although its shape is another one, as the keys of an attention do.
bool MayBeOperand(const LogicalTensor& source, const LogicalTensor& output) {
  return source.shape.size() >= 2 && output.shape.size() >= 3 &&
         ElementCount(source.shape) <= kExaminedElementsMax / 2 &&
         ElementCount(output.shape) <= kExaminedElementsMax / 2;
}

// How a source may be an input of the op, the best first.
enum class InputRank { kSameShape, kOfChannels, kOperand, kNone };

InputRank RankOf(const LogicalTensor& source, const LogicalTensor& output,
                 bool is_op) {
  if (source.shape == output.shape) return InputRank::kSameShape;
  // An empty tensor determines no result.
  if (ElementCount(source.shape) == 0) return InputRank::kNone;
  if (MayBeInput(source, output)) return InputRank::kOfChannels;
  return is_op && MayBeOperand(source, output) ? InputRank::kOperand
                                               : InputRank::kNone;
}

std::string NameOfSource(const TensorKey& key, bool names_op) {
  const std::string name = fmt::format("{}/{}", IoName(key.io), key.index);
  return names_op ? fmt::format("{} {}", key.op, name) : name;
}

// Adds the calls to names that several inputs have. `calls` has one entry for
// each input.
void DistinguishCalls(const std::vector<int32_t>& calls,
                      std::vector<explain::ExaminedInput>& inputs) {
  std::map<std::string, int> counts;
  for (const auto& input : inputs) ++counts[input.name];
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (counts[inputs[i].name] < 2) continue;
    inputs[i].name += fmt::format(" of call {}", calls[i]);
  }
}

// Returns an earlier token of the run at which the op has returned the bytes of
// `tensor`.
std::optional<int64_t> StaleTokenOf(const LogicalTensor& tensor,
                                    storage::RunReader& run,
                                    WorkObserver& observer) {
  const TensorKey& key = tensor.key;
  if (key.token <= 0 || !HasHash(tensor) ||
      key.op.find_first_of("*?") != std::string::npos) {
    return std::nullopt;
  }
  Selector selector;
  selector.ranks = {key.rank};
  selector.tokens = {
      {std::max<int64_t>(0, key.token - kStaleTokensMax), key.token - 1}};
  selector.op_patterns = {key.op};
  selector.ios = {key.io};
  const auto scan = run.Scan(selector, "");
  if (!scan.ok()) return std::nullopt;
  std::optional<int64_t> found;
  storage::TensorInfo earlier;
  for (int count = 0; count < kStaleRecordsMax; ++count) {
    const absl::StatusOr<bool> more =
        (*scan)->Next(earlier, [&observer] { return observer.Check(); });
    if (!more.ok() || !*more) break;
    if (earlier.key.call == key.call && earlier.key.index == key.index &&
        earlier.hash == tensor.hash && earlier.shape == tensor.shape) {
      found = earlier.key.token;
    }
  }
  return found;
}

}  // namespace

bool CanBeExamined(const TensorPair& pair) {
  if (pair.golden == nullptr || pair.target == nullptr ||
      !HasRealElements(*pair.golden) || !HasRealElements(*pair.target) ||
      IsInAnyOrder(*pair.golden, *pair.target)) {
    return false;
  }
  const uint64_t count = ElementCount(pair.golden->shape);
  if (pair.golden->shape == pair.target->shape) return count > 0;
  return count == ElementCount(pair.target->shape) &&
         count >= explain::kExaminedElementsMin &&
         count <= kExaminedElementsMax;
}

absl::StatusOr<ExaminedOp> ReadExaminedOp(
    const TensorPair& pair, const std::vector<const TensorPair*>& sources,
    bool name_ops, double input_error, DType computed_in, const PairRuns& runs,
    WorkObserver& observer) {
  if (!CanBeExamined(pair)) {
    return absl::FailedPreconditionError("this pair cannot be examined");
  }
  ExaminedOp out;
  std::vector<int32_t> calls;  // By input.
  out.dtype = pair.target->dtype;
  out.noise = explain::NoiseOf(input_error, CoarsestOf(pair, computed_in));
  MSITD_ASSIGN_OR_RETURN(
      out.golden, ReadExamined(*pair.golden, "golden", runs.golden, observer));
  MSITD_ASSIGN_OR_RETURN(
      out.target, ReadExamined(*pair.target, "target", runs.target, observer));
  for (const InputRank rank :
       {InputRank::kSameShape, InputRank::kOfChannels, InputRank::kOperand}) {
    for (const TensorPair* const source : sources) {
      const LogicalTensor& tensor = *source->golden;
      if (out.inputs.size() == explain::kExaminedInputsMax) break;
      if (!HasRealElements(tensor) ||
          RankOf(tensor, *pair.golden, /*is_op=*/!name_ops) != rank) {
        continue;
      }
      absl::StatusOr<Elements> elements =
          ReadExamined(tensor, "golden", runs.golden, observer);
      if (absl::IsCancelled(elements.status())) return elements.status();
      if (!elements.ok()) continue;
      out.inputs.push_back(
          {NameOfSource(tensor.key, name_ops), *std::move(elements)});
      calls.push_back(tensor.key.call);
    }
  }
  DistinguishCalls(calls, out.inputs);
  // Few elements repeat by chance.
  if (out.golden.values.size() < explain::kExaminedElementsMin) return out;
  out.stale_token = StaleTokenOf(*pair.target, runs.target, observer);
  // A result that the golden run repeats as well need not be stale.
  if (out.stale_token.has_value() &&
      StaleTokenOf(*pair.golden, runs.golden, observer).has_value()) {
    out.stale_token.reset();
  }
  return out;
}

}  // namespace msitd::compare
