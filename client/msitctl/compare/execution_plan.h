// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/ask/plugin/plugin.h"
#include "client/ask/query/outcome.h"
#include "client/msitctl/compare/compare_flags.h"
#include "client/msitctl/flag/field_flags.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.pb.h"

// The plan of one `compare run`.
//
// All flags are evaluated here, before anything is created. Errors in them are
// therefore reported first, and the four ways to run a comparison share one
// interpretation of the flags. Executing a plan does not need the flags again.
namespace msitd::msitctl {

enum class ExecutionMode {
  kOnce,     // Waits for the end, then prints the rows.
  kFollow,   // Prints rows as they arrive.
  kDetach,   // Prints the name of the comparison.
  kInParts,  // Has the Python package divide and merge the comparison.
};

struct ExecutionPlan {
  const v1::Comparison& asked() const { return request.comparison(); }

  // Whether a run is not on the daemon that compares.
  bool is_far() const {
    return !asked().golden_source().empty() || !asked().target_source().empty();
  }

  ExecutionMode mode = ExecutionMode::kOnce;
  // Lacks only the name of the mapping, which is attached to the target run.
  v1::CreateComparisonRequest request;
  std::vector<FieldFlags> fields;  // The flags for the fields of the request.
  std::string mapping_file;        // From the user; may be empty.
  std::string mapping;             // The lines of a matcher, otherwise empty.
  std::vector<std::unique_ptr<ask::Plugin>> plugins;  // Started.
  uint64_t pair_bytes_max = 0;                        // For the plug-ins.
  // The verdicts of the rows to print: none of them, or empty for all.
  std::optional<std::vector<v1::Verdict>> verdicts;
  ListFlags list;
  std::string report_file;   // Written at the end; may be empty.
  SelectionFlags selection;  // As given, for messages.
  // Only for kInParts.
  PartsFlags parts;
  std::string python;
};

// Checks the flags and determines the plan. Locates archived runs, starts
// plug-ins, and pairs the tensors of other tools, which may take long. Prints
// notes.
//
// Errors: usage errors; those of the calls and of the plug-ins.
ask::Outcome PlanExecution(Invocation& invocation, CompareFlags flags,
                           ExecutionPlan& plan);

}  // namespace msitd::msitctl
