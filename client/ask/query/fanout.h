// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "client/ask/query/outcome.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace msitd::ask {

class Connection;

// Answers calls in place of one daemon: calls many daemons and merges their
// answers.
class Fanout {
 public:
  using Message = google::protobuf::Message;
  // Makes the call with one daemon.
  using NodeCall = std::function<Outcome(Connection& node, const Message&,
                                         Message& response)>;

  // See ForEachRow of paging.h.
  struct List {
    NodeCall call;
    const Message& request;
    std::string field;
    int64_t limit = 0;
    std::function<bool(const Message& row)> take;
    std::function<void(const Message& page)> see;
  };

  virtual ~Fanout() = default;

  virtual Outcome Ask(const NodeCall& call, const Message& request,
                      Message& response) = 0;
  virtual Outcome ForEachRow(const List& list, Message& response) = 0;

  // The node of the row that `take` of a List receives; of a row that several
  // nodes have, the first one.
  virtual const std::string& row_node() const = 0;

  // Returns whether `node` is the name of one of the daemons, as row_node()
  // returns it.
  virtual bool HasNode(std::string_view node) const = 0;
};

}  // namespace msitd::ask
