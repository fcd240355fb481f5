// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace msitd::msitctl {

// The parts of a command that are recorded. docs/exec.md describes the flags.
struct ExecFlags {
  std::string run;
  std::vector<std::string> ops;
  std::string level = "module";
  std::string stack = "none";
  bool weights = false;
  bool gradients = false;
  bool aliases = false;
  std::vector<std::string> map_paths;
  std::vector<std::string> map_devices;
  // Runs whose tensors are passed to modules. The first one with a tensor is
  // used.
  std::vector<std::string> inject;
  // "inputs" or "outputs".
  std::string inject_what = "inputs";
  // The rank in these runs. Below 0: that of each process.
  int inject_rank = -1;
  // Records into a daemon of this command, with its store in this folder.
  std::string data_dir;
  // The same, with its store in a folder that is named after the run.
  bool is_private = false;
  // Runs the command again in this way, and compares. Empty: runs it once. See
  // second_run.h.
  std::string second;
  std::vector<std::string> words;
};

// Binds the command and all flags except those of --inject and of a second run.
// `flags` outlives `verb`.
void AddExecFlags(CLI::App& verb, ExecFlags& flags);

}  // namespace msitd::msitctl
