// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Limits of attachments, which both sides of the protocol rely on. Data that
// exceeds a limit is refused.
namespace msitd {

// Maximum size of one attachment.
inline constexpr uint64_t kAttachmentBytesMax = uint64_t{64} << 20;

// Maximum number of attachment bytes in one message, in either direction.
inline constexpr size_t kAttachmentPieceBytesMax = size_t{1} << 20;

inline constexpr size_t kRunAttachmentsMax = 256;

// Maximum size of all attachments of a store, including those being written.
inline constexpr uint64_t kStoreAttachmentBytesMax = uint64_t{4} << 30;

// Maximum length of a name or media type in UTF-8 without NUL; the minimum is
// 1.
inline constexpr size_t kAttachmentNameBytesMax = 128;
inline constexpr size_t kMediaTypeBytesMax = 128;

}  // namespace msitd
