// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdint.h>

#include "client/foreign/acl/acl_dump.h"

// The interface through which libmsit_acl.so calls libmsit_acl_feed.so. The
// former is in every process of a job; the latter is loaded when there is a
// dump. Both have the same version. No function throws.
namespace msitd::acl {

struct FeedFunctions {
  // Reads the environment and starts the thread of the feed. Called once per
  // process; a forked child calls it again. Returns 0 on success. Otherwise,
  // the error has been printed on stderr.
  int32_t (*start)();
  // The callback for CANN. Thread-safe. May wait, as configured in the
  // environment.
  AclDumpCallback take;
  // Delivers all data that has arrived so far. Waits for a limited time.
  void (*flush)();
};

using FeedFunctionsGetter = const FeedFunctions* (*)();

// The symbol that libmsit_acl_feed.so exports.
inline constexpr char kFeedFunctionsName[] = "msit_acl_feed_v1";
inline constexpr char kFeedLibraryName[] = "libmsit_acl_feed.so";

}  // namespace msitd::acl
