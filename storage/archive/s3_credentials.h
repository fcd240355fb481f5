// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "storage/archive/s3_objects.h"

namespace msitd::storage {

// Reads the key of S3 from a file of lines `access_key = ...` and
// `secret_key = ...`; `aws_access_key_id` and `aws_secret_access_key` will do,
// and lines that begin with `#` or `[` do not count. Without a file, from
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment; none if these
// are not set.
//
// Errors: PERMISSION_DENIED for a file that others than its owner can read, or
// that is not ours or root's; INVALID_ARGUMENT for other contents. None shows
// the key.
absl::StatusOr<S3Credentials> ReadS3Credentials(const std::string& file);

}  // namespace msitd::storage
