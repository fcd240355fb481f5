// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

// Which daemon a client uses. All clients follow this rule: libmsit, msitctl,
// msit, and the Python package, whose endpoints.py is a translation of it.
// tests/golden/endpoint_rule.txt has the cases that both are tested with.
//
// 1. The endpoint that a flag or an argument names.
// 2. The environment variable MSITD_ENDPOINT, or its alias MSITCTL_ENDPOINT.
// 3. The service of this machine, if its socket exists in /run/msitd.
// 4. The personal daemon of the user; see personal_daemon.h.
//
// A client that has to encrypt connects to 127.0.0.1:7741 instead of the last
// two, because sockets are not encrypted. A TCP port is never guessed
// otherwise, because any user of the machine could listen there and receive the
// tensors of others. The personal daemon is safe in this respect: its sockets
// are in a folder that only its user can write.
namespace msitd::endpoint {

// The sockets in a socket folder: of queries, and of ranks that share memory.
inline constexpr std::string_view kQuerySocket = "msitd.sock";
inline constexpr std::string_view kIngestSocket = "ingest.sock";

// The endpoint that stands for the personal daemon, even if a service runs.
inline constexpr std::string_view kPersonal = "personal";

// The parts of the system that the rule reads. Tests replace them.
struct Surroundings {
  // Returns the value of an environment variable, or "" if it is not set.
  std::function<std::string(const char* name)> variable;
  uid_t uid = 0;
  std::string system_dir = "/run/msitd";
  // Folders with a folder for each user, and for all users.
  std::string runtime_root = "/run/user";
  std::string temporary_root = "/tmp";

  static Surroundings OfProcess();
};

struct Choice {
  // The step of the rule. kNone: the user may not use the service.
  enum class Origin { kGiven, kVariable, kSystem, kPersonal, kNone };

  Origin origin = Origin::kNone;
  // Whether neither an argument nor a variable decided.
  bool is_default = true;
  // As given or as in the variable; for kSystem and kPersonal, the path of the
  // socket folder.
  std::string endpoint;
  // For kNone: the reason, as a message for the user.
  std::string problem;
};

// Applies the rule. `given` is the flag or the argument; "" if there is none.
// Connects to nothing and starts nothing.
Choice ChooseEndpoint(std::string_view given, const Surroundings& around);

// Returns the socket folder of the personal daemon, which may not exist:
// $XDG_RUNTIME_DIR/msitd if XDG_RUNTIME_DIR is a folder of the user, otherwise
// /run/user/UID/msitd if /run/user/UID is, otherwise /tmp/msitd-UID. It is
// never in the home folder: sockets do not work on all file systems that hold
// homes, and a path there may be too long for a socket.
std::string PersonalSocketDir(const Surroundings& around);

// Returns the message for a user who may not enter a socket folder.
std::string NotAllowed(std::string_view folder);

}  // namespace msitd::endpoint
