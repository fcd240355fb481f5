// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/completion.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "client/msitctl/command_line.h"
#include "client/msitctl/flag/one_of.h"

namespace msitd::msitctl {
namespace {

// A completion and its description.
struct Word {
  std::string text;
  std::string description;
};

// Returns the words that may follow command `app`: its commands, or otherwise
// its own flags and the global ones.
std::vector<Word> WordsAfter(const CLI::App& app, const CLI::App& root) {
  std::vector<Word> words;
  for (const CLI::App* sub : SubcommandsOf(app)) {
    words.push_back({sub->get_name(), sub->get_description()});
  }
  const auto add_flags = [&words](const CLI::App& from) {
    for (const CLI::Option* option : from.get_options()) {
      for (const std::string& name : option->get_lnames()) {
        words.push_back({"--" + name, option->get_description()});
      }
    }
  };
  if (&app != &root && words.empty()) add_flags(app);
  add_flags(root);
  return words;
}

// Calls `visit` with every command and its path: "", "/run", "/run/list".
void ForEachCommand(
    const CLI::App& app, const std::string& path,
    const std::function<void(const CLI::App&, const std::string&)>& visit) {
  visit(app, path);
  for (const CLI::App* sub : SubcommandsOf(app)) {
    ForEachCommand(*sub, path + "/" + sub->get_name(), visit);
  }
}

// Returns the verb whose `-o name` lists the values of arguments of a type.
// Empty if the daemon does not have them.
std::string_view ListerOf(std::string_view type) {
  if (type == "RUN") return "run list";
  if (type == "COMPARISON") return "compare list";
  if (type == kMetricWord) return "node capabilities";
  return "";
}

// The values of a flag, or of an argument if `flag` is empty, and the path of
// its verb.
struct ValueWords {
  std::string path;
  std::string flag;
  std::vector<std::string> words;
  std::string_view lister;  // See ListerOf.
  // A run, which the lister lists, may be followed by the name of its
  // attachment.
  bool has_attachments = false;
};

std::vector<ValueWords> AllValueWords(const CLI::App& root) {
  std::vector<ValueWords> out;
  ForEachCommand(root, "", [&](const CLI::App& app, const std::string& path) {
    std::string_view lister_of_arguments;
    bool has_attachments = false;
    for (const CLI::Option* option : app.get_options()) {
      has_attachments |= TypeOf(*option) == "ATTACHMENT";
      ValueWords value = {path, "", WordsOf(*option),
                          ListerOf(TypeOf(*option))};
      // A file that follows a run does not affect the run.
      if (option->get_positional() && !has_attachments &&
          !value.lister.empty()) {
        lister_of_arguments = value.lister;
      }
      if (option->get_lnames().empty()) continue;
      value.flag = "--" + option->get_lnames().front();
      if (std::erase(value.words, kMetricWord) > 0) {
        value.lister = ListerOf(kMetricWord);
      }
      if (!value.words.empty() || !value.lister.empty()) {
        out.push_back(std::move(value));
      }
    }
    if (!lister_of_arguments.empty()) {
      out.push_back({path, "", {}, lister_of_arguments, has_attachments});
    }
  });
  return out;
}

// Returns the words of a script: the fixed ones, and `call` with the lister
// filled in.
std::string ScriptWords(const ValueWords& value, fmt::string_view call) {
  std::string out = fmt::format("{}", fmt::join(value.words, " "));
  if (value.lister.empty()) return out;
  if (!out.empty()) out += ' ';
  return out + fmt::format(fmt::runtime(call), value.lister);
}

std::string JoinPaths(const CLI::App& root, const char* separator) {
  std::vector<std::string> paths;
  ForEachCommand(root, "", [&](const CLI::App&, const std::string& path) {
    if (!path.empty()) paths.push_back(path);
  });
  return fmt::format("{}", fmt::join(paths, separator));
}

// Returns `text` in single quotes. `quote` is the shell's form of a quote
// inside.
std::string Quoted(const std::string& text, const char* quote) {
  return "'" + CLI::detail::find_and_replace(text, "'", quote) + "'";
}

}  // namespace

std::string BashCompletion(const CLI::App& root) {
  std::string cases;
  ForEachCommand(root, "", [&](const CLI::App& app, const std::string& path) {
    std::string words;
    for (const Word& word : WordsAfter(app, root)) words += word.text + " ";
    cases += fmt::format("        \"{}\") words=\"{}\" ;;\n", path, words);
  });
  std::string arguments;
  std::string values;
  for (const ValueWords& value : AllValueWords(root)) {
    const std::string words =
        ScriptWords(value, "$($ask {} -o name 2>/dev/null)");
    if (value.flag.empty()) {
      const std::string_view attachments =
          R"sh(; [[ $path == */"$before" ]] || words="$($ask run )sh"
          R"sh(attachments "$before" -o name 2>/dev/null)")sh";
      arguments +=
          fmt::format("            \"{}\") words=\"{}\"{} ;;\n", value.path,
                      words, value.has_attachments ? attachments : "");
    } else {
      values += fmt::format("        \"{} {}\") words=\"{}\" ;;\n", value.path,
                            value.flag, words);
    }
  }
  return fmt::format(
      R"sh(# bash completion of msitctl
_msitctl() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}"
    local before="${{COMP_WORDS[COMP_CWORD-1]}}"
    local path="" word words=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$path/$word" in
            {}) path="$path/$word" ;;
        esac
    done
    case "$path" in
{}    esac
    local ask="timeout 3 msitctl --no-start --connect-timeout 1s"
    if [[ $current != -* ]]; then
        case "$path" in
{}        esac
    fi
    case "$before" in
        -o|--output) words="table json csv name" ;;
    esac
    case "$path $before" in
{}    esac
    local list=""
    [[ $current == *,* ]] && list="${{current%,*}},"
    COMPREPLY=($(compgen -P "$list" -W "$words" -- "${{current##*,}}"))
}}
complete -o default -F _msitctl msitctl
)sh",
      JoinPaths(root, "|"), cases, arguments, values);
}

