// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/interrupts.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "client/ask/query/exit_code.h"

namespace msitd::ask {
namespace {

TEST(InterruptsTest, ASignalThatNothingHoldsEndsTheProgramByItsName) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string program = program_invocation_short_name;
  EXPECT_EXIT(
      {
        const Interrupts interrupts;
        kill(getpid(), SIGINT);
        // The thread that receives it ends the process.
        while (true) pause();
      },
      ::testing::ExitedWithCode(kExitInterrupted), program + ": interrupted");
}

}  // namespace
}  // namespace msitd::ask
