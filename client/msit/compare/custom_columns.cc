// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/custom_columns.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "client/foreign/formats/tensor_file.h"
#include "client/msit/tensor/tensor.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

// The position in msit's 24 columns.
constexpr size_t kFirstMetricColumn = 16;
constexpr size_t kReasonColumn = 23;

absl::StatusOr<Tensor> ReadShared(const std::string& path,
                                  const TensorKey& key) {
  MSITD_ASSIGN_OR_RETURN(const auto file, formats::OpenTensorFile(path, {}));
  for (size_t i = 0; i < file->tensor_count(); ++i) {
    const formats::ForeignTensor* const tensor = file->GoTo(i);
    if (tensor->io == key.io && tensor->index == key.index) {
      return ReadTensorAt(*file, i);
    }
  }
  // A container may specify neither for its only tensor.
  if (file->tensor_count() == 1) return ReadTensorAt(*file, 0);
  return MakeStatus(absl::StatusCode::kNotFound, "{} {} is not in it",
                    IoName(key.io), key.index);
}

absl::StatusOr<Tensor> ReadOne(const FileIndex::File& file,
                               const TensorKey& key) {
  if (file.path.empty()) {
    return MakeStatus(absl::StatusCode::kNotFound, "{} has no file", key.op);
  }
  if (!file.is_shared) return ReadTensor(file.path);
  auto tensor = ReadShared(file.path, key);
  if (!tensor.ok()) return Annotate(tensor.status(), file.path);
  return tensor;
}

absl::StatusOr<Tensor> Read(const TensorPlace& place) {
  if (place.pieces.empty()) return ReadOne(place.file, place.key);
  std::vector<Tensor> pieces;
  for (const FileIndex::File& file : place.pieces) {
    MSITD_ASSIGN_OR_RETURN(Tensor piece, ReadOne(file, place.key));
    pieces.push_back(std::move(piece));
  }
  return Join(pieces, place.dim);
}

ask::Cell CellOf(const ask::PairAnswer& answer) {
  const std::string& shown = answer.shown;
  if (!answer.has_value) return shown;
  // NaN is an empty cell in all columns.
  if (std::isnan(answer.value)) return {};
  if (ask::PythonFloat(answer.value) == shown) {
    return ask::Real{answer.value, ask::RealStyle::kPython};
  }
  int64_t integer = 0;
  const char* const end = shown.data() + shown.size();
  const auto [stop, error] = std::from_chars(shown.data(), end, integer);
  if (error == std::errc() && stop == end) return integer;
  return shown;
}

}  // namespace

void AddReason(const std::string& text, ask::Cells& cells) {
  if (text.empty()) return;
  ask::Cell& reason = cells[kReasonColumn];
  const std::string before = ask::TextOf(reason);
  reason = before.empty() ? text : before + " " + text;
}

CustomColumns::CustomColumns(CustomAlgorithms& algorithms, bool is_compat)
    : algorithms_(algorithms),
      names_(algorithms.names()),
      is_compat_(is_compat) {}

void CustomColumns::AddHeadings(std::vector<std::string>& headings) const {
  if (is_compat_) return;
  headings.insert(headings.end(), names_.begin(), names_.end());
}

absl::Status CustomColumns::AddCells(const TensorPlace& golden,
                                     const TensorPlace& my, ask::Cells& cells) {
  if (names_.empty()) return absl::OkStatus();
  std::vector<ask::PairAnswer> answers(names_.size());
  const bool has_metrics =
      !std::holds_alternative<std::monostate>(cells[kFirstMetricColumn]);
  if (has_metrics) {
    const auto golden_tensor = Read(golden);
    const auto my_tensor = Read(my);
    if (golden_tensor.ok() && my_tensor.ok() &&
        ElementCount(golden_tensor->shape) != ElementCount(my_tensor->shape)) {
      // A rope uses one row of a table.
      answers.front().text = "only a part of a file is compared.";
    } else if (golden_tensor.ok() && my_tensor.ok()) {
      MSITD_ASSIGN_OR_RETURN(answers,
                             algorithms_.Measure(*golden_tensor, *my_tensor));
    } else {
      answers.front().text = std::string(Message(
          golden_tensor.ok() ? my_tensor.status() : golden_tensor.status()));
    }
  }
  for (const ask::PairAnswer& answer : answers) {
    AddReason(answer.text, cells);
    if (is_compat_) continue;
    cells.push_back(answer.shown.empty() ? ask::Cell() : CellOf(answer));
  }
  return absl::OkStatus();
}

}  // namespace msitd::msit_command
