// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/tensor_record.h"

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "client/foreign/formats/statistic_text.h"
#include "protos/base/tensor_statistics.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::fill {
namespace {

// fmt takes several times as long, and every record of an import has such a
// text.
void AddNumber(int64_t number, std::string& text) {
  text += std::to_string(number);
  text += ' ';
}

void AddText(std::string_view part, std::string& text) {
  text += std::to_string(part.size());
  text += part;
  text += ' ';
}

// Completes "the file contains another".
std::string_view WhatOf(const formats::ForeignTensor& tensor) {
  return tensor.name.empty() ? "tensor" : "tensor of this name";
}

}  // namespace

std::string TextOf(const TensorKey& key) {
  std::string text;
  AddNumber(key.rank, text);
  AddNumber(key.token, text);
  AddNumber(key.call, text);
  AddNumber(static_cast<int>(key.io), text);
  AddText(key.device, text);
  AddText(key.op, text);
  AddText(key.index, text);
  text.pop_back();
  return text;
}

TensorKey KeyOf(const trees::TreeEntry& entry,
                const formats::ForeignTensor& tensor) {
  TensorKey key = entry.key;
  if (IsValid(key.io)) return key;
  if (!tensor.op.empty()) {
    if (!key.op.empty()) key.op += '/';
    key.op += tensor.op;
  }
  key.io = tensor.io;
  key.index = tensor.index;
  if (IsValid(key.io)) return key;
  key.io = Io::kOutput;
  key.index.assign(1, '0');
  if (!tensor.name.empty()) {
    if (!key.op.empty()) key.op += '/';
    key.op += tensor.name;
  }
  return key;
}

libmsit::TensorView ViewOf(const TensorKey& key,
                           const trees::TreeEntry& entry) {
  return {.device = key.device,
          .token = key.token,
          .op = key.op,
          .call = key.call,
          .io = key.io,
          .index = key.index,
          .dims = {},
          .byte_strides = {},
          .requires_grad = entry.requires_grad,
          .stack = entry.stack};
}

std::string StatisticsOf(const formats::ForeignTensor& tensor) {
  std::vector<std::string> texts;
  std::vector<TensorStatistic> statistics;
  // Reserved, because the statistics borrow texts that must not move.
  texts.reserve(kKnownStatistics.size());
  for (const std::string_view name : kKnownStatistics) {
    const auto at = tensor.attributes.find(std::string(name));
    if (at == tensor.attributes.end()) continue;
    // The file may have any text under such a name.
    auto number = formats::StatisticText(at->second);
    if (!number.has_value()) continue;
    const std::string& text = texts.emplace_back(*std::move(number));
    const bool is_string = text == "nan" || text == "inf" || text == "-inf";
    statistics.push_back({name, text, is_string});
  }
  return PrintTensorStatistics(statistics);
}

TensorRecord::TensorRecord(const trees::TreeEntry& entry,
                           const formats::ForeignTensor& tensor,
                           libmsit::TensorSource& bytes)
    : key_(KeyOf(entry, tensor)), view_(ViewOf(key_, entry)) {
  // A format that lacks a type stores it as another type of the same size.
  const bool is_renamed =
      entry.kind == RecordKind::kTensor && IsValid(entry.dtype) &&
      IsValid(tensor.dtype) &&
      ElementBytes(entry.dtype) == ElementBytes(tensor.dtype);
  view_.dtype = is_renamed ? entry.dtype : tensor.dtype;
  view_.dims = tensor.shape;
  if (!tensor.is_statistics) {
    view_.source = &bytes;
    return;
  }
  if (!IsValid(tensor.dtype)) {
    problem_ = MakeStatus(absl::StatusCode::kUnimplemented,
                          "its statistics have an unknown type {}",
                          tensor.stored_type);
    return;
  }
  statistics_ = StatisticsOf(tensor);
  view_.kind = RecordKind::kStatistics;
  view_.value = statistics_;
}

uint64_t HashOf(const TensorKey& key) {
  const std::string text = TextOf(key);
  return chunk::HashBytes(std::as_bytes(std::span(text))).low;
}

absl::Status RecordsOfFile::Add(const trees::TreeEntry& entry,
                                const formats::ForeignTensor& tensor) {
  if (!tensor.is_statistics && !tensor.problem.ok()) return tensor.problem;
  TensorKey key = KeyOf(entry, tensor);
  // Most files have one tensor, which does not need the set.
  if (!first_.has_value()) {
    first_ = std::move(key);
    return absl::OkStatus();
  }
  if (key != *first_ && keys_.insert(TextOf(key)).second) {
    return absl::OkStatus();
  }
  return MakeStatus(absl::StatusCode::kAlreadyExists,
                    "the file contains another {}", WhatOf(tensor));
}

}  // namespace msitd::fill
