# The stores: each says in src/stores/NAME/manifest.cmake what it needs, and in manifest.h what it is.
# To register one, name it in HOLDFAST_REGISTERED_STORES (CMakeLists.txt): the rest follows from both.
#
#   holdfast_store(redis
#     FOUND ON                           # what it needs is there
#     NEEDS "hiredis (libhiredis-dev)"   # for people, with the packages to install
#     STATIC_REQUIRES hiredis            # what a user of libholdfast.a needs: by pkg-config,
#     STATIC_LIBS -lzookeeper_mt         # as flags of the linker,
#     STATIC_FIND "find_dependency(X)")  # and as CMake code
#
# A manifest finds what it needs only `if(HOLDFAST_STORE_WANTED)`: the store was not switched off.

set(HOLDFAST_STORES)
set(HOLDFAST_PC_STATIC_REQUIRES)
set(HOLDFAST_PC_STATIC_LIBS)
set(HOLDFAST_STATIC_FIND)
set(holdfast_store_lines)

function(holdfast_store name)
  cmake_parse_arguments(PARSE_ARGV 1 store "" "FOUND;NEEDS;STATIC_FIND"
    "STATIC_REQUIRES;STATIC_LIBS")
  holdfast_decide(${name} "${store_FOUND}" "${store_NEEDS}")
  string(TOUPPER "HOLDFAST_HAVE_${name}" have)
  set(${have} "${${have}}" PARENT_SCOPE)
  if(NOT ${have})
    set(holdfast_store_lines "${holdfast_store_lines} \\\n  LEFT_OUT(${name})" PARENT_SCOPE)
    return()
  endif()
  add_compile_definitions(${have}=1)
  set(holdfast_store_lines "${holdfast_store_lines} \\\n  BUILT(${name})" PARENT_SCOPE)
  set(HOLDFAST_STORES ${HOLDFAST_STORES} ${name} PARENT_SCOPE)
  set(HOLDFAST_PC_STATIC_REQUIRES ${HOLDFAST_PC_STATIC_REQUIRES} ${store_STATIC_REQUIRES} PARENT_SCOPE)
  set(HOLDFAST_PC_STATIC_LIBS ${HOLDFAST_PC_STATIC_LIBS} ${store_STATIC_LIBS} PARENT_SCOPE)
  if(store_STATIC_FIND)
    set(HOLDFAST_STATIC_FIND "${HOLDFAST_STATIC_FIND}\n  ${store_STATIC_FIND}" PARENT_SCOPE)
  endif()
endfunction()

foreach(name IN LISTS HOLDFAST_REGISTERED_STORES)
  string(TOUPPER "HOLDFAST_WITH_${name}" store_with)
  set(${store_with} ${HOLDFAST_WITH_STORES} CACHE STRING "The store ${name}: AUTO, ON or OFF")
  set(HOLDFAST_STORE_WANTED ON)
  if(${store_with} STREQUAL "OFF")
    set(HOLDFAST_STORE_WANTED OFF)
  endif()
  include("${CMAKE_CURRENT_SOURCE_DIR}/src/stores/${name}/manifest.cmake")
endforeach()

# src/stores/registered.h: the manifests, and HOLDFAST_STORES(BUILT, LEFT_OUT), which expands to one
# or the other for each store.
list(TRANSFORM HOLDFAST_REGISTERED_STORES REPLACE "(.+)" "#include \"src/stores/\\1/manifest.h\""
  OUTPUT_VARIABLE holdfast_store_includes)
list(JOIN holdfast_store_includes "\n" holdfast_store_includes)
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/src/stores/registered.h" CONTENT
  "// Made by cmake/HoldfastStores.cmake.\n#pragma once\n\n${holdfast_store_includes}\n\n\
#define HOLDFAST_STORES(BUILT, LEFT_OUT)${holdfast_store_lines}\n" @ONLY)
