// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "client/msit/probe/probe_verbs.h"

namespace msitd::msit_command {
namespace {

struct RefusedVerb {
  const char* name;
  // The name in early releases, or empty.
  const char* alias;
  const char* instead;
};

constexpr RefusedVerb kRefused[] = {
    {"acc_check", "run_ut",
     "record the run with `msitctl exec`, and find modules that are wrong by "
     "themselves with `msitctl bisect`"},
    {"multi_acc_check", "multi_run_ut",
     "record the run with `msitctl exec`, and find modules that are wrong by "
     "themselves with `msitctl bisect`"},
    {"api_precision_compare", "",
     "import both dumps with `msitctl run import`, and compare them with "
     "`msitctl compare run --preset msprobe`"},
    {"config_check", "",
     "attach the configuration of a run with `msitctl run attach`, and compare "
     "two of them with `msitctl run attachment` and diff"},
    {"data2db", "",
     "import the dump with `msitctl run import`, and print statistics over "
     "steps with `msitctl tensor stats`"},
    {"parse", "",
     "use `msit tensor-view`, or import the dump with `msitctl run import` and "
     "print tensors with `msitctl tensor read`"},
    {"offline_dump", "",
     "it runs models on an Ascend device; use `msit debug "
     "dump` or `msit llm dump` for programs on it"},
    {"install_deps", "", "msitd needs no other packages"},
};

}  // namespace

void AddRefusedProbeVerbs(VerbTable& table) {
  for (const RefusedVerb& verb : kRefused) {
    table.Refuse(table.root(), verb.name, verb.alias, verb.instead);
  }
}

}  // namespace msitd::msit_command
