// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/folder_problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "client/foreign/fill/import_job.h"
#include "client/foreign/match/ge/ge_names.h"

namespace msitd::msit_command {
namespace {

// Files that are listed individually.
constexpr size_t kNamedProblemsMax = 20;

}  // namespace

void WarnOfProblems(const fill::ImportProblems& problems, Logger& log) {
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

void WarnOfConflicts(const fill::ImportJob& import, Logger& log) {
  const fill::ImportCounts& counts = import.counts();
  if (counts.conflict_count > 0) {
    for (const auto& doubled : import.doubled().listed()) {
      log.Warning(
          fmt::format("{}: tensor {} was already imported from {} with "
                      "different bytes, which are kept",
                      doubled.file, doubled.op, doubled.former));
    }
    log.Warning(fmt::format(
        "{} tensors are not compared: their names were already in use",
        counts.conflict_count));
  }
  if (counts.filtered_count > 0) {
    log.Warning(
        fmt::format("{} tensors are not compared: the run accepts none of them",
                    counts.filtered_count));
  }
}

std::vector<match::LeftTensors> LeftOf(const match::Mapping& mapping,
                                       size_t self_compared_count) {
  std::vector<match::LeftTensors> out;
  for (const match::LeftTensors& left : mapping.left) {
    match::LeftTensors& rest = out.emplace_back(left);
    if (left.is_golden || left.reason != match::kConversionReason) continue;
    rest.count -= std::min(rest.count, self_compared_count);
    if (rest.count == 0) out.pop_back();
  }
  return out;
}

void TellOfMapping(const match::Mapping& mapping, size_t self_compared_count,
                   std::string_view prefix, Logger& log) {
  for (const std::string& note : mapping.notes) {
    log.Warning(fmt::format("{}{}", prefix, note));
  }
  TellOfLeft(LeftOf(mapping, self_compared_count), prefix, log);
}

void TellOfLeft(const std::vector<match::LeftTensors>& all,
                std::string_view prefix, Logger& log) {
  for (const match::LeftTensors& left : all) {
    std::string examples = fmt::format("{}", fmt::join(left.examples, ", "));
    if (left.count > left.examples.size()) examples += ", ...";
    const std::string text = fmt::format(
        "{}{} {} tensors are not compared: {} ({})", prefix, left.count,
        left.is_golden ? "golden" : "my", left.reason, examples);
    if (left.is_expected) {
      log.Info(text);
    } else {
      log.Warning(text);
    }
  }
}

}  // namespace msitd::msit_command
