// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/daemon_choice.h"

#include <string>

#include "client/ask/query/connection.h"
#include "client/ask/query/endpoint.h"
#include "protos/endpoint/endpoint_rule.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

std::string SocketIn(std::string_view folder) {
  return fmt::format("unix:{}/{}", folder, endpoint::kQuerySocket);
}

}  // namespace

absl::Status ChooseDaemon(std::string_view given, endpoint::Start start,
                          ConnectionOptions& options) {
  using Origin = endpoint::Choice::Origin;
  const auto around = endpoint::Surroundings::OfProcess();
  const endpoint::Choice choice = endpoint::ChooseEndpoint(given, around);
  options.personal_dir.clear();
  options.problem.clear();
  options.start = start;
  if (choice.is_default && options.tls) {
    options.endpoint = kDefaultAddress;
  } else if (choice.origin == Origin::kNone) {
    options.endpoint = SocketIn(around.system_dir);
    options.problem = choice.problem;
  } else if (choice.origin == Origin::kPersonal) {
    options.endpoint = SocketIn(choice.endpoint);
    options.personal_dir = choice.endpoint;
    if (!choice.is_default && start == endpoint::Start::kAuto) {
      options.start = endpoint::Start::kNamed;
    }
  } else {
    options.endpoint = choice.origin == Origin::kSystem
                           ? SocketIn(choice.endpoint)
                           : choice.endpoint;
  }
  MSITD_ASSIGN_OR_RETURN(options.target, ParseEndpoint(options.endpoint));
  return absl::OkStatus();
}

}  // namespace msitd::ask
