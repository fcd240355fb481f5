// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/folder_problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "client/match/ge_names.h"

namespace msitd::msit {
namespace {

// Files that are named one by one.
constexpr size_t kNamedProblemsMax = 20;

}  // namespace

void WarnOfProblems(const job::ImportProblems& problems, Logger& log) {
  const size_t named = std::min(problems.listed().size(), kNamedProblemsMax);
  for (size_t i = 0; i < named; ++i) {
    const auto& problem = problems.listed()[i];
    log.Warning(
        fmt::format("{} is not compared: {}", problem.file, problem.reason));
  }
  if (problems.count() <= static_cast<int64_t>(named)) return;
  log.Warning(fmt::format("{} files are not compared", problems.count()));
  for (const auto& [reason, count] : problems.counts()) {
    log.Warning(fmt::format("{} of them: {}", count, reason));
  }
}

void TellOfLeft(const match::Mapping& mapping, bool is_self_compared,
                Logger& log) {
  for (const std::string& note : mapping.notes) log.Warning(note);
  for (const match::LeftTensors& left : mapping.left) {
    if (is_self_compared && left.reason == match::kConversionReason) continue;
    std::string examples = fmt::format("{}", fmt::join(left.examples, ", "));
    if (left.count > left.examples.size()) examples += ", ...";
    const std::string text =
        fmt::format("{} {} tensors are not compared: {} ({})", left.count,
                    left.is_golden ? "golden" : "my", left.reason, examples);
    if (left.is_expected) {
      log.Info(text);
    } else {
      log.Warning(text);
    }
  }
}

}  // namespace msitd::msit