std::string ZshCompletion(const CLI::App& root) {
  std::string cases;
  ForEachCommand(root, "", [&](const CLI::App& app, const std::string& path) {
    cases += fmt::format("        (\"{}\") choices=(\n", path);
    for (const Word& word : WordsAfter(app, root)) {
      const std::string description =
          CLI::detail::find_and_replace(word.description, ":", "\\:");
      cases += fmt::format("            {}\n",
                           Quoted(word.text + ":" + description, R"('\'')"));
    }
    cases += "        ) ;;\n";
  });
  std::string arguments;
  std::string values;
  for (const ValueWords& value : AllValueWords(root)) {
    const std::string words =
        ScriptWords(value, "${{(f)\"$(${{=ask}} {} -o name 2>/dev/null)\"}}");
    if (value.flag.empty()) {
      const std::string_view attachments =
          R"sh(; [[ $command_path == */"$words[CURRENT-1]" ]] || )sh"
          R"sh(choices=(${(f)"$(${=ask} run attachments )sh"
          R"sh("$words[CURRENT-1]" -o name 2>/dev/null)"}))sh";
      arguments +=
          fmt::format("            (\"{}\") choices=({}){} ;;\n", value.path,
                      words, value.has_attachments ? attachments : "");
    } else {
      values += fmt::format("        (\"{} {}\") choices=({}) ;;\n", value.path,
                            value.flag, words);
    }
  }
  return fmt::format(
      R"sh(#compdef msitctl
_msitctl() {{
    local command_path="" word
    local -a choices
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case "$command_path/$word" in
            ({}) command_path="$command_path/$word" ;;
        esac
    done
    case "$command_path" in
{}    esac
    local ask="msitctl --no-start --connect-timeout 1s"
    if [[ $words[CURRENT] != -* ]]; then
        case "$command_path" in
{}        esac
    fi
    case "$words[CURRENT-1]" in
        (-o|--output) choices=(table json csv name) ;;
    esac
    case "$command_path $words[CURRENT-1]" in
{}    esac
    _describe 'msitctl' choices || _files
}}
compdef _msitctl msitctl
)sh",
      JoinPaths(root, "|"), cases, arguments, values);
}

std::string FishCompletion(const CLI::App& root) {
  std::string lines;
  ForEachCommand(root, "", [&](const CLI::App& app, const std::string& path) {
    for (const Word& word : WordsAfter(app, root)) {
      const bool is_flag = word.text.starts_with("--");
      lines += fmt::format(
          "complete -c msitctl -n 'test (__msitctl_path) = \"x{}\"' {} {} -d "
          "{}\n",
          path, is_flag ? "-l" : "-f -a",
          is_flag ? word.text.substr(2) : word.text,
          Quoted(word.description, "\\'"));
    }
  });
  for (const ValueWords& value : AllValueWords(root)) {
    lines += fmt::format(
        "complete -c msitctl -n 'test (__msitctl_path) = \"x{}\"' {} -a '{}'\n",
        value.path,
        value.flag.empty() ? std::string("-f")
                           : "-x -l " + value.flag.substr(2),
        ScriptWords(
            value,
            value.has_attachments
                ? "(msitctl --no-start --connect-timeout 1s run attachments "
                  "(commandline -opc)[-1] -o name 2>/dev/null; or "
                  "msitctl --no-start --connect-timeout 1s {} -o name "
                  "2>/dev/null)"
                : "(msitctl --no-start --connect-timeout 1s {} -o name "
                  "2>/dev/null)"));
  }
  return fmt::format(
      R"(# fish completion of msitctl
function __msitctl_path
    set -l path x
    for word in (commandline -opc)[2..-1]
        switch "$path/$word"
            case x{}
                set path "$path/$word"
        end
    end
    echo $path
end
{})",
      JoinPaths(root, " x"), lines);
}

void AddCompletionCommand(CommandLine& line) {
  CLI::App& noun =
      line.AddNoun("completion", "Print a completion script for a shell.",
                   "msitctl completion bash");
  CLI::App& root = line.app();
  const auto add = [&](const char* shell, const char* example,
                       std::string (*make)(const CLI::App&)) {
    line.AddVerb(noun,
                 {.name = shell,
                  .summary = fmt::format("Print the script for {}.", shell),
                  .examples = example,
                  .rpcs = ""},
                 [&root, make](Invocation& invocation) -> ask::Outcome {
                   invocation.out().Write(make(root));
                   return {};
                 });
  };
  add("bash",
      "msitctl completion bash > "
      "/usr/share/bash-completion/completions/msitctl",
      BashCompletion);
  add("zsh",
      "msitctl completion zsh > /usr/share/zsh/vendor-completions/_msitctl",
      ZshCompletion);
  add("fish",
      "msitctl completion fish > "
      "/usr/share/fish/vendor_completions.d/msitctl.fish",
      FishCompletion);
}

}  // namespace msitd::msitctl
