# The pages of web/, that rouse_report carries: a run's report and the list of runs of `rouse ui`,
# one HTML file each: rouse_pages(TARGET SOURCE).
#
# Built at build time by tools/web_page.py, which keeps it in the per-user cache under a hash of
# web/: when it is there, neither Node nor a network is needed. -DROUSE_WEB=OFF leaves it out;
# `--html` and `rouse ui` then say so. -DROUSE_PAGE_HTML=FILE takes a page that was built elsewhere,
# and runs.html beside it.

option(ROUSE_WEB "Build the report page (needs Python 3.11, and Node 20.19 or PyPI once)" ON)
set(ROUSE_PAGE_HTML "" CACHE FILEPATH
    "A built page (web/dist/page.html, beside runs.html) instead of building it")

# `source` is the file of `target` that takes the pages in.
function(rouse_pages target source)
  if(ROUSE_PAGE_HTML)
    set(page "${ROUSE_PAGE_HTML}")
    get_filename_component(folder "${page}" DIRECTORY)
    set(runs "${folder}/runs.html")
  elseif(ROUSE_WEB)
    find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
    set(page "${CMAKE_BINARY_DIR}/web/page.html")
    set(runs "${CMAKE_BINARY_DIR}/web/runs.html")
    file(GLOB_RECURSE inputs CONFIGURE_DEPENDS
      "${CMAKE_SOURCE_DIR}/web/src/*" "${CMAKE_SOURCE_DIR}/web/build/*")
    list(APPEND inputs
      "${CMAKE_SOURCE_DIR}/web/package.json" "${CMAKE_SOURCE_DIR}/web/package-lock.json"
      "${CMAKE_SOURCE_DIR}/web/tsconfig.json" "${CMAKE_SOURCE_DIR}/web/vite.config.ts")
    add_custom_command(OUTPUT "${page}" "${runs}"
      COMMAND "${Python3_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/tools/web_page.py"
              "${CMAKE_BINARY_DIR}/web"
      DEPENDS ${inputs} "${CMAKE_SOURCE_DIR}/tools/web_page.py"
              "${CMAKE_SOURCE_DIR}/tools/devlib/web.py"
      COMMENT "Pages of web/" VERBATIM)
    target_sources(${target} PRIVATE "${page}" "${runs}")
  else()
    return()
  endif()
  # The assembler is told the folder, so that the path is no part of what a compiler cache keeps.
  get_filename_component(folder "${page}" DIRECTORY)
  get_filename_component(name "${page}" NAME)
  set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_DEFINITIONS ROUSE_PAGE_FILE="${name}"
               ROUSE_RUNS_FILE="runs.html")
  set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS "-Wa,-I${folder}")
  set_property(SOURCE "${source}" APPEND PROPERTY OBJECT_DEPENDS "${page};${runs}")
endfunction()
