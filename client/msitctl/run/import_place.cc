// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/import_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "client/ask/text/text.h"
#include "client/msitctl/flag/whole_number.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// How long a daemon may accept nothing, unless --timeout specifies it.
// Sufficient for a restart.
constexpr std::chrono::minutes kPatience{2};

// Problems that are printed individually on stderr. The rest is counted by
// reason.
constexpr size_t kShownProblemsMax = 20;

}  // namespace

void AddImportPlaceFlags(CLI::App& verb, ImportPlaceFlags& flags) {
  verb.add_option("--run", flags.run,
                  "Run to import into; it is created if it does not exist")
      ->type_name("RUN");
  verb.add_option("--source", flags.source,
                  "Format of the folders: files, ge, fx, mindie, msit, atb or "
                  "msprobe; default: detected from their contents")
      ->type_name("KIND");
  verb.add_option("--rank", flags.rank,
                  "Rank of all tensors, for folders without ranks")
      ->check(WholeNumber(0, kRankMax))
      ->type_name("N");
  verb.add_option("--token", flags.token, "Token of all tensors")
      ->check(WholeNumber(0, kTokenMax))
      ->type_name("N");
  verb.add_option(
          "--world-size", flags.world_size,
          "Number of ranks of the job; default: the highest rank plus one")
      ->check(WholeNumber(1, kRankMax + 1))
      ->type_name("N");
  verb.add_option("--device", flags.device,
                  "Device of tensors without a recorded device; default cpu:0")
      ->type_name("DEVICE");
  verb.add_option("--prefix", flags.prefix, "Text to put before each op")
      ->type_name("TEXT");
  verb.add_option("--mapping-folder", flags.mapping_folder,
                  "MindIE only: folder with its two op mappings; default: the "
                  "imported folder or one of its parents")
      ->type_name("DIR");
  verb.add_option("--name-pattern", flags.name_pattern,
                  "Pattern of the names of files, such as "
                  "'rank{rank}_step{token}_{op}': a text with the fields "
                  "{rank}, {token}, {call}, {io}, {op} and {index}. It is "
                  "compared with names without their suffix and, if it has "
                  "slashes, with the folders before them. Files that do not "
                  "match are problems")
      ->type_name("PATTERN");
}

ask::Outcome ReadSource(const ImportPlaceFlags& flags,
                        std::optional<trees::TreeKind>& kind) {
  if (flags.source.empty()) return {};
  kind = trees::ParseTreeKind(flags.source);
  if (kind) return {};
  return ask::UsageError(
      fmt::format("--source: \"{}\" is not one of files, ge, fx, mindie, msit, "
                  "atb and msprobe",
                  flags.source));
}

ask::Outcome ReadNamePattern(const ImportPlaceFlags& flags,
                             std::optional<trees::TreeKind>& kind,
                             std::optional<trees::NamePattern>& pattern) {
  if (flags.name_pattern.empty()) return {};
  auto parsed = trees::NamePattern::Parse(flags.name_pattern);
  if (!parsed.ok()) {
    return ask::UsageError(fmt::format("--name-pattern \"{}\": {}",
                                       flags.name_pattern,
                                       Message(parsed.status())));
  }
  if (kind.value_or(trees::TreeKind::kFiles) != trees::TreeKind::kFiles) {
    return ask::UsageError(fmt::format(
        "--name-pattern is only for files, not for --source {}", flags.source));
  }
  if (flags.rank.has_value() && parsed->has_rank()) {
    return ask::UsageError("--rank does not go with {rank} of --name-pattern");
  }
  if (flags.token.has_value() && parsed->has_token()) {
    return ask::UsageError(
        "--token does not go with {token} of --name-pattern");
  }
  kind = trees::TreeKind::kFiles;
  pattern = *std::move(parsed);
  return {};
}

int32_t WorldSizeOf(const ImportPlaceFlags& flags, int32_t of_trees) {
  if (flags.world_size) return *flags.world_size;
  return std::max(of_trees, flags.rank.value_or(0) + 1);
}

