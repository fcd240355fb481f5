// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/missing_parts.h"

#include <unordered_set>
#include <vector>

#include "protos/status/status.h"

namespace msitd::origin {
namespace {

// Maximum number of modules without records that are looked up at other tokens.
// If there are more, the first one that is not looked up counts as missing.
constexpr int kLookupsMax = 256;

// A document is untrusted, so its modules may form a cycle.
constexpr int kNestingMax = 256;

class MissingParts {
 public:
  MissingParts(const RankEvents& events, const ModuleTree& tree) : tree_(tree) {
    for (const CallNesting::Call& call : events.nesting().calls()) {
      recorded_.insert(call.op);
    }
  }

  // Adds the modules inside `op` without records to `out`. Adds a module
  // without any recorded part only by itself. Returns whether `op` or a part of
  // it was recorded.
  bool AddTo(const std::string& op, int depth,
             std::vector<std::string>& out) const {
    const ModuleFacts* const facts = tree_.Find(op);
    const bool is_recorded = recorded_.contains(op);
    if (facts == nullptr || depth == kNestingMax) return is_recorded;
    if (is_recorded && depth > 0) return true;
    std::vector<std::string> missing;
    bool has_recorded = false;
    for (const std::string& child : facts->children) {
      has_recorded = AddTo(child, depth + 1, missing) || has_recorded;
    }
    if (depth > 0 && !has_recorded) {
      out.push_back(op);
      return false;
    }
    out.insert(out.end(), missing.begin(), missing.end());
    return true;
  }

 private:
  const ModuleTree& tree_;
  std::unordered_set<std::string_view> recorded_;
};

absl::StatusOr<bool> HasRecords(storage::RunReader& run, int32_t rank,
                                const std::string& op,
                                storage::StopCheck stop) {
  Selector selector;
  selector.ranks = {rank};
  selector.op_patterns = {op, op + ".*"};
  MSITD_ASSIGN_OR_RETURN(const auto scan, run.Scan(selector, ""));
  storage::TensorInfo tensor;
  return scan->Next(tensor, stop);
}

}  // namespace

absl::StatusOr<std::string> FindMissingPart(
    const RankEvents& events, storage::RunReader& run, const ModuleTree& tree,
    const RecordFacts& facts, std::string_view op, storage::StopCheck stop) {
  std::vector<std::string> missing;
  MissingParts(events, tree).AddTo(std::string(op), 0, missing);
  int lookup_count = 0;
  for (const std::string& part : missing) {
    if (facts.IsUncalled(part)) continue;
    if (++lookup_count > kLookupsMax) return part;
    MSITD_ASSIGN_OR_RETURN(const bool has_records,
                           HasRecords(run, events.rank(), part, stop));
    if (!has_records) return part;
  }
  return std::string();
}

}  // namespace msitd::origin
