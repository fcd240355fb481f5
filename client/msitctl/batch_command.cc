// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <grpc/grpc.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "client/ask/query/exit_code.h"
#include "client/ask/query/interrupts.h"
#include "client/msitctl/command_line.h"
#include "protos/os/unique_fd.h"

namespace msitd::msitctl {
namespace {

using Json = nlohmann::json;

// A longer line ends the batch.
constexpr size_t kLineBytesMax = 1 << 20;
constexpr size_t kReadBytes = 1 << 16;
// A command that prints more fails, as it does on a full disk.
constexpr off_t kOutputBytesMax = 64 << 20;

ask::Outcome SystemError(std::string_view what) {
  return ask::LocalError(
      fmt::format("{}: {}", what, std::generic_category().message(errno)));
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

  static UniqueFd Duplicate(int fd) {
    return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  }

  ask::Outcome Begin() {
    memory_ = UniqueFd(
        memfd_create("msitctl-batch", MFD_CLOEXEC | MFD_ALLOW_SEALING));
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

// The lines of a pipe or file, without their ends.
class Lines {
 public:
  explicit Lines(UniqueFd fd) : fd_(std::move(fd)) {}

  // Null at the end.
  ask::Outcome Next(std::optional<std::string>& line) {
    line.reset();
    size_t end = read_.find('\n');
    while (end == std::string::npos) {
      if (read_.size() > kLineBytesMax) {
        return ask::LocalError(fmt::format(
            "a line of the batch is longer than {} bytes", kLineBytesMax));
      }
      char buffer[kReadBytes];
      const ssize_t count = read(fd_.get(), buffer, sizeof(buffer));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return SystemError("read stdin");
      if (count == 0) return {};
      const size_t before = read_.size();
      read_.append(buffer, static_cast<size_t>(count));
      end = read_.find('\n', before);
    }
    line = read_.substr(0, end);
    read_.erase(0, end + 1);
    return {};
  }

 private:
  const UniqueFd fd_;
  std::string read_;
};

// Returns null if the line is not a list of words.
std::optional<std::vector<std::string>> WordsOf(const std::string& line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return std::nullopt;
  std::vector<std::string> words = {"msitctl"};
  for (const Json& word : json) {
    if (!word.is_string()) return std::nullopt;
    words.push_back(word.get<std::string>());
  }
  return words;
}

int RunCommand(Invocation& invocation, CommandLine& line,
               std::vector<std::string> words) {
  // The command handles signals itself.
  const ask::Interrupts::Handover handover(invocation.interrupts());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return line.Run(static_cast<int>(argv.size()), argv.data());
}

ask::Outcome RunLines(Invocation& invocation, Lines& lines,
                      ask::Output& answers) {
  Capture out(stdout);
  Capture err(stderr);
  MSITCTL_RETURN_IF_FAILED(out.Begin());
  MSITCTL_RETURN_IF_FAILED(err.Begin());
  while (true) {
    // Parsed only once, in advance, while no command is waiting.
    CommandLine command;
    std::optional<std::string> line;
    MSITCTL_RETURN_IF_FAILED(lines.Next(line));
    if (!line.has_value()) return answers.Finish();
    Json answer;
    if (auto words = WordsOf(*line); words.has_value()) {
      answer["exit_code"] = RunCommand(invocation, command, *std::move(words));
      answer["stdout"] = out.Take();
      answer["stderr"] = err.Take();
    } else {
      answer["exit_code"] = ask::kExitUsage;
      answer["stdout"] = "";
      answer["stderr"] =
          "msitctl batch: the line is not a JSON array of strings\n";
    }
    answers.Write(answer.dump(-1, ' ', false, Json::error_handler_t::replace) +
                  "\n");
    answers.Flush();
    if (answer["exit_code"] == ask::kExitInterrupted) return ask::Interrupted();
  }
}

ask::Outcome RunBatch(Invocation& invocation) {
  UniqueFd requests = Capture::Duplicate(STDIN_FILENO);
  UniqueFd answers = Capture::Duplicate(STDOUT_FILENO);
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  // Commands must not read the input of the batch.
  if (!requests.valid() || !answers.valid() || !nothing.valid() ||
      dup2(nothing.get(), STDIN_FILENO) < 0) {
    return SystemError("stdin and stdout of the batch");
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      fdopen(answers.release(), "w"), &std::fclose);
  if (file == nullptr) return SystemError("stdout of the batch");
  ask::Output output(file.get());
  Lines lines(std::move(requests));
  // Keeps threads and tables of gRPC between commands.
  grpc_init();
  ask::Outcome outcome = RunLines(invocation, lines, output);
  grpc_shutdown();
  return outcome;
}

}  // namespace

void AddBatchCommand(CommandLine& line) {
  line.AddVerb(
      line.app(),
      {.name = "batch",
       .summary = "Run many commands in one process. Each line of stdin is a "
                  "JSON array of the words after msitctl. For each, a line is "
                  "printed: a JSON object with exit_code, stdout and stderr.",
       .examples = "msitctl batch",
       .rpcs = ""},
      RunBatch);
}

}  // namespace msitd::msitctl
