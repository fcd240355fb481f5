// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/tree_base.h"

#include <algorithm>

#include "client/foreign/trees/tree_limits.h"
#include "protos/base/attachment_limits.h"
#include "protos/base/limits.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

absl::Status CheckText(std::string_view what, std::string_view text,
                       size_t bytes_max) {
  if (text.size() > bytes_max) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "its {} has {} bytes, more than {}", what, text.size(),
                      bytes_max);
  }
  if (!IsValidUtf8(text) || text.find('\0') != std::string_view::npos) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "its {} is not UTF-8 without NUL", what);
  }
  return absl::OkStatus();
}

absl::Status CheckNumber(std::string_view what, int64_t number, int64_t max) {
  if (number >= 0 && number <= max) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "its {} is {}, not in 0..{}", what, number, max);
}

}  // namespace

absl::Status CheckTensorKey(const TensorKey& key) {
  if (key.op.empty()) return absl::InvalidArgumentError("its op has no name");
  MSITD_RETURN_IF_ERROR(CheckText("op", key.op, kOpBytesMax));
  MSITD_RETURN_IF_ERROR(CheckText("device", key.device, kDeviceBytesMax));
  MSITD_RETURN_IF_ERROR(CheckText("index", key.index, kIndexBytesMax));
  MSITD_RETURN_IF_ERROR(CheckNumber("rank", key.rank, kRankMax));
  MSITD_RETURN_IF_ERROR(CheckNumber("token", key.token, kTokenMax));
  return CheckNumber("call", key.call, kCallMax);
}

void TreeBase::TakeWorldSize(int32_t size, const std::string& folder) {
  if (std::exchange(has_folder_, true) && size != world_size_) {
    AddProblem(folder,
               MakeStatus(absl::StatusCode::kInvalidArgument,
                          "its job has {} ranks, and that of others has {}",
                          size, world_size_));
  }
  world_size_ = std::max(world_size_, size);
}

void TreeBase::AddProblem(std::string file, absl::Status reason) {
  if (problems_.size() == kProblemsMax) {
    ++problems_left_out_;
    return;
  }
  problems_.push_back({std::move(file), std::move(reason)});
}

void TreeBase::AddProblems(std::vector<TreeProblem> problems) {
  for (TreeProblem& problem : problems) {
    AddProblem(std::move(problem.file), std::move(problem.reason));
  }
}

void TreeBase::Refuse(const std::string& relative, std::string_view why) {
  AddProblem(
      root_.PathOf(relative),
      MakeStatus(absl::StatusCode::kInvalidArgument, "not a dump: {}", why));
}

bool TreeBase::CheckKey(const TensorKey& key, const std::string& file) {
  absl::Status fits = CheckTensorKey(key);
  if (fits.ok()) return true;
  AddProblem(file, std::move(fits));
  return false;
}

void TreeBase::AddAttachment(TreeAttachment attachment) {
  absl::Status fits =
      CheckText("name", attachment.name, kAttachmentNameBytesMax);
  const bool is_new = std::none_of(
      attachments_.begin(), attachments_.end(),
      [&](const TreeAttachment& one) { return one.name == attachment.name; });
  if (fits.ok() && !is_new) {
    fits = MakeStatus(absl::StatusCode::kAlreadyExists,
                      "another file is attached as {}", attachment.name);
  }
  if (fits.ok() && attachments_.size() == kRunAttachmentsMax) {
    fits = MakeStatus(absl::StatusCode::kResourceExhausted,
                      "a run has at most {} attachments", kRunAttachmentsMax);
  }
  if (!fits.ok()) {
    AddProblem(attachment.file, std::move(fits));
    return;
  }
  attachments_.push_back(std::move(attachment));
}

std::vector<TreeProblem> TreeBase::TakeProblems() {
  std::vector<TreeProblem> out = std::exchange(problems_, {});
  if (problems_left_out_ > 0) {
    out.push_back({"", MakeStatus(absl::StatusCode::kResourceExhausted,
                                  "{} more files have problems",
                                  std::exchange(problems_left_out_, 0))});
  }
  return out;
}

}  // namespace msitd::trees
