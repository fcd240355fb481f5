// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "client/ask/fanout/node_fanout.h"
#include "client/ask/query/connection.h"
#include "google/protobuf/message.h"

namespace msitd::ask {

struct NodeFanout::Node {
  Node(std::string its_name, ConnectionOptions options, Interrupts& interrupts)
      : name(std::move(its_name)), connection(std::move(options), interrupts) {}

  bool has_failed() const { return !error.empty(); }

  const std::string name;
  Connection connection;
  std::string error;
};

struct NodeFanout::Answer {
  size_t node = 0;
  std::unique_ptr<google::protobuf::Message> message;
  Outcome outcome;
};

}  // namespace msitd::ask
