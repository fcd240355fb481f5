// SPDX-License-Identifier: Apache-2.0
// Tests of the C interface, compiled as C, without a daemon. Prints the first
// expectation that fails, and exits with 1.
#define _POSIX_C_SOURCE 200809L

#include <msit/msit.h>
#include <msit/reserve.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(condition)                                                \
  do {                                                                   \
    if (!(condition)) {                                                  \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, \
              #condition, msit_last_error());                            \
      exit(1);                                                           \
    }                                                                    \
  } while (0)

// Nothing listens on a socket that does not exist.
static const char kNobody[] = "unix:/nonexistent/msitd.sock";

static msit_options DefaultOptions(void) {
  msit_options options;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  msit_options_init(&options);
  options.endpoint = kNobody;
  options.run = "run";
  return options;
}

static msit_tensor SomeTensor(const float* data, const int64_t* dims) {
  msit_tensor tensor;
  memset(&tensor, 0, sizeof(tensor));
  tensor.struct_size = sizeof(tensor);
  tensor.token = MSIT_TOKEN_CURRENT;
  tensor.op = "op";
  tensor.call = MSIT_CALL_AUTO;
  tensor.io = MSIT_IO_OUTPUT;
  tensor.index = "0";
  tensor.dtype = MSIT_DTYPE_FLOAT32;
  tensor.dim_count = 1;
  tensor.dims = dims;
  tensor.data = data;
  return tensor;
}

static msit_counters Counters(const msit_client* client) {
  msit_counters counters;
  counters.struct_size = sizeof(counters);
  EXPECT(msit_get_counters(client, &counters) == MSIT_OK);
  return counters;
}

static void DefaultsAreThoseOfTheHeader(void) {
  const msit_options options = DefaultOptions();
  EXPECT(options.rank == 0 && options.world_size == 1);
  EXPECT(options.max_block_us == 1000000);
  EXPECT(options.buffer_bytes == MSIT_BUFFER_AUTO);
  EXPECT(options.linger_us == 20000);
  EXPECT(options.open_timeout_us == 5000000);
  EXPECT(options.overflow == MSIT_OVERFLOW_BLOCK);
  EXPECT(options.is_interrupted == NULL);
}

static void DtypesHaveNamesAndSizes(void) {
  EXPECT(msit_dtype_bytes(MSIT_DTYPE_BFLOAT16) == 2);
  EXPECT(msit_dtype_bytes(MSIT_DTYPE_COMPLEX128) == 16);
  EXPECT(msit_dtype_bytes(0) == 0 && msit_dtype_bytes(-1) == 0);
  EXPECT(msit_dtype_bytes(46) == 0 && msit_dtype_bytes(1 << 20) == 0);
  EXPECT(strcmp(msit_dtype_name(MSIT_DTYPE_FLOAT8_E4M3FN), "float8_e4m3fn") ==
         0);
  EXPECT(msit_dtype_name(46) == NULL);
  for (int32_t dtype = 1; dtype <= MSIT_DTYPE_BITS4X2; ++dtype) {
    EXPECT(msit_dtype_from_name(msit_dtype_name(dtype)) == dtype);
  }
  EXPECT(msit_dtype_from_name("float12") == MSIT_DTYPE_UNSPECIFIED);
  EXPECT(msit_dtype_from_name(NULL) == MSIT_DTYPE_UNSPECIFIED);
}

