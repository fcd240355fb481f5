// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/match/tensor_mapping.h"
#include "protos/base/summary.h"
#include "storage/face/attachments.h"

namespace msitd::compare {

// The attachment that contains a mapping.
struct MappingSource {
  std::string run;
  std::string attachment;
  ContentHash hash = {};  // The required hash; all zero for any.
};

struct LoadedMapping {
  std::shared_ptr<const TensorMapping> mapping;
  ContentHash hash;
};

// Reads and checks a mapping piece by piece. Calls `check` before each piece,
// and returns its error. Blocks on the store.
//
// Errors: INVALID_ARGUMENT with FIELD_INVALID if the mapping is invalid, with
// the attachment and the line; FAILED_PRECONDITION with ATTACHMENT_NOT_FOUND if
// the bytes do not have the required hash; those of Attachments.
absl::StatusOr<LoadedMapping> LoadMapping(
    storage::Attachments& attachments, const MappingSource& source,
    absl::AnyInvocable<absl::Status()> check);

}  // namespace msitd::compare
