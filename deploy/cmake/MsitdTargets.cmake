# msitd_library(NAME SOURCES... DEPS...) makes the static library of one module.
function(msitd_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC msitd_flags ${arg_DEPS})
endfunction()

# Everything that runs under ThreadSanitizer: Debian's gRPC is built without it.
add_custom_target(msitd_tests_without_grpc)

# msitd_test(NAME SOURCES... DEPS... LABELS...) makes one GoogleTest binary of
# a module and registers each of its tests with ctest. The label grpc says that
# the tests run gRPC.
function(msitd_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE msitd_flags ${arg_DEPS} GTest::gmock
                                        GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                           ${CMAKE_BINARY_DIR}/tests)
  if("grpc" IN_LIST arg_LABELS)
    # gtest_discover_tests passes one label on.
    set(arg_LABELS grpc)
  else()
    add_dependencies(msitd_tests_without_grpc ${name})
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 300 LABELS "${arg_LABELS}")
endfunction()
