# The model engine, llama.cpp's library, as one interface target: rouse_llama.
#
# Looked for in this order:
#   1. -DROUSE_LLAMA_SOURCE=DIR: a llama.cpp source tree, built as part of rouse;
#   2. an installed one that find_package(llama) finds (CMAKE_PREFIX_PATH, llama_DIR, /usr/local);
#   3. the pinned release that ./dev built into its cache, given as ROUSE_ENGINE_PREFIX.
#
# Compile definitions that come with it:
#   ROUSE_LLAMA_VERSION      "0.5.0", for people
#   ROUSE_LLAMA_ORIGIN       "source", "installed" or "pinned"
#   ROUSE_ENGINE_EDITS       1 when the library has rouse's edits (third_party/llama), else 0: then
#                            everything works, slower. ./dev builds it with them; switched off by
#                            -DROUSE_ENGINE_EDITS=OFF
#   ROUSE_HAVE_LLAMA_COMMON  1 when llama-common (Jinja chat templates) is there; its headers are
#                            "chat.h", "common.h", "jinja/...", <nlohmann/json.hpp> of the same tree
# ROUSE_ENGINE_VOCABULARIES is set to the folder of the engine's own vocabulary files, if any.

set(ROUSE_LLAMA_SOURCE "" CACHE PATH "A llama.cpp source tree to build as part of rouse")
option(ROUSE_ENGINE_EDITS "Use rouse's edits of the engine where it has them" ON)
set(ROUSE_ENGINE_PREFIX "" CACHE PATH "Where ./dev installed the engine that it built")

# llama.cpp installs llama-common without its headers and without the static libraries behind it;
# cmake/engine adds both. A plain installation therefore has no llama-common for us.
function(rouse_find_llama_common prefix)
  find_path(ROUSE_LLAMA_COMMON_INCLUDE chat.h
    PATHS "${prefix}/include/llama-common" NO_DEFAULT_PATH NO_CACHE)
  foreach(name IN ITEMS llama-common llama-common-base cpp-httplib)
    find_library(library_${name} ${name} PATHS "${prefix}/lib" "${prefix}/lib64"
      NO_DEFAULT_PATH NO_CACHE)
    if(NOT library_${name})
      return()
    endif()
    list(APPEND libraries "${library_${name}}")
  endforeach()
  if(NOT ROUSE_LLAMA_COMMON_INCLUDE)
    return()
  endif()
  find_package(Threads REQUIRED)
  target_include_directories(rouse_llama SYSTEM INTERFACE "${ROUSE_LLAMA_COMMON_INCLUDE}")
  target_link_libraries(rouse_llama INTERFACE ${libraries} llama Threads::Threads)
  target_compile_definitions(rouse_llama INTERFACE ROUSE_HAVE_LLAMA_COMMON=1)
endfunction()

add_library(rouse_llama INTERFACE)
if(ROUSE_LLAMA_SOURCE)
  if(NOT EXISTS "${ROUSE_LLAMA_SOURCE}/include/llama.h")
    message(FATAL_ERROR "ROUSE_LLAMA_SOURCE=${ROUSE_LLAMA_SOURCE} is no llama.cpp source tree "
      "(it has no include/llama.h)")
  endif()
  set(BUILD_SHARED_LIBS OFF)
  set(LLAMA_BUILD_COMMON ON)
  set(LLAMA_OPENSSL OFF CACHE BOOL "")
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # so that these variables win over llama.cpp's options
  # SYSTEM: our warnings are not for its headers.
  add_subdirectory("${ROUSE_LLAMA_SOURCE}" "${CMAKE_BINARY_DIR}/engine" EXCLUDE_FROM_ALL SYSTEM)
  target_link_libraries(rouse_llama INTERFACE llama-common llama)
  target_compile_definitions(rouse_llama INTERFACE ROUSE_HAVE_LLAMA_COMMON=1)
  set(ROUSE_LLAMA_ORIGIN "source")
  get_directory_property(ROUSE_LLAMA_VERSION
    DIRECTORY "${ROUSE_LLAMA_SOURCE}" DEFINITION LLAMA_VERSION_BASE)
else()
  find_package(llama CONFIG QUIET)
  set(ROUSE_LLAMA_ORIGIN "installed")
  if(NOT llama_FOUND AND ROUSE_ENGINE_PREFIX)
    find_package(llama CONFIG QUIET PATHS "${ROUSE_ENGINE_PREFIX}" NO_DEFAULT_PATH)
  endif()
  if(NOT llama_FOUND)
    message(FATAL_ERROR
      "llama.cpp's library was not found. Run ./dev build, which fetches and builds it, or give "
      "-DROUSE_LLAMA_SOURCE=DIR (a llama.cpp source tree) or -DCMAKE_PREFIX_PATH=DIR (an "
      "installed one).")
  endif()
  if(ROUSE_ENGINE_PREFIX AND llama_DIR MATCHES "^${ROUSE_ENGINE_PREFIX}/")
    set(ROUSE_LLAMA_ORIGIN "pinned")
  endif()
  target_link_libraries(rouse_llama INTERFACE llama)
  get_filename_component(rouse_llama_prefix "${LLAMA_INCLUDE_DIR}" DIRECTORY)
  rouse_find_llama_common("${rouse_llama_prefix}")
  set(ROUSE_LLAMA_VERSION "${LLAMA_VERSION}")
endif()
# The header came with the edits.
set(rouse_edits 0)
if(ROUSE_ENGINE_EDITS AND rouse_llama_prefix
    AND EXISTS "${rouse_llama_prefix}/include/rouse-edits.h")
  set(rouse_edits 1)
endif()
set(rouse_vocabularies "${rouse_llama_prefix}/share/rouse/vocabularies")
if(rouse_llama_prefix AND EXISTS "${rouse_vocabularies}")
  set(ROUSE_ENGINE_VOCABULARIES "${rouse_vocabularies}")
endif()
if(NOT ROUSE_LLAMA_VERSION)
  set(ROUSE_LLAMA_VERSION "unknown")
endif()
target_compile_definitions(rouse_llama INTERFACE
  ROUSE_LLAMA_VERSION="${ROUSE_LLAMA_VERSION}" ROUSE_LLAMA_ORIGIN="${ROUSE_LLAMA_ORIGIN}"
  ROUSE_ENGINE_EDITS=${rouse_edits})
message(STATUS "Engine: llama.cpp ${ROUSE_LLAMA_VERSION}, ${ROUSE_LLAMA_ORIGIN}, "
  "edits: ${rouse_edits}")
