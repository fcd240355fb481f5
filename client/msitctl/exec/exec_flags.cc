// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/exec/exec_flags.h"

#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/selection.h"

namespace msitd::msitctl {

void AddExecFlags(CLI::App& verb, ExecFlags& flags) {
  verb.add_option("COMMAND", flags.words,
                  "The command and its arguments, after --")
      ->required()
      ->type_name("COMMAND");
  verb.add_option("--run", flags.run,
                  "Name of the run; default: exec-<script>-<time>. If it "
                  "exists, the run is called NAME-2 and so on")
      ->type_name("NAME");
  AddTexts(verb, "--ops", flags.ops,
           "Patterns of the ops to record; default: all");
  verb.add_option("--level", flags.level,
                  "What to record of a script without calls to msitd: modules, "
                  "functions of torch (api), or both")
      ->check(OneOf({"module", "api", "mix"}))
      ->type_name("LEVEL")
      ->capture_default_str();
  verb.add_option(
          "--stack", flags.stack,
          "Source location to record for each call: none, caller or full")
      ->check(OneOf({"none", "caller", "full"}))
      ->type_name("LEVEL")
      ->capture_default_str();
  verb.add_flag("--weights", flags.weights, "Also record each parameter once");
  verb.add_flag("--gradients", flags.gradients, "Also record gradients");
  verb.add_flag("--aliases", flags.aliases,
                "Store bytes that one module passes to the next only once");
  AddTexts(verb, "--map-path", flags.map_paths,
           "OLD=NEW: search files below OLD in NEW instead");
  AddTexts(verb, "--map-device", flags.map_devices,
           "OLD=NEW: use devices of type NEW instead of OLD, such as npu=cpu");
  verb.add_flag("--private", flags.is_private,
                "Start a daemon for this command only, even if another one "
                "runs, with its store in the folder msitd-NAME");
  verb.add_option("--data-dir", flags.data_dir,
                  "The same, with its store in DIR")
      ->type_name("DIR");
}

}  // namespace msitd::msitctl
