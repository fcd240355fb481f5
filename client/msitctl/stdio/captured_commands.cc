// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/stdio/captured_commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grpc/grpc.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>

#include "client/ask/query/interrupts.h"
#include "client/msitctl/command_line.h"
#include "protos/os/unique_fd.h"

namespace msitd::msitctl {
namespace {

// A command that prints more fails, as it does on a full disk.
constexpr off_t kOutputBytesMax = 64 << 20;

ask::Outcome SystemError(std::string_view what) {
  return ask::LocalError(
      fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

UniqueFd Duplicate(int fd) {
  return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

// Redirects the output of commands to memory during its lifetime.
class Capture {
 public:
  // Replaces `stream`, to which no other thread writes.
  explicit Capture(std::FILE* stream)
      : stream_(stream), fd_(fileno(stream)), saved_(Duplicate(fd_)) {}
  ~Capture() {
    if (saved_.valid()) dup2(saved_.get(), fd_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  ask::Outcome Begin() {
    memory_ = UniqueFd(
        memfd_create("msitctl-output", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    // Memory is only allocated for bytes that are written.
    if (!saved_.valid() || !memory_.valid() ||
        ftruncate(memory_.get(), kOutputBytesMax) != 0 ||
        fcntl(memory_.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0 ||
        dup2(memory_.get(), fd_) < 0) {
      return SystemError("memory for the output of commands");
    }
    return {};
  }

  // Returns what was written since the last call.
  std::string Take() {
    std::fflush(stream_);
    // Output that could not be written must not appear in the output of the
    // next command.
    __fpurge(stream_);
    std::clearerr(stream_);
    const off_t size = lseek(memory_.get(), 0, SEEK_CUR);
    std::string text(size > 0 ? static_cast<size_t>(size) : 0, '\0');
    const ssize_t count = pread(memory_.get(), text.data(), text.size(), 0);
    text.resize(count > 0 ? static_cast<size_t>(count) : 0);
    fallocate(memory_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
              kOutputBytesMax);
    lseek(memory_.get(), 0, SEEK_SET);
    return text;
  }

 private:
  std::FILE* const stream_;
  const int fd_;
  const UniqueFd saved_;
  UniqueFd memory_;
};

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

class Commands final : public CapturedCommands {
 public:
  Commands(Invocation& invocation, UniqueFd requests, File answers)
      : invocation_(invocation),
        requests_(std::move(requests)),
        file_(std::move(answers)),
        answers_(file_.get()),
        out_(stdout),
        err_(stderr) {
    grpc_init();
  }
  ~Commands() override { grpc_shutdown(); }

  ask::Outcome Begin() {
    if (ask::Outcome outcome = out_.Begin(); !outcome.ok()) return outcome;
    return err_.Begin();
  }

  void Prepare() override {
    if (line_ == nullptr) line_ = std::make_unique<CommandLine>();
  }

  CapturedAnswer Run(const std::vector<std::string>& words) override {
    Prepare();
    // A command line is parsed only once.
    const std::unique_ptr<CommandLine> line = std::move(line_);
    std::vector<std::string> all = {"msitctl"};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> argv;
    for (std::string& word : all) argv.push_back(word.data());
    CapturedAnswer answer;
    {
      // The command handles signals itself.
      const ask::Interrupts::Handover handover(invocation_.interrupts());
      answer.exit_code = line->Run(static_cast<int>(argv.size()), argv.data());
    }
    answer.out = out_.Take();
    answer.err = err_.Take();
    return answer;
  }

  StdinLines& requests() override { return requests_; }
  ask::Output& answers() override { return answers_; }

 private:
  Invocation& invocation_;
  StdinLines requests_;
  const File file_;
  ask::Output answers_;
  Capture out_;
  Capture err_;
  std::unique_ptr<CommandLine> line_;
};

}  // namespace

ask::Outcome CapturedCommands::Create(Invocation& invocation,
                                      std::unique_ptr<CapturedCommands>& out) {
  UniqueFd requests = Duplicate(STDIN_FILENO);
  UniqueFd answers = Duplicate(STDOUT_FILENO);
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  // Commands must not read the requests.
  if (!requests.valid() || !answers.valid() || !nothing.valid() ||
      dup2(nothing.get(), STDIN_FILENO) < 0) {
    return SystemError("stdin and stdout");
  }
  File file(fdopen(answers.release(), "w"), &std::fclose);
  if (file == nullptr) return SystemError("stdout");
  auto made = std::make_unique<Commands>(invocation, std::move(requests),
                                         std::move(file));
  if (ask::Outcome outcome = made->Begin(); !outcome.ok()) return outcome;
  out = std::move(made);
  return {};
}

}  // namespace msitd::msitctl
