// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/leaf_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "daemon/compare/view/tensor_view.h"
#include "protos/base/glob.h"

namespace msitd::compare {
namespace {

// Ops that a reason lists.
constexpr size_t kListedMax = 4;

// Identifies a tensor of a group, apart from its device.
std::string NameOf(std::string_view op, int32_t call, Io io,
                   std::string_view index) {
  return fmt::format("{}{}{}{}{}{}{}", op, '\0', call, '\0', IoName(io), '\0',
                     index);
}

}  // namespace

LeafTable::LeafTable(const std::vector<LogicalTensor>& tensors)
    : tensors_(tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorKey& key = tensors[i].key;
    by_name_[NameOf(key.op, key.call, key.io, key.index)].push_back(i);
  }
}

std::optional<size_t> LeafTable::Find(
    const TensorKey& key, const LeafName& leaf,
    const std::vector<std::string_view>& stars) const {
  const std::string op = leaf.op.empty() ? key.op : FillStars(leaf.op, stars);
  const auto found = by_name_.find(NameOf(
      op, key.call, leaf.io.value_or(key.io), leaf.index.value_or(key.index)));
  if (found == by_name_.end()) return std::nullopt;
  const std::vector<size_t>& all = found->second;
  if (all.size() == 1) return all.front();
  const auto own = std::find_if(all.begin(), all.end(), [&](size_t i) {
    return tensors_[i].key.device == key.device;
  });
  return own == all.end() ? std::nullopt : std::optional(*own);
}

const LogicalTensor& LeafTable::Recorded(size_t position) const {
  const LogicalTensor& tensor = tensors_[position];
  return tensor.view == nullptr ? tensor : tensor.view->leaves.front();
}

void SeenIn::Add(size_t position, const std::string& op) {
  std::vector<std::string>& ops = ops_[position];
  if (ops.size() > kListedMax) return;
  if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
}

void SeenIn::Set(std::vector<LogicalTensor>& tensors) const {
  for (const auto& [position, ops] : ops_) {
    const auto listed =
        static_cast<ptrdiff_t>(std::min(ops.size(), kListedMax));
    std::string text = fmt::format(
        "compared in {}", fmt::join(ops.begin(), ops.begin() + listed, ", "));
    if (ops.size() > kListedMax) text += ", ...";
    tensors[position].seen_in =
        std::make_shared<const std::string>(std::move(text));
  }
}

}  // namespace msitd::compare
