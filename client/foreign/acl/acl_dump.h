// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

// What of CANN's interface the shim uses, as its reference manual describes it.
// Declared here, so that nothing of CANN is needed to build.
namespace msitd::acl {

inline constexpr int32_t kAclSuccess = 0;

// What a function answers that the shim cannot find in CANN.
inline constexpr int32_t kAclErrorFeatureUnsupported = 200000;

// A slice of a dump: `bytes` of the file that CANN would have written.
struct AclDumpChunk {
  // The absolute path of that file, which ends with a NUL.
  char file_name[4096];
  uint32_t byte_count;
  // Not 0: no slice of the file comes after it. It may come before others.
  uint32_t is_last;
  // Where the bytes belong in the file. kAclAppend: at its end.
  int64_t offset;
  int32_t flag;
  uint8_t bytes[4];  // As many as there are.
};

inline constexpr int64_t kAclAppend = -1;

static_assert(offsetof(AclDumpChunk, byte_count) == 4096);
static_assert(offsetof(AclDumpChunk, offset) == 4104);
static_assert(offsetof(AclDumpChunk, bytes) == 4116);

// `length` is the number of bytes of the struct with all that it has. Returns 0
// if the slice was taken.
using AclDumpCallback = int32_t (*)(const AclDumpChunk* chunk, int32_t length);

}  // namespace msitd::acl
