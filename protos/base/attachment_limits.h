// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Bounds of attachments, which both sides of the wire rely on. What goes beyond
// one is refused.
namespace msitd {

// Of one attachment.
inline constexpr uint64_t kAttachmentBytesMax = uint64_t{64} << 20;

// Of them in one message, either way.
inline constexpr size_t kAttachmentPieceBytesMax = size_t{1} << 20;

inline constexpr size_t kRunAttachmentsMax = 256;

// Of all attachments of a store, those included that are being written.
inline constexpr uint64_t kStoreAttachmentBytesMax = uint64_t{4} << 30;

// UTF-8 bytes without NUL; at least one.
inline constexpr size_t kAttachmentNameBytesMax = 128;
inline constexpr size_t kMediaTypeBytesMax = 128;

}  // namespace msitd
