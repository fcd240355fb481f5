// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "storage/archive/s3_objects.h"

namespace msitd::storage {

// Reads the S3 key from a file with the lines `access_key = ...` and
// `secret_key = ...`. The names `aws_access_key_id` and `aws_secret_access_key`
// are also accepted, and lines that begin with `#` or `[` are ignored. Without
// a file, reads AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY from the
// environment; the result is empty if these are not set.
//
// Errors: PERMISSION_DENIED for a file that others than its owner can read, or
// whose owner is neither this user nor root; INVALID_ARGUMENT for invalid
// contents. Messages never contain the key.
absl::StatusOr<S3Credentials> ReadS3Credentials(const std::string& file);

}  // namespace msitd::storage
