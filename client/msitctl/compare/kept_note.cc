// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/kept_note.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "client/ask/text/text.h"
#include "protos/os/thread.h"

namespace msitd::msitctl {
namespace {

std::string TextOf(const std::string& run, const KeepRecord& kept) {
  if (kept.hash.empty()) {
    return fmt::format("{} has tensors without a --keep function",
                       ask::Printable(run));
  }
  return fmt::format("{} has the tensors that {} keeps", ask::Printable(run),
                     kept.ToText());
}

}  // namespace

KeptNote::KeptNote(Invocation& invocation, std::string golden,
                   std::string target)
    : invocation_(invocation),
      golden_(std::move(golden)),
      target_(std::move(target)) {
  if (invocation.node_fanout() != nullptr) return;
  thread_ = StartSpareThread("kept", [this] { Read(kReadTime); });
}

KeptNote::~KeptNote() {
  if (thread_.joinable()) thread_.join();
}

void KeptNote::Read(ask::ReadLimit limit) {
  is_read_ = ReadKeepRecord(invocation_, golden_, of_golden_, limit).ok() &&
             ReadKeepRecord(invocation_, target_, of_target_, limit).ok();
}

void KeptNote::Print() {
  if (thread_.joinable()) thread_.join();
  if (!is_read_) Read({});
  if (!is_read_ || (of_golden_.hash.empty() && of_target_.hash.empty())) {
    return;
  }
  if (of_golden_.is_same(of_target_)) {
    fmt::print(
        stderr,
        "msitctl: note: both runs have the tensors that {} keeps: tensors with "
        "a ~ in their index are derived from the recorded ones\n",
        of_golden_.ToText());
    return;
  }
  fmt::print(
      stderr,
      "msitctl: note: the runs were imported with different functions: {}, {}; "
      "tensors with a ~ in their index are derived and may not be comparable\n",
      TextOf(golden_, of_golden_), TextOf(target_, of_target_));
}

}  // namespace msitd::msitctl
