// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "storage/archive/object_store.h"

namespace msitd::storage {

// What a server answered, or why it did not.
struct S3Answer {
  long code = 0;        // Of HTTP; 0 if there was no answer.
  std::string problem;  // Of the connection, for people; empty if none.
  std::string body;     // Of an error, or of a list.
  uint64_t length = 0;  // Content-Length.
  // Last-Modified, in seconds since the Unix epoch; 0 without one.
  int64_t modify_time_s = 0;
};

// True if the same request may succeed later.
bool IsWorthRetry(const S3Answer& answer);

// What an answer that is no success means. `what` is for people: the request
// and its object. The name of an error of the server is repeated, its text is
// not: some servers echo the key.
absl::Status S3Error(const S3Answer& answer, std::string_view what,
                     std::string_view bucket);

// Adds to `out` what one answer to ListObjectsV2 names directly in `folder`, a
// prefix that is empty or ends with `/`. `next` becomes the token of the next
// request, empty at the end. A server that does not group names by their
// slashes names the objects of a folder instead of the folder: then the folder
// may be there several times.
//
// Errors: DATA_LOSS for what is no such answer, such as one that is cut off or
// whose elements do not close.
absl::Status ReadS3List(std::string_view body, std::string_view folder,
                        ObjectList& out, std::string& next);

}  // namespace msitd::storage
