// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/stated_tolerances.h"

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>

#include "protos/base/record_kind.h"
#include "protos/base/selector.h"
#include "protos/base/tolerance_record.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Returns the name of a statement within its rank and token.
std::string StatementName(const TensorKey& key, std::string_view index) {
  return fmt::format("{}{}{}{}{}", key.op, '\0', key.call, '\0', index);
}

const LogicalTensor& SideWithName(const TensorPair& pair) {
  return pair.golden != nullptr ? *pair.golden : *pair.target;
}

std::string StatementName(const TensorPair& pair) {
  const TensorKey& key = SideWithName(pair).key;
  return StatementName(key, ToleranceIndexOf(key.io, key.index));
}

}  // namespace

absl::StatusOr<StatedTolerances> StatedTolerances::Read(
    storage::RunReader& golden, const TensorGroup& group,
    storage::StopCheck stop) {
  StatedTolerances out;
  if (!group.request.empty() || group.pairs.empty()) return out;
  std::set<std::string> names;
  for (const TensorPair& pair : group.pairs) {
    names.insert(StatementName(pair));
  }
  Selector selector;
  selector.ranks = {group.rank};
  selector.tokens = {{group.token, group.token}};
  selector.ios = {Io::kState};
  selector.kinds = {RecordKind::kText};
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         golden.Scan(std::move(selector), ""));
  storage::TensorInfo record;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(record, stop));
    if (!more) return out;
    if (!IsToleranceRecord(record.key)) continue;
    std::string name = StatementName(record.key, record.key.index);
    if (!names.contains(name)) continue;
    out.by_tensor_.try_emplace(std::move(name),
                               std::make_shared<const StatedTolerance>(
                                   ParseStatedTolerance(record.value)));
  }
}

StatedTolerances StatedTolerances::Unreadable(const absl::Status& error) {
  StatedTolerances out;
  out.for_all_ = std::make_shared<const StatedTolerance>(StatedTolerance{
      .predicate = {},
      .reason = fmt::format(
          "the tolerances of the golden run are not known: {}", Message(error)),
      .is_covered = false});
  return out;
}

std::shared_ptr<const StatedTolerance> StatedTolerances::Find(
    const TensorPair& pair) const {
  if (for_all_ != nullptr) return for_all_;
  // With --kind, a statement has a row itself.
  if (pair.target == nullptr && IsToleranceRecord(pair.golden->key)) {
    static const auto& kStatement = *new std::shared_ptr<const StatedTolerance>(
        std::make_shared<const StatedTolerance>(
            StatedTolerance{.predicate = {},
                            .reason = "a tolerance that the golden run states",
                            .is_covered = true}));
    return kStatement;
  }
  const auto found = by_tensor_.find(StatementName(pair));
  return found == by_tensor_.end() ? nullptr : found->second;
}

}  // namespace msitd::compare
