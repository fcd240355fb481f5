// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/repeated_field.h>

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "client/ctl/outcome.h"
#include "client/ctl/session.h"
#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/filter.pb.h"

// Answers that are about some of the ranks of a run.
namespace msitd::ctl {

using RankRanges = google::protobuf::RepeatedPtrField<v1::RankRange>;

// Binds --allow-partial. `allows` outlives `verb`.
void AddPartialFlag(CLI::App& verb, bool& allows);

// `partial: 2 of 4 ranks; run tp8 lacks ranks 2-3`. Printable.
std::string PartialText(std::string_view run, const RankRanges& held,
                        const RankRanges& lacking);

// The same for each run of a comparison that lacks ranks, a line each; empty if
// none does.
std::string PartialLines(const v1::Comparison& comparison);

// Says once, before anything else is printed, that an answer is partial: a
// table has it itself, for all else it is on stderr. Thread-compatible.
class PartialNotice {
 public:
  // Borrows `session`.
  explicit PartialNotice(Session& session)
      : PartialNotice(session, session.is_table()) {}
  // `is_table`: what is printed is a table for people to read.
  PartialNotice(Session& session, bool is_table)
      : session_(session), is_table_(is_table) {}

  // `answer` is a message that has ranks_held, ranks_lacking and partial.
  template <typename Answer>
  void See(std::string_view run, const Answer& answer) {
    if (!answer.partial()) return;
    Tell(PartialText(run, answer.ranks_held(), answer.ranks_lacking()) + "\n");
  }
  void See(const v1::Comparison& comparison);

  // What the command ends with that has printed what it was asked for.
  Outcome End(bool allows_partial) const;

 private:
  void Tell(const std::string& lines);

  Session& session_;
  const bool is_table_;
  bool is_partial_ = false;
};

}  // namespace msitd::ctl
