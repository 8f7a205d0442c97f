# Binaries that need nothing but the C library and, for CUDA, the driver: to be carried to a bare machine. Debian has
# static forms of all libraries but fmt, which is taken header-only (cmake/static/fmt-config.cmake).
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(OPENSSL_USE_STATIC_LIBS TRUE)
set(fmt_DIR ${CMAKE_SOURCE_DIR}/cmake/static)
add_link_options(-static-libstdc++ -static-libgcc)
# libedit's own needs, which a static library does not name.
set(ARGON_EDIT_LIBRARY "")
foreach(name edit tinfo bsd md)
  find_library(ARGON_STATIC_${name} ${name} REQUIRED)
  list(APPEND ARGON_EDIT_LIBRARY ${ARGON_STATIC_${name}})
endforeach()
