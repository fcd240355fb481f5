// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/alias_table.h"

#include <algorithm>

namespace msitd::libmsit {
namespace {

// The levels are numbered as in a format, which is not the order of how much
// they keep.
int AmountOf(capture::Level level) {
  switch (level) {
    case capture::Level::kOff:
      return 0;
    case capture::Level::kSummary:
      return 1;
    case capture::Level::kSample:
      return 2;
    case capture::Level::kFull:
      return 3;
  }
  return 0;
}

}  // namespace

std::optional<AliasTable::Original> AliasTable::Find(
    const TensorView& tensor, int64_t token, int32_t call,
    capture::Level level) const {
  if (tensor.identity == 0 || token != token_) return std::nullopt;
  const auto it = originals_.find(tensor.identity);
  if (it == originals_.end()) return std::nullopt;
  const Original& found = it->second;
  const bool is_itself = found.call == call && found.io == tensor.io &&
                         found.op == tensor.op && found.index == tensor.index;
  if (is_itself || AmountOf(found.level) < AmountOf(level) ||
      found.dtype != tensor.dtype || found.device != tensor.device ||
      !std::equal(found.dims.begin(), found.dims.end(), tensor.dims.begin(),
                  tensor.dims.end())) {
    return std::nullopt;
  }
  return found;
}

void AliasTable::Add(const TensorView& tensor, const chunk::RecordSpec& record,
                     capture::Level level) {
  if (tensor.identity == 0 || record.token < token_) return;
  if (record.token > token_) {
    Clear();
    token_ = record.token;
  }
  const auto [it, is_new] = originals_.insert_or_assign(
      tensor.identity,
      Original{.device = std::string(record.device),
               .op = std::string(record.op),
               .call = record.call,
               .io = record.io,
               .index = std::string(record.index),
               .dtype = record.dtype,
               .dims = {record.dims.begin(), record.dims.end()},
               .level = level,
               .sequence = record.sequence});
  if (!is_new) return;
  order_.push_back(tensor.identity);
  if (order_.size() > aliases_max_) {
    originals_.erase(order_.front());
    order_.pop_front();
  }
}

void AliasTable::Clear() {
  originals_.clear();
  order_.clear();
}

}  // namespace msitd::libmsit
