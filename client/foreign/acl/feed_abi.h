// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdint.h>

#include "client/foreign/acl/acl_dump.h"

// How libmsit_acl.so, which lies in every process of a job, calls
// libmsit_acl_feed.so, which is loaded where there is a dump. Both are of one
// version. Nothing throws.
namespace msitd::acl {

struct FeedFunctions {
  // Reads the environment and starts the thread of the feed. Once in a process;
  // a forked child starts anew. Returns 0, or what is wrong with the
  // environment was said on stderr.
  int32_t (*start)();
  // A callback of CANN. Thread-safe; may wait as the environment says.
  AclDumpCallback take;
  // Has all that came so far delivered, and waits for that for a limited time.
  void (*flush)();
};

using FeedFunctionsGetter = const FeedFunctions* (*)();

// What libmsit_acl_feed.so exports.
inline constexpr char kFeedFunctionsName[] = "msit_acl_feed_v1";
inline constexpr char kFeedLibraryName[] = "libmsit_acl_feed.so";

}  // namespace msitd::acl
