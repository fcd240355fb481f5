// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "client/ask/query/connection.h"

namespace msitd::web {

// A method of a daemon that the page may call.
struct WebMethod {
  std::string_view name;                     // `RunService.ListRuns`
  const google::protobuf::Message& request;  // The default instances.
  const google::protobuf::Message& response;
  ask::Fanout::NodeCall call;
  // The field of the response that has the rows of a list; empty for others.
  std::string_view rows;
};

// Returns all methods: those that only read, and those that set a capture
// policy, start a comparison or cancel one. The daemon checks the role of the
// user for each call. Valid for the lifetime of the process.
const std::vector<WebMethod>& WebMethods();

// Returns null if the page may not call such a method.
const WebMethod* FindWebMethod(std::string_view name);

// Returns the names of all methods that the server calls, as a verb lists them:
// those of WebMethods, and those of calls that combine several methods.
std::string CalledMethods();

// Which daemon each row of a list is from. Empty for a single daemon, and for
// lists such as runs, of which a row may be on several daemons.
struct RowNodes {
  std::string only;  // List the rows of this daemon; of all if it is empty.
  std::vector<std::string> nodes;

  // Appends `,"row_nodes":[...]` to the members of a JSON object, unless there
  // are none.
  void AppendTo(std::string& json) const;
};

// Calls a method. `request` has the type of `method.request`, and `response`
// that of `method.response`. A list of several daemons has no page tokens: its
// token is the number of rows that precede the page, and each page reads them
// again.
ask::Outcome CallWebMethod(ask::Connection& connection, const WebMethod& method,
                           const google::protobuf::Message& request,
                           google::protobuf::Message& response,
                           RowNodes& row_nodes);

}  // namespace msitd::web
