// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/client/msitctl/child_process.h"
#include "tests/unit/client/msitctl/fake_daemon.h"

namespace msitd::msitctl {

// A fake daemon, and the real msitctl that connects to it.
class MsitctlTest : public ::testing::Test {
 protected:
  ChildResult Run(std::vector<std::string> arguments,
                  ChildOptions options = {}) {
    options.arguments = std::move(arguments);
    options.environment.emplace("MSITCTL_ENDPOINT", daemon_.endpoint());
    return RunMsitctl(options);
  }

  void AddRun(const std::string& name) {
    v1::Run& run = daemon_.data().runs.emplace_back();
    run.set_name(name);
    run.set_state(v1::Run::ACTIVE);
    run.set_world_size(2);
    run.mutable_counters()->set_tensor_count(12);
    run.mutable_counters()->set_size_bytes(3 << 20);
  }

  v1::Tensor& AddTensor(const std::string& name) {
    v1::Tensor& tensor = daemon_.data().tensors.emplace_back();
    tensor.set_name(name);
    tensor.set_op("layers.0.q_proj");
    tensor.set_device("cpu:0");
    tensor.set_io(v1::IO_OUTPUT);
    tensor.set_index("0");
    tensor.set_dtype(v1::D_TYPE_FLOAT32);
    tensor.add_shape(2);
    tensor.set_size_bytes(8);
    tensor.mutable_summary()->set_count(2);
    tensor.mutable_summary()->set_min(-0.5);
    tensor.set_has_bytes(true);
    return tensor;
  }

  FakeDaemon daemon_;
};

}  // namespace msitd::msitctl
