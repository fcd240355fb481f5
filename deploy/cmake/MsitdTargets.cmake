# A small source takes most of its compile time for the headers of libraries, which
# have more than a hundred thousand lines. If several sources of a target are
# compiled as one, in the order in which the target lists them, a full build takes
# half the time. An incremental build is faster without batches.
option(MSITD_BATCHES "Compile several sources of a target at once" OFF)
set(MSITD_BATCH_SIZE 16 CACHE STRING "Number of sources of a batch")

# msitd_batch(TARGET [ALONE SOURCES...]) compiles the sources of a target in
# batches, except those listed after ALONE. CMake also excludes sources that have
# their own flags.
function(msitd_batch target)
  cmake_parse_arguments(arg "" "" "ALONE" ${ARGN})
  get_target_property(sources ${target} SOURCES)
  if(arg_ALONE)
    list(REMOVE_ITEM sources ${arg_ALONE})
    set_source_files_properties(${arg_ALONE} PROPERTIES
                                SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(LENGTH sources count)
  if(MSITD_BATCHES AND count GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON
                          UNITY_BUILD_BATCH_SIZE ${MSITD_BATCH_SIZE})
  endif()
endfunction()

# msitd_library(NAME [SOURCES...] [ALONE SOURCES...] DEPS...) adds the static
# library of one module. Sources after ALONE are in no batch, usually because their
# anonymous namespace defines a name that another source defines as well.
function(msitd_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;ALONE;DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES} ${arg_ALONE})
  target_link_libraries(${name} PUBLIC msitd_flags ${arg_DEPS})
  msitd_batch(${name} ALONE ${arg_ALONE})
endfunction()

# msitd_cold(TARGETS...) compiles code that runs once per command or start, such as
# the definitions of flags, with fewer optimizations. It takes a fifth less time to
# compile.
function(msitd_cold)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target}
                           PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  endforeach()
endfunction()

# All tests that run under ThreadSanitizer.
add_custom_target(msitd_tsan_tests)
# Tests of code that parses untrusted bytes. The lane `border` builds only these.
add_custom_target(msitd_border_tests)

# msitd_test(NAME [BORDER] [SOURCES...] [ALONE SOURCES...] DEPS... LABELS...)
# adds one GoogleTest binary of a module and registers each of its tests with ctest.
# Two labels exclude it from ThreadSanitizer: `grpc` if it uses gRPC, which Debian
# builds without ThreadSanitizer, and `sequential` if the tested code is
# single-threaded. BORDER marks tests of code that parses untrusted bytes. ALONE is
# the same as for a library.
function(msitd_test name)
  cmake_parse_arguments(arg "BORDER" "" "SOURCES;ALONE;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES} ${arg_ALONE})
  target_link_libraries(${name} PRIVATE msitd_flags ${arg_DEPS} GTest::gmock
                                        GTest::gtest_main)
  # The libraries under test are optimized as shipped. Tests themselves compile in
  # two thirds of the time without optimization, which is half of a full build.
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
  msitd_batch(${name} ALONE ${arg_ALONE})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                           ${CMAKE_BINARY_DIR}/tests)
  if(arg_BORDER)
    add_dependencies(msitd_border_tests ${name})
  endif()
  # gtest_discover_tests accepts only one label.
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
