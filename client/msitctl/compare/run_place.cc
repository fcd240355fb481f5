// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/run_place.h"

#include <fmt/format.h>

#include "client/ask/text/text.h"
#include "client/msitctl/flag/archived_run.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/run/find_archived_run.h"

namespace msitd::msitctl {
namespace {

ask::Outcome TakeUrl(Invocation& invocation, std::string& run,
                     std::string& source) {
  if (!IsUrl(run)) return {};
  ArchivedRunName found;
  MSITCTL_RETURN_IF_FAILED(FindArchivedRun(invocation, run, found));
  source = found.url;
  run = found.run;
  return {};
}

}  // namespace

bool IsFar(const CompareFlags& flags) {
  return !flags.golden_source.empty() || !flags.target_source.empty();
}

ask::Outcome TakePlaces(Invocation& invocation, CompareFlags& flags) {
  if (IsUrl(flags.golden) && !flags.golden_source.empty()) {
    return ask::UsageError("--golden-endpoint requires the name of a run");
  }
  MSITCTL_RETURN_IF_FAILED(
      TakeUrl(invocation, flags.golden, flags.golden_source));
  MSITCTL_RETURN_IF_FAILED(
      TakeUrl(invocation, flags.target, flags.target_source));
  if (!IsFar(flags)) return {};
  const bool matches =
      flags.match.matcher != "auto" && flags.match.matcher != "none";
  const bool attaches =
      !flags.matching.mapping_file.empty() && !flags.target_source.empty();
  const char* const refused = invocation.fleet() != nullptr    ? "--endpoints"
                              : flags.follow                   ? "--follow"
                              : !flags.plugins.plugins.empty() ? "--plugin"
                              : matches                        ? "--match"
                              : attaches ? "--mapping-file"
                                         : nullptr;
  if (refused == nullptr) return {};
  return ask::UsageError(
      fmt::format("{} supports only runs of this daemon, not of another daemon "
                  "or an archive",
                  refused));
}

}  // namespace msitd::msitctl
