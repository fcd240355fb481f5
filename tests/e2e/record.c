// SPDX-License-Identifier: Apache-2.0
// Records a few tensors through libmsit as a C program does.
//
// usage: record ENDPOINT RUN
#include <stdio.h>
#include <string.h>

#include "msit/msit.h"

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, msit_last_error());
  return 1;
}

static msit_code record(msit_client* client, const char* op, int32_t dtype,
                        const int64_t* dims, int32_t dim_count,
                        const int64_t* byte_strides, const void* data) {
  msit_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.struct_size = sizeof tensor;
  tensor.token = MSIT_TOKEN_CURRENT;
  tensor.op = op;
  tensor.call = MSIT_CALL_AUTO;
  tensor.io = MSIT_IO_OUTPUT;
  tensor.index = "0";
  tensor.dtype = dtype;
  tensor.dim_count = dim_count;
  tensor.dims = dims;
  tensor.byte_strides = byte_strides;
  tensor.data = data;
  return msit_record(client, &tensor);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  msit_options options;
  options.struct_size = sizeof options;
  msit_options_init(&options);
  options.endpoint = argv[1];
  options.run = argv[2];
  options.user_agent = "record.c";
  msit_client* client = NULL;
  if (msit_open(&options, &client) != MSIT_OK) return failed("open");

  const float matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
  const int64_t dims[2] = {2, 3};
  const int64_t dims_transposed[2] = {3, 2};
  const int64_t strides_transposed[2] = {sizeof(float), 3 * sizeof(float)};
  const int64_t dims_empty[1] = {0};
  const double scalar = 2.5;
  if (record(client, "matrix", MSIT_DTYPE_FLOAT32, dims, 2, NULL, matrix) ||
      record(client, "transposed", MSIT_DTYPE_FLOAT32, dims_transposed, 2,
             strides_transposed, matrix) ||
      record(client, "scalar", MSIT_DTYPE_FLOAT64, NULL, 0, NULL, &scalar) ||
      record(client, "empty", MSIT_DTYPE_FLOAT32, dims_empty, 1, NULL, NULL) ||
      record(client, "a/b c", MSIT_DTYPE_FLOAT32, dims, 2, NULL, matrix)) {
    return failed("record");
  }
  msit_next_token(client);
  if (record(client, "matrix", MSIT_DTYPE_FLOAT32, dims, 2, NULL, matrix) ||
      record(client, "matrix", MSIT_DTYPE_FLOAT32, dims, 2, NULL, matrix)) {
    return failed("record");
  }
  if (record(client, "bad", 99, dims, 2, NULL, matrix) !=
      MSIT_ERROR_INVALID_ARGUMENT) {
    fprintf(stderr, "dtype 99 was accepted\n");
    return 1;
  }
  if (msit_close(client, 10 * 1000 * 1000) != MSIT_OK) return failed("close");
  msit_counters counters;
  counters.struct_size = sizeof counters;
  msit_get_counters(client, &counters);
  printf("%llu %llu %llu\n", (unsigned long long)counters.acknowledged_count,
         (unsigned long long)counters.dropped_count,
         (unsigned long long)counters.invalid_count);
  msit_free(client);
  return 0;
}
