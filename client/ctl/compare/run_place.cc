// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/compare/run_place.h"

#include <fmt/format.h>

#include "client/ctl/command/find_archived_run.h"
#include "client/ctl/flag/archived_run.h"
#include "client/ctl/invocation.h"
#include "client/text/text.h"

namespace msitd::ctl {
namespace {

Outcome TakeUrl(Invocation& invocation, std::string& run, std::string& source) {
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

Outcome TakePlaces(Invocation& invocation, CompareFlags& flags) {
  if (IsUrl(flags.golden) && !flags.golden_source.empty()) {
    return UsageError("--golden-endpoint goes with the name of a run");
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
  return UsageError(fmt::format(
      "{} works with runs of the daemon, not with those of another one or of "
      "an archive",
      refused));
}

}  // namespace msitd::ctl
