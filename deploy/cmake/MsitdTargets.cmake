# msitd_library(NAME SOURCES... DEPS...) makes the static library of one module.
function(msitd_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC msitd_flags ${arg_DEPS})
endfunction()

# Everything that runs under ThreadSanitizer.
add_custom_target(msitd_tsan_tests)
# The tests of what reads bytes of others, which the lane border builds alone.
add_custom_target(msitd_border_tests)

# msitd_test(NAME [BORDER] SOURCES... DEPS... LABELS...) makes one GoogleTest
# binary of a module and registers each of its tests with ctest. Two labels keep
# it from ThreadSanitizer: `grpc` if it runs gRPC, which Debian builds without
# it, and `sequential` if all that it tests runs in one thread. BORDER: it tests
# code that reads bytes of others.
function(msitd_test name)
  cmake_parse_arguments(arg "BORDER" "" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE msitd_flags ${arg_DEPS} GTest::gmock
                                        GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                           ${CMAKE_BINARY_DIR}/tests)
  if(arg_BORDER)
    add_dependencies(msitd_border_tests ${name})
  endif()
  # gtest_discover_tests passes one label on.
  if("grpc" IN_LIST arg_LABELS)
    set(arg_LABELS grpc)
  elseif("sequential" IN_LIST arg_LABELS)
    set(arg_LABELS sequential)
  else()
    add_dependencies(msitd_tsan_tests ${name})
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 300 LABELS "${arg_LABELS}")
endfunction()
