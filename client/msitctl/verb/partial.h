// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "client/ask/query/outcome.h"
#include "client/ask/text/partial_text.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.pb.h"

// Answers that are about some of the ranks of a run.
namespace msitd::msitctl {

// Binds --allow-partial. `allows` outlives `verb`.
void AddPartialFlag(CLI::App& verb, bool& allows);

// The same of --allow-undecided.
void AddUndecidedFlag(CLI::App& verb, bool& allows);

// Says once, before anything else is printed, that an answer is partial: a
// table has it itself, for all else it is on stderr. Thread-compatible.
class PartialNotice {
 public:
  // Borrows `invocation`.
  explicit PartialNotice(Invocation& invocation)
      : PartialNotice(invocation, invocation.is_table()) {}
  // `is_table`: what is printed is a table for people to read.
  PartialNotice(Invocation& invocation, bool is_table)
      : invocation_(invocation), is_table_(is_table) {}

  // `answer` is a message that has ranks_held, ranks_lacking and partial.
  template <typename Answer>
  void See(std::string_view run, const Answer& answer) {
    if (!answer.partial()) return;
    is_partial_ = true;
    Tell(ask::PartialText(run, answer.ranks_held(), answer.ranks_lacking()) +
         "\n");
  }
  // Of a comparison that has failed, the verdict says more: it is told of, but
  // the command does not end so.
  void See(const v1::Comparison& comparison);

  // What the command ends with that has printed what it was asked for.
  ask::Outcome End(bool allows_partial) const;

 private:
  void Tell(const std::string& lines);

  Invocation& invocation_;
  const bool is_table_;
  bool has_told_ = false;
  bool is_partial_ = false;
};

}  // namespace msitd::msitctl
