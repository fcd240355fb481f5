// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/run_place.h"

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
  return TakeUrl(invocation, flags.target, flags.target_source);
}

}  // namespace msitd::msitctl
