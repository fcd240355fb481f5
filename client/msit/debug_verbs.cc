// SPDX-License-Identifier: Apache-2.0
#include "client/msit/verbs.h"

namespace msitd::msit {

void AddDebugVerbs(VerbTable& table) {
  CLI::App& debug = table.AddGroup("debug", "Tools for MindIE Torch");
  AddDebugDump(table, debug);
  table.Refuse(debug, "compare", "",
               "record both sides as runs and use msitctl compare run GOLDEN "
               "TARGET --mapping FILE");
}

}  // namespace msitd::msit
