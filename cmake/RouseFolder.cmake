# One static library per folder of src/, and one test binary beside it.
#
#   rouse_folder(NAME os
#     SOURCES  psi.cc ...          # compiled into the library rouse_os
#     DEPS     base ...            # other folders; tools/check_layers.py reads this list
#     EXTERNAL SQLite::SQLite3 ... # libraries from outside, never seen by other folders' headers
#     TESTS    psi_test.cc ...)    # compiled into rouse_os_test
#
# Warnings are errors in our code; headers of other projects are system headers.

find_package(Threads REQUIRED)

add_library(rouse_options INTERFACE)
target_compile_options(rouse_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Werror
  # gcc 12 warns falsely about overlapping copies inside std::string (PR 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_compile_definitions(rouse_options INTERFACE ROUSE_VERSION="${PROJECT_VERSION}")
target_include_directories(rouse_options INTERFACE "${CMAKE_SOURCE_DIR}/src")
target_link_libraries(rouse_options INTERFACE Threads::Threads)

function(rouse_folder)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS;EXTERNAL;TESTS;TEST_EXTERNAL" ${ARGN})
  set(library rouse_${ARG_NAME})
  add_library(${library} STATIC ${ARG_SOURCES})
  target_link_libraries(${library} PUBLIC rouse_options)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${library} PUBLIC rouse_${dep})
  endforeach()
  target_link_libraries(${library} PRIVATE ${ARG_EXTERNAL})

  if(ROUSE_BUILD_TESTS AND ARG_TESTS)
    find_package(GTest REQUIRED)
    include(GoogleTest)
    add_executable(${library}_test ${ARG_TESTS})
    target_link_libraries(${library}_test PRIVATE
      ${library} ${ARG_EXTERNAL} ${ARG_TEST_EXTERNAL} GTest::gmock GTest::gtest_main)
    # The tests' own code is compiled without optimization (a third less time each); what it tests
    # is the library as it is shipped.
    target_compile_options(${library}_test PRIVATE $<$<CONFIG:Release>:-O0>)
    # The checkout's path, only for files that name it: in all others it would make a compiler
    # cache miss in every new clone.
    foreach(test IN LISTS ARG_TESTS)
      file(STRINGS "${test}" uses_path REGEX "ROUSE_SOURCE_DIR" LIMIT_COUNT 1)
      if(uses_path)
        set_property(SOURCE "${test}" APPEND PROPERTY
          COMPILE_DEFINITIONS ROUSE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
      endif()
    endforeach()
    gtest_discover_tests(${library}_test TEST_PREFIX "${ARG_NAME}." DISCOVERY_MODE PRE_TEST
      PROPERTIES TIMEOUT 120)
  endif()
endfunction()
