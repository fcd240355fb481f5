// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "storage/chunk_store.h"

namespace msitd::query {

using storage::StopCheck;

}  // namespace msitd::query
