# The model engine, llama.cpp's library, as one interface target: rouse_llama.
# Looked for in this order: the source tree ROUSE_LLAMA_SOURCE, then an installed package (the one
# that ./dev builds into its cache is given as ROUSE_ENGINE_PREFIX).

set(ROUSE_LLAMA_SOURCE "" CACHE PATH "A llama.cpp source tree to build as part of rouse")
set(ROUSE_ENGINE_PREFIX "" CACHE PATH "Where ./dev installed the engine that it built")

add_library(rouse_llama INTERFACE)
if(ROUSE_LLAMA_SOURCE)
  set(BUILD_SHARED_LIBS OFF)
  set(LLAMA_BUILD_COMMON ON)
  set(LLAMA_OPENSSL OFF)
  add_subdirectory("${ROUSE_LLAMA_SOURCE}" "${CMAKE_BINARY_DIR}/engine" EXCLUDE_FROM_ALL SYSTEM)
  target_link_libraries(rouse_llama INTERFACE llama-common llama)
  target_compile_definitions(rouse_llama INTERFACE ROUSE_HAVE_LLAMA_COMMON=1)
else()
  find_package(llama CONFIG QUIET HINTS "${ROUSE_ENGINE_PREFIX}")
  if(NOT llama_FOUND)
    message(FATAL_ERROR
      "llama.cpp's library was not found. Run ./dev build, which fetches and builds it, or give "
      "-DROUSE_LLAMA_SOURCE=DIR (a llama.cpp source tree) or -DCMAKE_PREFIX_PATH=DIR (an "
      "installed one).")
  endif()
  target_link_libraries(rouse_llama INTERFACE llama)
endif()
