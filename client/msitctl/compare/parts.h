// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "client/ask/query/outcome.h"
#include "client/msitctl/compare/comparison_printer.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/verb/pages.h"
#include "msitd/v1/comparison_service.pb.h"

// Comparisons that are divided among many processors or machines. The Python
// package msitd does the work: docs/ray.md.
namespace msitd::msitctl {

struct PartsFlags {
  std::string engine;  // Empty: the daemon compares.
  std::string ray_address;
  std::string out;  // Folder for the rows; empty: a temporary one.
  std::string worker_config;
  bool no_passing_rows = false;
  int workers = 0;  // 0: one for each processor.

  bool asked_for() const { return !engine.empty(); }
};

// `flags` outlives `verb`.
void AddPartsFlags(CLI::App& verb, PartsFlags& flags);

// The result: the comparison, and its first rows that fail or are unmatched.
// Their row numbers are those in the whole comparison.
struct ComparedParts {
  v1::Comparison comparison;
  std::vector<v1::ComparisonRow> rows;
};

// Runs the comparison with `python`, and waits for the end. A signal ends it.
//
// At most `rows_max` of the failing rows are returned.
ask::Outcome CompareInParts(Invocation& invocation, const PartsFlags& flags,
                            const std::string& python, int64_t rows_max,
                            const v1::CreateComparisonRequest& request,
                            ComparedParts& out);

// Prints the result like any other comparison. `with_rows` also prints its
// rows.
ask::Outcome PrintParts(Invocation& invocation, const ComparedParts& compared,
                        Seconds elapsed, bool with_rows,
                        const ListFlags& flags);

}  // namespace msitd::msitctl
