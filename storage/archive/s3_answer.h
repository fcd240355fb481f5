// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "storage/archive/object_store.h"

namespace msitd::storage {

// The response of a server, or the reason why there is none.
struct S3Answer {
  long code = 0;        // HTTP status; 0 if there was no response.
  std::string problem;  // Problem of the connection, for users; empty if there
                        // is none.
  std::string body;     // Body of an error or of a list.
  uint64_t length = 0;  // Content-Length.
  // Last-Modified, in seconds since the Unix epoch; 0 without one.
  int64_t modify_time_s = 0;
};

// True if the same request may succeed later.
bool IsWorthRetry(const S3Answer& answer);

// Converts an unsuccessful response to a status. `what` describes the request
// and its object for users. The message contains the server's name of the error
// but not its text, because some servers echo the key.
absl::Status S3Error(const S3Answer& answer, std::string_view what,
                     std::string_view bucket);

// Adds to `out` the names directly in `folder`, a prefix that is empty or ends
// with `/`, from one response to ListObjectsV2. Sets `next` to the token of the
// next request, empty at the end. A server that does not group names by slashes
// lists the objects of a folder instead of the folder. The folder may then be
// added several times.
//
// Errors: DATA_LOSS for an invalid response, such as one that is truncated or
// has unclosed elements.
absl::Status ReadS3List(std::string_view body, std::string_view folder,
                        ObjectList& out, std::string& next);

}  // namespace msitd::storage
