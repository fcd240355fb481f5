// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Reads PEM files. Thread-safe.
namespace msitd::pem {

// Returns the contents of a file.
//
// Errors: those of the system, such as NOT_FOUND, also if the path is a
// directory; FAILED_PRECONDITION if the file is empty.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Validity period of a certificate, in seconds since the Unix epoch.
struct Certificate {
  int64_t first_s = 0;
  int64_t last_s = 0;
};

// Returns the first certificate of a text.
//
// Errors: INVALID_ARGUMENT if there is none.
absl::StatusOr<Certificate> ReadCertificate(std::string_view text);

// Checks that `key` holds a private key that belongs to the first certificate
// in `certificate`.
//
// Errors: INVALID_ARGUMENT; the message states that there is no PEM private
// key, that the key has a passphrase, or that it does not match.
absl::Status CheckKey(std::string_view key, std::string_view certificate);

// Returns the time as text, such as `2026-11-22T09:42:28Z`.
std::string TimeText(int64_t time_s);

}  // namespace msitd::pem