fill::ImportOptions JobOptions(const ImportPlaceFlags& flags,
                               const Invocation& invocation) {
  fill::ImportOptions options;
  options.rank = flags.rank;
  options.token = flags.token;
  options.device = flags.device;
  options.prefix = flags.prefix;
  options.patience =
      invocation.options().connection.timeout.value_or(kPatience);
  return options;
}

ask::Outcome OutcomeOfImport(const absl::Status& status) {
  if (status.ok()) return {};
  if (absl::IsCancelled(status)) return ask::Interrupted();
  if (absl::IsUnknown(status)) return ask::LocalError(Message(status));
  // The text of the daemon already begins with its code.
  const auto code = static_cast<grpc::StatusCode>(status.code());
  ask::Outcome outcome = ask::DaemonError(code, "", Message(status));
  if (Message(status).starts_with(ask::CodeName(code))) {
    outcome.error = ask::Printable(Message(status));
  }
  return outcome;
}

void SetCounts(const fill::ImportJob& job, ImportResult& result) {
  const fill::ImportCounts& counts = job.counts();
  const fill::ImportProblems& problems = job.problems();
  result.set_file_count(counts.file_count);
  result.set_tensor_count(counts.tensor_count);
  result.set_value_count(counts.value_count);
  result.set_statistics_count(counts.statistics_count);
  result.set_document_count(counts.document_count);
  result.set_attachment_count(counts.attachment_count);
  result.set_size_bytes(counts.size_bytes);
  result.set_skipped_file_count(counts.skipped_file_count);
  result.set_filtered_count(counts.filtered_count);
  result.set_conflict_count(counts.conflict_count);
  result.set_derived_count(counts.derived_count);
  result.set_unkept_count(counts.unkept_count);
  result.set_underived_count(counts.underived_count);
  result.set_object_count(counts.object_count);
  for (const std::string& objects : job.first_objects()) {
    result.add_objects(ask::Printable(objects));
  }
  result.set_problem_count(problems.count());
  for (const auto& problem : problems.listed()) {
    ImportProblem& row = *result.add_problems();
    row.set_file(ask::Printable(problem.file));
    row.set_reason(ask::Printable(problem.reason));
  }
  if (counts.conflict_count == 0) return;
  for (const auto& doubled : job.doubled().listed()) {
    ImportDouble& row = *result.add_doubles();
    row.set_file(ask::Printable(doubled.file));
    row.set_former_file(ask::Printable(doubled.former));
    row.set_op(ask::Printable(doubled.op));
  }
}

void PrintObjects(const ImportResult& result) {
  for (const std::string& objects : result.objects()) {
    fmt::print(stderr, "not imported, because they are not tensors: {}\n",
               objects);
  }
}

void TellConflicts(const ImportResult& result) {
  for (const ImportDouble& doubled : result.doubles()) {
    fmt::print(stderr,
               "{}: tensor {} was already imported from {} with different "
               "bytes, which are kept\n",
               doubled.file(), doubled.op(), doubled.former_file());
  }
}

std::string KeptText(const ImportResult& result) {
  std::string out;
  const auto add = [&out](int64_t count, const char* what) {
    if (count != 0) out += fmt::format(", {} {}", count, what);
  };
  add(result.derived_count(), "derived");
  add(result.unkept_count(), "not kept");
  add(result.underived_count(), "for which the function failed");
  return out;
}

void TellProblems(const fill::ImportProblems& problems) {
  const size_t shown = std::min(problems.listed().size(), kShownProblemsMax);
  for (size_t i = 0; i < shown; ++i) {
    const auto& problem = problems.listed()[i];
    fmt::print(stderr, "{}: {}\n", ask::Printable(problem.file),
               ask::Printable(problem.reason));
  }
  if (problems.count() <= static_cast<int64_t>(shown)) return;
  fmt::print(stderr, "{} problems in total:\n", problems.count());
  for (const auto& [reason, count] : problems.counts()) {
    fmt::print(stderr, "{:>8}  {}\n", count, ask::Printable(reason));
  }
}

}  // namespace msitd::msitctl
