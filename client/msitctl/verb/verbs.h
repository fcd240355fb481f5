// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "client/msitctl/command_line.h"
#include "client/msitctl/verb/confirm.h"
#include "client/msitctl/verb/pages.h"
#include "google/protobuf/empty.pb.h"

// Verbs that several nouns have in common. They differ in texts and methods.
namespace msitd::msitctl {

// Binds the name of a verb's object: AddRunName, AddComparisonName.
using AddName = void (*)(CLI::App& verb, std::string& name);

// Adds a verb that prints a list.
template <typename Stub, typename Request, typename Response>
void AddListVerb(CommandLine& line, CLI::App& noun, const VerbHelp& help,
                 const ask::ListLayout& layout,
                 ask::Connection::Method<Stub, Request, Response> method) {
  auto flags = std::make_shared<ListFlags>();
  CLI::App& verb =
      line.AddVerb(noun, help, [flags, layout, method](Invocation& invocation) {
        return PrintPages(invocation, layout, *flags, method, Request());
      });
  if (help.takes_nodes) AddPartialFlag(verb, flags->allow_partial);
  AddListFlags(verb, *flags, ColumnWords(*Response::descriptor(), layout));
}

// Adds a verb that calls `method` with the name of an object and prints the
// response. -o name prints its `field`.
template <typename Stub, typename Request, typename Response>
void AddNamedVerb(CommandLine& line, CLI::App& noun, const VerbHelp& help,
                  AddName add_name, std::string_view field,
                  ask::Connection::Method<Stub, Request, Response> method) {
  auto name = std::make_shared<std::string>();
  auto allows_partial = std::make_shared<bool>(false);
  CLI::App& verb = line.AddVerb(
      noun, help,
      [name, method, allows_partial,
       field = std::string(field)](Invocation& invocation) -> ask::Outcome {
        Response response;
        MSITCTL_RETURN_IF_FAILED(invocation.AskByName(method, *name, response));
        return PrintOne(invocation, response, field);
      });
  add_name(verb, *name);
  // The command line uses it if a node fails.
  if (help.takes_nodes) AddPartialFlag(verb, *allows_partial);
}

// Reports that the object `name` was deleted, in the requested format: the
// empty response as JSON, the name, nothing as CSV, or a text on stderr.
ask::Outcome ReportDeleted(Invocation& invocation, std::string_view what,
                           std::string_view name);

// Adds `delete`, which asks for confirmation on a terminal unless --yes is
// given. `question` receives the result of `get`. `what` is the kind of object:
// "run".
template <typename Stub, typename Get, typename Thing, typename Delete>
void AddDeleteVerb(
    CommandLine& line, CLI::App& noun, const VerbHelp& help, AddName add_name,
    const std::string& what, ask::Connection::Method<Stub, Get, Thing> get,
    std::string (*question)(const Thing&),
    ask::Connection::Method<Stub, Delete, google::protobuf::Empty> remove) {
  auto name = std::make_shared<std::string>();
  auto yes = std::make_shared<bool>(false);
  CLI::App& verb =
      line.AddVerb(noun, help, [=](Invocation& invocation) -> ask::Outcome {
        const ask::Terminal& terminal = invocation.options().terminal;
        if (!*yes) {
          // Without a terminal, the question fails before any request to the
          // daemon.
          if (!terminal.stdin_is_terminal) return Confirm(terminal, "");
          Thing thing;
          MSITCTL_RETURN_IF_FAILED(invocation.AskByName(get, *name, thing));
          MSITCTL_RETURN_IF_FAILED(Confirm(terminal, question(thing)));
        }
        google::protobuf::Empty empty;
        MSITCTL_RETURN_IF_FAILED(invocation.AskByName(remove, *name, empty));
        return ReportDeleted(invocation, what, *name);
      });
  add_name(verb, *name);
  verb.add_flag("--yes", *yes,
                "Do not ask for confirmation; required without a terminal");
}

}  // namespace msitd::msitctl
