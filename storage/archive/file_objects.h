// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/archive/object_store.h"

namespace msitd::storage {

// Opens the objects in folder `below` of directory `top`, which is there;
// folders below it are made when they are needed. No symbolic link below `top`
// is followed. An object is written under no name and linked once it is
// durable, so a crash leaves nothing half behind.
//
// Errors: NOT_FOUND or PERMISSION_DENIED for `top`.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenFileObjects(
    const std::string& top, std::string_view below);

}  // namespace msitd::storage
