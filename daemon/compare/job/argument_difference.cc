// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/argument_difference.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <vector>

#include "protos/base/record_kind.h"
#include "protos/base/selector.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Values by argument.
using Arguments = std::map<std::string, std::string>;

bool MayDiffer(const storage::TensorInfo& value) {
  return value.kind == RecordKind::kNone ||
         (value.kind == RecordKind::kOther &&
          value.value.find("device(") != std::string::npos);
}

absl::StatusOr<Arguments> ArgumentsOf(storage::RunReader& run,
                                      const TensorKey& call,
                                      storage::StopCheck stop) {
  Selector selector;
  selector.ranks = {call.rank};
  selector.tokens = {{call.token, call.token}};
  // A name with a wildcard in it selects itself among others.
  selector.op_patterns = {call.op};
  selector.ios = {Io::kInput};
  for (int number = 0; number < kRecordKindCount; ++number) {
    const auto kind = static_cast<RecordKind>(number);
    if (IsValue(kind)) selector.kinds.push_back(kind);
  }
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         run.Scan(selector, ""));
  Arguments out;
  storage::TensorInfo value;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(value, stop));
    if (!more) return out;
    if (value.key.op != call.op || value.key.call != call.call ||
        MayDiffer(value)) {
      continue;
    }
    out[value.key.index] = value.value.substr(0, kArgumentTextMax);
  }
}

}  // namespace

absl::StatusOr<std::string> ArgumentDifference(storage::RunReader& golden_run,
                                               const TensorKey& golden,
                                               storage::RunReader& target_run,
                                               const TensorKey& target,
                                               storage::StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(const Arguments golden_arguments,
                         ArgumentsOf(golden_run, golden, stop));
  MSITD_ASSIGN_OR_RETURN(const Arguments target_arguments,
                         ArgumentsOf(target_run, target, stop));
  std::vector<std::string> differences;
  for (const auto& [name, value] : golden_arguments) {
    const auto there = target_arguments.find(name);
    if (there == target_arguments.end()) {
      differences.push_back(
          fmt::format("{}: golden {}, not given by the target", name, value));
    } else if (there->second != value) {
      differences.push_back(
          fmt::format("{}: target {}, golden {}", name, there->second, value));
    }
  }
  for (const auto& [name, value] : target_arguments) {
    if (golden_arguments.contains(name)) continue;
    differences.push_back(
        fmt::format("{}: target {}, not given by golden", name, value));
  }
  const size_t count = differences.size();
  if (count > kArgumentsNamedMax) {
    differences.resize(kArgumentsNamedMax);
    differences.push_back("...");
  }
  if (count == 0) return "";
  return fmt::format("other argument{}: {}", count == 1 ? "" : "s",
                     fmt::join(differences, ", "));
}

}  // namespace msitd::compare
