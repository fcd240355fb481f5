// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

// The parts of CANN's interface that the shim uses, as its reference manual
// describes them. They are declared here so that building does not need CANN.
namespace msitd::acl {

inline constexpr int32_t kAclSuccess = 0;

// The result of a CANN function that the shim cannot find.
inline constexpr int32_t kAclErrorFeatureUnsupported = 200000;

// A slice of a dump. `bytes` belong to the file that CANN would have written.
struct AclDumpChunk {
  // The absolute path of that file, terminated by a NUL.
  char file_name[4096];
  uint32_t byte_count;
  // Not 0 if this is the last slice of the file. Slices may arrive out of
  // order.
  uint32_t is_last;
  // The position of the bytes in the file. kAclAppend: at its end.
  int64_t offset;
  int32_t flag;
  uint8_t bytes[4];  // `byte_count` bytes.
};

inline constexpr int64_t kAclAppend = -1;

static_assert(offsetof(AclDumpChunk, byte_count) == 4096);
static_assert(offsetof(AclDumpChunk, offset) == 4104);
static_assert(offsetof(AclDumpChunk, bytes) == 4116);

// `length` is the size of the struct in bytes, including all of `bytes`.
// Returns 0 if the slice was accepted.
using AclDumpCallback = int32_t (*)(const AclDumpChunk* chunk, int32_t length);

}  // namespace msitd::acl
