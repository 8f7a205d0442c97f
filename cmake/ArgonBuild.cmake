# How every target of Argon is compiled: language level, warnings, sanitizers, and the numeric rules.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

set(ARGON_SANITIZE "" CACHE STRING "Sanitizers for every target: address, undefined, thread (comma separated)")
if(ARGON_SANITIZE)
  add_compile_options(-fsanitize=${ARGON_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ARGON_SANITIZE})
endif()

find_program(ARGON_CCACHE ccache)
if(ARGON_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ARGON_CCACHE})
endif()

include(ExactMath)
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion;-Werror>")
include_directories(${CMAKE_SOURCE_DIR})

# argon_library(NAME SOURCES a.cpp ... [DEPS lib ...]): a static library of the engine.
function(argon_library name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC ${A_DEPS})
endfunction()

# argon_test(NAME SOURCES a.cpp ... [DEPS lib ...] [LABEL long]): a GoogleTest program, each case a CTest test.
# Tests labelled long are what `make test-long` runs; `make test` leaves them out.
function(argon_test name)
  if(NOT ARGON_TESTS)
    return()
  endif()
  cmake_parse_arguments(A "" "LABEL" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_DEPS} argon_harness GTest::gtest)
  include(GoogleTest)
  if(NOT A_LABEL)
    set(A_LABEL short)
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    PROPERTIES LABELS ${A_LABEL} TIMEOUT 1200)
endfunction()

# argon_fuzzer(NAME SOURCES a.cpp ... [DEPS lib ...] [SEEDS file-or-folder ...]): a program round LLVMFuzzerTestOneInput.
# With any compiler it gets the driver tests/harness/fuzz_main.cpp and a short CTest run over the seeds and a fixed set of
# mutations (a longer one: bin/NAME -seconds 60 SEEDS); with clang, -DARGON_LIBFUZZER=ON makes it a libFuzzer program.
option(ARGON_LIBFUZZER "Link the fuzzers with clang's libFuzzer instead of the standalone driver" OFF)
function(argon_fuzzer name)
  if(NOT ARGON_TESTS)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SOURCES;DEPS;SEEDS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_DEPS})
  if(ARGON_LIBFUZZER)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/harness/fuzz_main.cpp)
    add_test(NAME ${name} COMMAND ${name} -runs 2000 -seed 1 ${A_SEEDS} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    set_tests_properties(${name} PROPERTIES LABELS short TIMEOUT 1200)
  endif()
endfunction()
