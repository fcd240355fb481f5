// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>

#include "client/ask/text/conclusion.h"
#include "client/ask/text/text.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/whole_number.h"
#include "client/msitctl/verb/partial.h"
#include "client/msitctl/verb/python_package.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// The maximum number of rows that are read from the package.
constexpr int64_t kRowsMax = 10'000;
constexpr int64_t kWorkersMax = 4096;

std::vector<std::string> WordsOf(const Invocation& invocation,
                                 const PartsFlags& flags,
                                 const std::string& python, int64_t rows_max,
                                 const ScratchFolder& scratch) {
  std::vector<std::string> words = {python,
                                    "-m",
                                    "msitd.fleet",
                                    "--request",
                                    scratch.File("request"),
                                    "--answer",
                                    scratch.File("answer"),
                                    "--engine",
                                    flags.engine,
                                    "--rows-max",
                                    std::to_string(rows_max)};
  const auto add = [&words](std::string_view flag, std::string value) {
    words.emplace_back(flag);
    words.push_back(std::move(value));
  };
  if (!flags.ray_address.empty()) add("--ray-address", flags.ray_address);
  if (!flags.out.empty()) add("--out", flags.out);
  if (!flags.worker_config.empty()) add("--worker-config", flags.worker_config);
  if (flags.workers > 0) add("--workers", std::to_string(flags.workers));
  const InvocationOptions& options = invocation.options();
  if (options.connection.timeout.has_value()) {
    const std::chrono::duration<double> limit = *options.connection.timeout;
    add("--timeout", fmt::format("{}", limit.count()));
  }
  if (flags.no_passing_rows) words.emplace_back("--no-passing-rows");
  if (options.progress) words.emplace_back("--progress");
  return words;
}

ask::Outcome ReadAnswer(const ScratchFolder& scratch, const std::string& python,
                        ComparedParts& out) {
  std::ifstream file(scratch.File("answer"), std::ios::binary);
  v1::StreamComparisonRowsResponse answer;
  if (!file || !answer.ParseFromIstream(&file) || !answer.has_comparison()) {
    return ask::DaemonError(
        grpc::StatusCode::INTERNAL, "",
        fmt::format("{} -m msitd.fleet has left no answer", python));
  }
  out.comparison = std::move(*answer.mutable_comparison());
  out.rows.assign(answer.rows().begin(), answer.rows().end());
  // Nothing is printed about a comparison that could not start.
  if (!out.comparison.name().empty()) return {};
  return ask::DaemonError(
      static_cast<grpc::StatusCode>(out.comparison.error_code()),
      out.comparison.error_reason(), out.comparison.error());
}

}  // namespace

void AddPartsFlags(CLI::App& verb, PartsFlags& flags) {
  verb.add_option("--engine", flags.engine,
                  "Divide the comparison into parts for ray (the nodes of a "
                  "Ray cluster) or processes (on this machine). Requires the "
                  "Python package msitd[ray]")
      ->check(OneOf({"ray", "processes"}))
      ->type_name("ENGINE");
  verb.add_option("--ray-address", flags.ray_address,
                  "With --engine ray: address of a Ray cluster; default: "
                  "RAY_ADDRESS if set, otherwise a new cluster on this machine")
      ->type_name("ADDRESS");
  verb.add_option(
          "--worker-config", flags.worker_config,
          "With --engine: configuration file of msitd for the daemons that "
          "compare, with the locations of archives and certificates for peers")
      ->type_name("FILE");
  verb.add_flag("--no-passing-rows", flags.no_passing_rows,
                "With --engine: do not write rows that pass, which may be "
                "numerous");
  verb.add_option("--workers", flags.workers,
                  "With --engine: number of daemons that compare; default: one "
                  "for each processor")
      ->check(WholeNumber(1, kWorkersMax))
      ->type_name("N");
}

ask::Outcome CompareInParts(Invocation& invocation, const PartsFlags& flags,
                            const std::string& python, int64_t rows_max,
                            const v1::CreateComparisonRequest& request,
                            ComparedParts& out) {
  const absl::StatusOr<ScratchFolder> scratch = ScratchFolder::Make();
  if (!scratch.ok()) {
    return ask::LocalError(Message(scratch.status()));
  }
  {
    std::ofstream file(scratch->File("request"), std::ios::binary);
    if (!request.comparison().SerializeToOstream(&file) || !file.flush()) {
      return ask::LocalError("cannot write to the temporary folder");
    }
  }
  const std::vector<std::string> words = WordsOf(
      invocation, flags, python,
      rows_max == 0 ? kRowsMax : std::min(rows_max, kRowsMax), *scratch);
  const absl::StatusOr<int> ended = RunPackage(invocation, words);
  if (!ended.ok()) {
    return ask::LocalError(fmt::format(
        "--engine {} needs Python with the package msitd[ray], and --python "
        "{} cannot be run: {}",
        flags.engine, python, Message(ended.status())));
  }
  if (*ended == kPackageAnswered) return ReadAnswer(*scratch, python, out);
  if (*ended == kPackageUsage) return {ask::kExitUsage, ""};
  if (*ended == kPackageLocal) return {ask::kExitLocal, ""};
  if (*ended > kPackageSignal) return ask::Interrupted();
  // Python itself has printed the reason.
  return ask::LocalError(fmt::format(
      "--engine {0}: {1} -m msitd.fleet exits with {2}; it needs the package "
      "msitd[ray]: {1} -m pip install 'msitd[ray]'",
      flags.engine, python, *ended));
}

ask::Outcome PrintParts(Invocation& invocation, const ComparedParts& compared,
                        Seconds elapsed, bool with_rows,
                        const ListFlags& flags) {
  const v1::Comparison& comparison = compared.comparison;
  PartialNotice(invocation).See(comparison);
  if (invocation.options().format == ask::Format::kName) {
    invocation.out().Write(ask::Printable(comparison.name()) + "\n");
    return {};
  }
  ask::ListLayout layout = RowLayout(invocation, comparison);
  layout.response = v1::StreamComparisonRowsResponse::descriptor();
  std::unique_ptr<ask::ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer, ask::ListPrinter::Create(std::move(layout),
                                        invocation.print_options(flags.columns),
                                        invocation.out()));
  if (invocation.is_table()) {
    invocation.out().Write(VerdictHeader(comparison, elapsed, AllowedBy(flags),
                                         StyleOf(invocation)));
    if (with_rows && !compared.rows.empty()) invocation.out().Write("\n");
  }
  int64_t printed_count = 0;
  for (const v1::ComparisonRow& row : compared.rows) {
    if (!with_rows || (flags.limit > 0 && printed_count == flags.limit)) break;
    printer->Add(row);
    ++printed_count;
  }
  const bool has_no_rows = printed_count == 0 && invocation.is_table();
  if (!has_no_rows) {
    v1::StreamComparisonRowsResponse rest;
    *rest.mutable_comparison() = comparison;
    printer->Finish(rest, VerdictMember(comparison, AllowedBy(flags)));
  }
  const int64_t failing =
      comparison.fail_count() + comparison.unmatched_count();
  if (with_rows && printed_count < failing) {
    MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
    fmt::print(stderr, "msitctl: note: {} of {} rows that fail\n",
               printed_count, failing);
  }
  return {};
}

}  // namespace msitd::msitctl