static void OpenRefusesBadOptions(void) {
  msit_client* client = (msit_client*)&client;
  EXPECT(msit_open(NULL, &client) == MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT(client == NULL);
  msit_options options = DefaultOptions();
  EXPECT(msit_open(&options, NULL) == MSIT_ERROR_INVALID_ARGUMENT);
  options.run = NULL;
  EXPECT(msit_open(&options, &client) == MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT(strstr(msit_last_error(), "run") != NULL);
  options = DefaultOptions();
  options.endpoint = "no endpoint";
  EXPECT(msit_open(&options, &client) == MSIT_ERROR_INVALID_ARGUMENT);
  options = DefaultOptions();
  options.struct_size = 0;
  EXPECT(msit_open(&options, &client) == MSIT_ERROR_INVALID_ARGUMENT);
  options = DefaultOptions();
  options.rank = 1;
  EXPECT(msit_open(&options, &client) == MSIT_ERROR_INVALID_ARGUMENT);
  const int32_t bad_overflows[] = {-1, MSIT_OVERFLOW_DEGRADE + 1, 256};
  for (size_t i = 0; i < 3; ++i) {
    options = DefaultOptions();
    options.overflow = bad_overflows[i];
    EXPECT(msit_open(&options, &client) == MSIT_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(msit_last_error(), "overflow") != NULL);
  }
  const int32_t bad_choices[] = {-1, 0, MSIT_IF_EXISTS_NEW + 1};
  for (size_t i = 0; i < 3; ++i) {
    options = DefaultOptions();
    options.if_exists = bad_choices[i];
    EXPECT(msit_open(&options, &client) == MSIT_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(msit_last_error(), "if_exists") != NULL);
  }
}

static void OpenWithoutADaemonIsUnavailable(void) {
  msit_options options = DefaultOptions();
  options.open_timeout_us = 20000;
  msit_client* client = NULL;
  EXPECT(msit_open(&options, &client) == MSIT_ERROR_UNAVAILABLE);
  EXPECT(client == NULL);
  EXPECT(strlen(msit_last_error()) > 0);
}

static int32_t CountQuestion(void* count) {
  ++*(int*)count;
  return 1;
}

static void HostMayEndOpen(void) {
  msit_options options = DefaultOptions();
  int question_count = 0;
  options.open_timeout_us = 60000000;
  options.is_interrupted = &CountQuestion;
  options.interrupt_context = &question_count;
  msit_client* client = NULL;
  EXPECT(msit_open(&options, &client) == MSIT_ERROR_INTERRUPTED);
  EXPECT(client == NULL);
  EXPECT(question_count == 1);
}

static void MissingTransportLibraryIsSaid(void) {
  const char* path = getenv("MSIT_GRPC_LIBRARY");
  char* saved = path == NULL ? NULL : strdup(path);
  setenv("MSIT_GRPC_LIBRARY", "/nonexistent/library.so", 1);
  msit_options options = DefaultOptions();
  msit_client* client = NULL;
  EXPECT(msit_open(&options, &client) == MSIT_ERROR_NO_TRANSPORT);
  EXPECT(strstr(msit_last_error(), "/nonexistent/library.so") != NULL);
  if (saved == NULL) {
    unsetenv("MSIT_GRPC_LIBRARY");
  } else {
    setenv("MSIT_GRPC_LIBRARY", saved, 1);
  }
  free(saved);
}

static void RecordsWaitForADaemonThatIsNotThere(void) {
  msit_options options = DefaultOptions();
  options.open_timeout_us = 0;
  options.max_block_us = 0;
  options.buffer_bytes = 0;
  msit_client* client = NULL;
  EXPECT(msit_open(&options, &client) == MSIT_OK);

  const float data[4] = {1, 2, 3, 4};
  const int64_t dims[1] = {4};
  msit_tensor tensor = SomeTensor(data, dims);
  EXPECT(msit_record(client, &tensor) == MSIT_OK);
  EXPECT(Counters(client).recorded_count == 1);
  EXPECT(Counters(client).recorded_bytes == 16);

  tensor.dtype = 300;
  EXPECT(msit_record(client, &tensor) == MSIT_ERROR_INVALID_ARGUMENT);
  tensor = SomeTensor(data, dims);
  tensor.io = -1;
  EXPECT(msit_record(client, &tensor) == MSIT_ERROR_INVALID_ARGUMENT);
  tensor = SomeTensor(data, NULL);
  EXPECT(msit_record(client, &tensor) == MSIT_ERROR_INVALID_ARGUMENT);
  tensor = SomeTensor(data, dims);
  tensor.dim_count = -1;
  EXPECT(msit_record(client, &tensor) == MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT(msit_record(client, NULL) == MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT(msit_record(NULL, &tensor) == MSIT_ERROR_INVALID_ARGUMENT);

  char name[3] = "xx";
  EXPECT(msit_run_name(client, name, sizeof(name)) == strlen(options.run));
  EXPECT(strncmp(name, options.run, 2) == 0 && name[2] == '\0');
  EXPECT(msit_run_name(client, NULL, 0) == strlen(options.run));
  EXPECT(msit_run_name(NULL, name, sizeof(name)) == 0 && name[0] == '\0');

  EXPECT(msit_token(client) == 0);
  // Without a policy, the same tensors are selected at every token.
  EXPECT(msit_selection(client, MSIT_TOKEN_CURRENT) ==
         msit_selection(client, 7));
  EXPECT(msit_next_token(client) == 1);
  EXPECT(msit_set_token(client, 41) == MSIT_OK);
  EXPECT(msit_next_token(client) == 42);
  EXPECT(msit_set_token(client, -5) == MSIT_ERROR_INVALID_ARGUMENT);
  int32_t call = -1;
  EXPECT(msit_begin_call(client, MSIT_TOKEN_CURRENT, "op", &call) == MSIT_OK);
  EXPECT(call == 0);
  EXPECT(msit_begin_call(client, 42, "op", &call) == MSIT_OK);
  EXPECT(call == 1);

  EXPECT(msit_flush(client, 1000) == MSIT_ERROR_TIMEOUT);
  EXPECT(msit_flush(client, -1) == MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT(msit_close(client, 0) == MSIT_ERROR_TIMEOUT);
  EXPECT(msit_record(client, &tensor) == MSIT_ERROR_INVALID_ARGUMENT);
  tensor = SomeTensor(data, dims);
  EXPECT(msit_record(client, &tensor) == MSIT_ERROR_CLOSED);
  EXPECT(Counters(client).dropped_count == 2);
  msit_free(client);
  msit_free(NULL);
}

static void DropNewestDoesNotWaitForADaemonThatIsNotThere(void) {
  msit_options options = DefaultOptions();
  options.open_timeout_us = 0;
  options.max_block_us = INT64_C(3600) * 1000000;
  options.buffer_bytes = 0;
  options.overflow = MSIT_OVERFLOW_DROP_NEWEST;
  msit_client* client = NULL;
  EXPECT(msit_open(&options, &client) == MSIT_OK);
  const int64_t dims[1] = {1 << 20};
  float* data = calloc(1 << 20, sizeof(float));
  EXPECT(data != NULL);
  const msit_tensor tensor = SomeTensor(data, dims);
  EXPECT(msit_record(client, &tensor) == MSIT_OK);
  EXPECT(msit_record(client, &tensor) == MSIT_OK);
  EXPECT(msit_record(client, &tensor) == MSIT_ERROR_DROPPED);
  EXPECT(Counters(client).dropped_count == 1);
  EXPECT(Counters(client).degraded_count == 0);
  msit_free(client);
  free(data);
}

static void AnOlderCallerKnowsFewerFields(void) {
  msit_options options = DefaultOptions();
  options.open_timeout_us = 0;
  // Everything after open_timeout_us is uninitialized memory of the caller.
  options.struct_size = offsetof(msit_options, device);
  options.device = (const char*)1;
  options.user_agent = (const char*)1;
  msit_client* client = NULL;
  EXPECT(msit_open(&options, &client) == MSIT_OK);
  msit_counters counters;
  memset(&counters, 0x55, sizeof(counters));
  counters.struct_size = offsetof(msit_counters, acknowledged_count);
  EXPECT(msit_get_counters(client, &counters) == MSIT_OK);
  EXPECT(counters.recorded_bytes == 0);
  EXPECT(counters.acknowledged_count == UINT64_C(0x5555555555555555));
  msit_free(client);
}

static void AnOlderCallerRecordsTensors(void) {
  msit_options options = DefaultOptions();
  options.open_timeout_us = 0;
  msit_client* client = NULL;
  EXPECT(msit_open(&options, &client) == MSIT_OK);
  const float data[6] = {1, 2, 3, 4, 5, 6};
  const int64_t dims[] = {2, 3};
  msit_tensor tensor = SomeTensor(data, dims);
  // Everything from `kind` on is uninitialized memory of the caller.
  tensor.struct_size = offsetof(msit_tensor, kind);
  tensor.kind = -1;
  tensor.requires_grad = 99;
  tensor.value = tensor.stack = (const char*)1;
  EXPECT(msit_record(client, &tensor) == MSIT_OK);
  tensor.struct_size = offsetof(msit_tensor, requires_grad);
  EXPECT(msit_record(client, &tensor) == MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT(Counters(client).recorded_count == 1);
  EXPECT(Counters(client).aliased_count == 0);
  msit_free(client);
}

static void StreamErrorIsCutToTheBuffer(void) {
  msit_options options = DefaultOptions();
  options.open_timeout_us = 0;
  msit_client* client = NULL;
  EXPECT(msit_open(&options, &client) == MSIT_OK);
  size_t length = 0;
  while (length == 0) length = msit_stream_error(client, NULL, 0);
  char text[8];
  memset(text, 'x', sizeof(text));
  EXPECT(msit_stream_error(client, text, sizeof(text)) >= sizeof(text));
  EXPECT(strlen(text) == sizeof(text) - 1);
  msit_free(client);
}

static void ReservationsOutliveTheirClient(void) {
  msit_options options = DefaultOptions();
  options.open_timeout_us = 0;
  options.max_block_us = 0;
  msit_client* client = NULL;
  EXPECT(msit_open(&options, &client) == MSIT_OK);
  const int64_t dims[1] = {4};
  msit_tensor tensor = SomeTensor(NULL, dims);
  // These pointers must not be dereferenced.
  tensor.data = tensor.byte_strides = (const int64_t*)1;
  msit_reservation* reservation = (msit_reservation*)&client;
  EXPECT(msit_reserve(NULL, &tensor, &reservation) ==
         MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT(msit_reserve(client, &tensor, NULL) == MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT(msit_reserve(client, NULL, &reservation) ==
         MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT(reservation == NULL);
  EXPECT(msit_publish(NULL, 1) == MSIT_ERROR_INVALID_ARGUMENT);
  const msit_span* spans = NULL;
  EXPECT(msit_spans(NULL, &spans) == 0);

  EXPECT(msit_reserve(client, &tensor, &reservation) == MSIT_OK);
  EXPECT(msit_spans(reservation, &spans) == 1 && spans[0].bytes == 16);
  msit_reservation* late = NULL;
  EXPECT(msit_reserve(client, &tensor, &late) == MSIT_OK);
  EXPECT(msit_publish(reservation, 1) == MSIT_OK);
  EXPECT(Counters(client).recorded_count == 2);
  // No daemon has shared memory, and no summary was requested.
  EXPECT(msit_memory(client, NULL, 0) == 0);
  EXPECT(msit_memory(NULL, NULL, 0) == 0);

  const int64_t too_many[1] = {1 << 24};
  tensor.dims = too_many;
  EXPECT(msit_reserve(client, &tensor, &reservation) == MSIT_ERROR_TOO_LARGE);
  EXPECT(reservation == NULL);
  EXPECT(Counters(client).dropped_count == 0);

  EXPECT(msit_close(client, 0) == MSIT_ERROR_TIMEOUT);
  EXPECT(Counters(client).dropped_count == 2);
  msit_free(client);
  EXPECT(msit_spans(late, &spans) == 1);
  memset(spans[0].data, 1, spans[0].bytes);
  EXPECT(msit_publish(late, 1) == MSIT_ERROR_CLOSED);
}

static void ForkedChildMayFreeItsCopy(void) {
  msit_options options = DefaultOptions();
  options.open_timeout_us = 0;
  msit_client* client = NULL;
  EXPECT(msit_open(&options, &client) == MSIT_OK);
  const int64_t one[1] = {1};
  const msit_tensor later = SomeTensor(NULL, one);
  msit_reservation* reservation = NULL;
  EXPECT(msit_reserve(client, &later, &reservation) == MSIT_OK);
  const pid_t child = fork();
  if (child == 0) {
    const float data[4] = {1, 2, 3, 4};
    const int64_t dims[1] = {4};
    const msit_tensor tensor = SomeTensor(data, dims);
    EXPECT(msit_record(client, &tensor) == MSIT_ERROR_FORKED);
    EXPECT(Counters(client).dropped_count == 1);
    msit_reservation* none = NULL;
    EXPECT(msit_reserve(client, &later, &none) == MSIT_ERROR_FORKED);
    EXPECT(msit_publish(reservation, 1) == MSIT_ERROR_FORKED);
    msit_free(client);
    _exit(0);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  EXPECT(Counters(client).dropped_count == 0);
  EXPECT(msit_publish(reservation, 1) == MSIT_OK);
  msit_free(client);
}

int main(void) {
  DefaultsAreThoseOfTheHeader();
  DtypesHaveNamesAndSizes();
  OpenRefusesBadOptions();
  OpenWithoutADaemonIsUnavailable();
  HostMayEndOpen();
  MissingTransportLibraryIsSaid();
  RecordsWaitForADaemonThatIsNotThere();
  DropNewestDoesNotWaitForADaemonThatIsNotThere();
  AnOlderCallerKnowsFewerFields();
  AnOlderCallerRecordsTensors();
  StreamErrorIsCutToTheBuffer();
  ReservationsOutliveTheirClient();
  ForkedChildMayFreeItsCopy();
  EXPECT(strlen(msit_version()) > 0);
  return 0;
}
