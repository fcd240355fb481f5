// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "client/msit/command/verbs.h"
#include "client/msit/tensor/tensor_view.h"

namespace msitd::msit_command {

void AddViewVerb(VerbTable& table) {
  const auto options = std::make_shared<TensorViewOptions>();
  CLI::App& view = table.AddVerb(
      table.root(), "tensor-view", "Show, slice, permute and save a tensor",
      kCommonLogger,
      [options](Logger& log) { return ViewTensor(*options, log); });
  table.AddFlag(view, "--bin", "-b", "File with one tensor", options->file);
  table
      .AddFlag(view, "--operations", "-op",
               "Slices [...] and permutations (...), separated by ;",
               options->operations)
      .required(false);
  table.AddSwitch(view, "--print", "-p", "Print the tensor", options->prints);
  table
      .AddFlag(view, "--output", "-o", "Save the tensor as .bin, .pth or .npy",
               options->output)
      .required(false);
}

}  // namespace msitd::msit_command
