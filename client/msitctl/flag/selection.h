// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "msitd/v1/filter.pb.h"

namespace msitd::msitctl {

// The flags that select tensors of a run, as they were typed.
struct SelectionFlags {
  std::string ranks;
  std::vector<std::string> devices;
  std::string tokens;
  std::vector<std::string> ops;
  std::vector<std::string> ios;
  std::vector<std::string> kinds;
  std::vector<std::string> requests;
  bool takes_documents = false;  // See AddKindFlag.
};

// Binds --ranks, --devices, --tokens, --ops and --io. `flags` outlives `verb`.
void AddSelectionFlags(CLI::App& verb, SelectionFlags& flags);

// Binds --kind. `takes_documents`: documents can be named, and are included in
// `all`.
void AddKindFlag(CLI::App& verb, SelectionFlags& flags, bool takes_documents);

// Binds --request.
void AddRequestFlag(CLI::App& verb, SelectionFlags& flags);

// Adds a repeatable option that accepts one non-empty text each time
// (NotEmpty). It does not use the list syntax of CLI11, so that an op name in
// brackets is not split.
CLI::Option* AddTexts(CLI::App& verb, const std::string& name,
                      std::vector<std::string>& texts,
                      const std::string& description);

// Returns the flags that were given, as the user would type them; empty if
// there are none.
std::string TextOf(const SelectionFlags& flags);

// Creates the filter. Without flags it is empty and selects all tensors. An
// INVALID_ARGUMENT error names the invalid flag.
absl::StatusOr<v1::TensorFilter> ToFilter(const SelectionFlags& flags);

}  // namespace msitd::msitctl
