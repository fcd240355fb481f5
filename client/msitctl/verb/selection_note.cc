// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/verb/selection_note.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>

#include "client/ask/text/text.h"

namespace msitd::msitctl {
namespace {

// Returns an op of the run; empty if the daemon does not answer.
std::string OpOf(Invocation& invocation, const std::string& run) {
  v1::ListTensorsRequest request;
  request.set_run(run);
  request.set_page_size(1);
  v1::ListTensorsResponse page;
  const ask::Outcome outcome =
      invocation.Ask(&v1::TensorService::Stub::ListTensors, request, page);
  return outcome.ok() && page.tensors_size() > 0 ? page.tensors(0).op() : "";
}

// Returns the other kinds of records in a run without tensors; empty if there
// are none.
std::string OtherKinds(const v1::RunCounters& counters) {
  if (counters.statistics_count() != 0) {
    return fmt::format(
        ", but statistics of {}; to list them: --kind statistics",
        counters.statistics_count());
  }
  const int64_t value_count =
      counters.value_count() - counters.document_count();
  if (value_count == 0) return "";
  return fmt::format(", but {} values; to list them: --kind value",
                     value_count);
}

}  // namespace

void NoteNoTensor(Invocation& invocation, const std::string& run,
                  const SelectionFlags& selection, const std::string& where) {
  v1::Run info;
  const ask::Outcome outcome =
      invocation.AskByName(&v1::RunService::Stub::GetRun, run, info);
  if (!outcome.ok()) return;
  const int64_t count = info.counters().tensor_count();
  if (count == 0) {
    fmt::print(stderr, "msitctl: note: run {} has no tensors{}{}\n",
               ask::Printable(run),
               info.state() == v1::Run::ACTIVE ? " yet" : "",
               OtherKinds(info.counters()));
    return;
  }
  std::string flags = TextOf(selection);
  if (!where.empty()) {
    flags += fmt::format("{}--where '{}'", flags.empty() ? "" : " ", where);
  }
  if (flags.empty()) return;
  const std::string op = selection.ops.empty() ? "" : OpOf(invocation, run);
  fmt::print(stderr, "msitctl: note: 0 of {} tensors of run {} match {}{}\n",
             count, ask::Printable(run), ask::Printable(flags),
             op.empty() ? ""
                        : fmt::format("; an op of this run is {}",
                                      ask::Printable(op)));
}

void NoteNoRow(const std::string& comparison, int64_t row_count,
               const std::string& flags) {
  if (flags.empty() && row_count > 0) return;
  fmt::print(stderr, "msitctl: note: 0 of {} rows of {}{}\n", row_count,
             ask::Printable(comparison),
             flags.empty() ? "" : " match " + ask::Printable(flags));
}

}  // namespace msitd::msitctl
