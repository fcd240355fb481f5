// SPDX-License-Identifier: Apache-2.0
#include "client/import/job/tensor_record.h"

#include <fmt/format.h>

#include <span>
#include <utility>
#include <vector>

#include "client/import/formats/statistic_text.h"
#include "protos/base/tensor_statistics.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::job {
namespace {

// Completes "the file has another".
std::string_view WhatOf(const formats::ForeignTensor& tensor) {
  return tensor.name.empty() ? "one" : "of this name";
}

}  // namespace

std::string TextOf(const TensorKey& key) {
  return fmt::format("{} {} {} {} {}{} {}{} {}{}", key.rank, key.token,
                     key.call, static_cast<int>(key.io), key.device.size(),
                     key.device, key.op.size(), key.op, key.index.size(),
                     key.index);
}

TensorKey KeyOf(const trees::TreeEntry& entry,
                const formats::ForeignTensor& tensor) {
  TensorKey key = entry.key;
  if (IsValid(key.io)) return key;
  key.io = tensor.io;
  key.index = tensor.index;
  if (IsValid(key.io)) return key;
  key.io = Io::kOutput;
  key.index.assign(1, '0');
  if (!tensor.name.empty()) key.op += "/" + tensor.name;
  return key;
}

client::TensorView ViewOf(const TensorKey& key, const trees::TreeEntry& entry) {
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
  // What the statistics borrow stays where it is.
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
                           client::TensorSource& bytes)
    : key_(KeyOf(entry, tensor)), view_(ViewOf(key_, entry)) {
  view_.dtype = tensor.dtype;
  view_.dims = tensor.shape;
  if (!tensor.is_statistics) {
    view_.source = &bytes;
    return;
  }
  if (!IsValid(tensor.dtype)) {
    problem_ = MakeStatus(absl::StatusCode::kUnimplemented,
                          "its statistics are of an unknown type {}",
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
  if (keys_.insert(TextOf(KeyOf(entry, tensor))).second) {
    return absl::OkStatus();
  }
  return MakeStatus(absl::StatusCode::kAlreadyExists, "the file has another {}",
                    WhatOf(tensor));
}

}  // namespace msitd::job
