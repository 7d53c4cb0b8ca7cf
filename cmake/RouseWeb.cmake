# The report page of web/, one HTML file that rouse_report carries: rouse_page(TARGET SOURCE).
#
# Built at build time by tools/web_page.py, which keeps it in the per-user cache under a hash of
# web/: when it is there, neither Node nor a network is needed. -DROUSE_WEB=OFF leaves it out;
# `--html` then says so. -DROUSE_PAGE_HTML=FILE takes a page that was built elsewhere.

option(ROUSE_WEB "Build the report page (needs Python 3.11, and Node 20.19 or PyPI once)" ON)
set(ROUSE_PAGE_HTML "" CACHE FILEPATH "A built page (web/dist/page.html) instead of building it")

# `source` is the file of `target` that takes the page in.
function(rouse_page target source)
  if(ROUSE_PAGE_HTML)
    set(page "${ROUSE_PAGE_HTML}")
  elseif(ROUSE_WEB)
    find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
    set(page "${CMAKE_BINARY_DIR}/web/page.html")
    file(GLOB_RECURSE inputs CONFIGURE_DEPENDS
      "${CMAKE_SOURCE_DIR}/web/src/*" "${CMAKE_SOURCE_DIR}/web/build/*")
    list(APPEND inputs
      "${CMAKE_SOURCE_DIR}/web/package.json" "${CMAKE_SOURCE_DIR}/web/package-lock.json"
      "${CMAKE_SOURCE_DIR}/web/tsconfig.json" "${CMAKE_SOURCE_DIR}/web/vite.config.ts")
    add_custom_command(OUTPUT "${page}"
      COMMAND "${Python3_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/tools/web_page.py" "${page}"
      DEPENDS ${inputs} "${CMAKE_SOURCE_DIR}/tools/web_page.py"
              "${CMAKE_SOURCE_DIR}/tools/devlib/web.py"
      COMMENT "Report page" VERBATIM)
    target_sources(${target} PRIVATE "${page}")
  else()
    return()
  endif()
  # The assembler is told the folder, so that the path is no part of what a compiler cache keeps.
  get_filename_component(folder "${page}" DIRECTORY)
  get_filename_component(name "${page}" NAME)
  set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_DEFINITIONS ROUSE_PAGE_FILE="${name}")
  set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS "-Wa,-I${folder}")
  set_property(SOURCE "${source}" APPEND PROPERTY OBJECT_DEPENDS "${page}")
endfunction()
