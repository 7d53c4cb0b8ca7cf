# Prefers static libraries for what the program `rouse` needs from outside. `rouse --version` takes
# 2.9 ms with them and 4.2 without, for finding and relocating the shared ones, and a start is what
# rouse is about. Which version is linked is still the system's; whoever wants its security updates
# without a build gives -DROUSE_STATIC_LIBRARIES=OFF.
#
# A library without a static form is linked as before. Must be included before find_package().

option(ROUSE_STATIC_LIBRARIES "Link the libraries around rouse statically where they allow it" ON)

# Makes `variable`, which a find module looks for, the static library if there is one. A cache that
# an earlier configuration filled with the shared one of the same folder is corrected.
function(rouse_prefer_static variable name)
  if(DEFINED CACHE{${variable}} AND NOT "${${variable}}" MATCHES "\\.so$")
    return()  # static already, or somebody's own choice
  endif()
  if("${${variable}}" MATCHES "\\.so$")
    string(REGEX REPLACE "\\.so$" ".a" beside "${${variable}}")
    if(EXISTS "${beside}")
      set(${variable} "${beside}" CACHE FILEPATH "" FORCE)
    endif()
    return()
  endif()
  find_library(found NAMES "lib${name}.a" NO_CACHE)
  if(found)
    set(${variable} "${found}" CACHE FILEPATH "")
  endif()
endfunction()

# Sanitizers bring runtimes of their own, which want to see the shared ones.
if(ROUSE_STATIC_LIBRARIES AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  rouse_prefer_static(OPENSSL_CRYPTO_LIBRARY crypto)
  rouse_prefer_static(OPENSSL_SSL_LIBRARY ssl)
  rouse_prefer_static(ZLIB_LIBRARY_RELEASE z)
  rouse_prefer_static(SQLite3_LIBRARY sqlite3)
endif()

# For the program: C++'s own libraries too, unless a shared library of the engine brings them along.
function(rouse_link_runtime_statically target)
  if(NOT ROUSE_STATIC_LIBRARIES OR CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    return()
  endif()
  get_target_property(type llama TYPE)
  get_target_property(file llama IMPORTED_LOCATION)
  if(NOT type STREQUAL "STATIC_LIBRARY" AND NOT file MATCHES "\\.a$")
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()
