// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "client/ask/query/outcome.h"
#include "client/ask/text/partial_text.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.pb.h"

// Answers that cover only some of the ranks of a run.
namespace msitd::msitctl {

// Binds --allow-partial. `allows` outlives `verb`.
void AddPartialFlag(CLI::App& verb, bool& allows);

// The same for --allow-undecided.
void AddUndecidedFlag(CLI::App& verb, bool& allows);

// Reports once, before other output, that an answer is partial: in the table
// itself, and for other formats on stderr. Thread-compatible.
class PartialNotice {
 public:
  // Borrows `invocation`.
  explicit PartialNotice(Invocation& invocation)
      : PartialNotice(invocation, invocation.is_table()) {}
  // `is_table`: the output is a table for people.
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
  // For a failed comparison, the verdict takes precedence: the notice is
  // printed, but does not determine the exit code.
  void See(const v1::Comparison& comparison);

  // Returns the outcome of a command that has printed its result.
  ask::Outcome End(bool allows_partial) const;

 private:
  void Tell(const std::string& lines);

  Invocation& invocation_;
  const bool is_table_;
  bool has_told_ = false;
  bool is_partial_ = false;
};

}  // namespace msitd::msitctl
