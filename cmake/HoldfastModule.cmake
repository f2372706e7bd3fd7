# The few calls that a folder's CMakeLists.txt is made of.
#
# A layer, in src/machine/CMakeLists.txt (paths are relative to the folder):
#
#   holdfast_module(machine                   # targets holdfast_machine, holdfast::machine
#     SOURCES lock_machine.cc admission.cc    # none: a header-only layer
#     DEPENDS base                            # other layers, by name: linked and public
#     LINK holdfast::asio SQLite::SQLite3     # libraries from outside
#     TESTS lock_machine_test.cc              # one GoogleTest program and CTest entry: machine_test
#     TEST_LINK rapidcheck                    # for the tests only
#     TEST_LABELS fast hermetic               # the default; see below
#     TEST_TIMEOUT 120                        # seconds; the default
#     [NO_LIBRARY]                            # keep it out of libholdfast (the CLI does)
#     [LOADED_AS redis]                       # a store that libholdfast.so loads as a module
#     [BUILT_ON redis]                        # whose module holds the parts of that store, too
#     [FOR_MODULES])                          # libholdfast.so shows its names to those modules
#
# src/stores/memory calls itself store_memory. A store that may be absent looks first:
# `if(NOT HOLDFAST_HAVE_SQLITE) return() endif()`; in C++ the macro is HOLDFAST_HAVE_SQLITE.
#
# HOLDFAST_UNITY compiles several sources of a target as one. What cannot be (two helpers of one
# name in unnamed namespaces) is left out: set_source_files_properties(x.cc PROPERTIES
# SKIP_UNITY_BUILD_INCLUSION ON).
#
# A test program in tests/, bigger or of several files:
#
#   holdfast_test(conformance_test
#     SOURCES lock_conformance_test.cc main.cc
#     DEPENDS client                          # layers
#     LINK rapidcheck
#     LABELS hermetic TIMEOUT 120 ENV "NAME=value"
#     [NEEDS_PROGRAM]    # builds the CLI first; HOLDFAST_PROGRAM is a macro and an environment
#                        # variable with its path
#     [NO_MAIN]          # brings its own main(), which ends with support::run_all_cases()
#     [SHARDS 4]         # so many CTest entries, NAME:1 and on, share out the cases and run side by side
#     [DISCOVER]         # SHARDS 4: each case prepares its own place, and most of its time is waiting
#     [SERIAL]           # runs alone: it measures time
#     [BUSY 1])          # keeps so many processors busy for seconds; 40%: a part of one. The others
#                        # wait most of the time
#
# Labels: `fast`      threads, no processes, no servers, seconds: also under the thread sanitizer;
#         `hermetic`  needs nothing outside the build: also under address+undefined (fast implies it);
#                     alone for what has one thread only;
#         `tool`      as hermetic, but of what is no part of the library (the lab): sanitizers see it in
#                     `make check-all` only;
#         `process`   starts processes or needs the host's facilities: only in the plain build;
#         `root`      needs root, skips loudly without it; `slow` long runs;
#         `live`      needs a server: most of these also under the thread sanitizer.
# Tests are not part of `all`: targets tests_hermetic, tests_tool, tests_sanitized, of that
# tests_sanitized_hermetic, and tests_all build just what a run needs
# (`ninja -C build/dev tests_all && ctest --preset dev`).
#
# A program for people (build/<preset>/bin/<OUTPUT>):
#
#   holdfast_program(holdfast_cli SOURCES main.cc LAYERS cli OUTPUT holdfast [SHARED]
#     [INSTALL program])                      # the component of its package
#
# A benchmark, in bench/: holdfast_bench(machine_bench SOURCES machine_bench.cc DEPENDS machine)

set(HOLDFAST_ROOT "${CMAKE_CURRENT_LIST_DIR}/..")
cmake_path(NORMAL_PATH HOLDFAST_ROOT)

# Public headers: holdfast::headers. Sources inside the tree also see "src/...".
add_library(holdfast_headers INTERFACE)
add_library(holdfast::headers ALIAS holdfast_headers)
target_include_directories(holdfast_headers INTERFACE "${HOLDFAST_ROOT}/include")
target_compile_features(holdfast_headers INTERFACE cxx_std_20)

add_library(holdfast_internal INTERFACE)
target_include_directories(holdfast_internal INTERFACE "${HOLDFAST_ROOT}")
target_link_libraries(holdfast_internal INTERFACE holdfast_headers)

add_custom_target(tests_all)
add_custom_target(tests_hermetic)
add_custom_target(tests_tool)
add_custom_target(tests_sanitized)
add_custom_target(tests_sanitized_hermetic)

function(holdfast_use_unity target)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${HOLDFAST_UNITY} UNITY_BUILD_BATCH_SIZE 12)
endfunction()

macro(holdfast_add_folder folder)
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
    add_subdirectory(${folder})
  endif()
endmacro()

function(holdfast_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_LIBRARY;FOR_MODULES" "TEST_TIMEOUT;LOADED_AS;BUILT_ON"
    "SOURCES;DEPENDS;LINK;TESTS;TEST_LINK;TEST_LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "holdfast_module(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  list(TRANSFORM arg_DEPENDS PREPEND "holdfast::")
  set(target holdfast_${name})
  if(arg_SOURCES)
    # Objects once, for the tests' static library and for the product's two libraries.
    add_library(${target}_objects OBJECT ${arg_SOURCES})
    set_target_properties(${target}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(${target}_objects
      PUBLIC holdfast_internal Threads::Threads ${arg_DEPENDS} ${arg_LINK}
      PRIVATE holdfast_warnings)
    # Both sides of the border must see one copy of what lies on it, also of what is inline.
    if(arg_FOR_MODULES OR arg_LOADED_AS)
      set_target_properties(${target}_objects PROPERTIES CXX_VISIBILITY_PRESET default)
    endif()
    holdfast_use_unity(${target}_objects)
    holdfast_use_source_pch(${target}_objects)
    add_library(${target} STATIC $<TARGET_OBJECTS:${target}_objects>)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(${target}
      PUBLIC holdfast_internal Threads::Threads ${arg_DEPENDS} ${arg_LINK})
    if(arg_LOADED_AS)
      set_property(GLOBAL APPEND PROPERTY HOLDFAST_LOADED_STORES ${arg_LOADED_AS})
      set_property(GLOBAL PROPERTY HOLDFAST_LOADED_LINKS_${arg_LOADED_AS} ${arg_LINK})
      set_property(GLOBAL PROPERTY HOLDFAST_LOADED_PARTS_${arg_LOADED_AS}
        ${arg_LOADED_AS} ${arg_BUILT_ON})
    elseif(NOT arg_NO_LIBRARY)
      set_property(GLOBAL APPEND PROPERTY HOLDFAST_LIBRARY_OBJECTS ${target}_objects)
    endif()
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target}
      INTERFACE holdfast_internal Threads::Threads ${arg_DEPENDS} ${arg_LINK})
  endif()
  if(arg_LINK AND NOT arg_NO_LIBRARY AND NOT arg_LOADED_AS)
    set_property(GLOBAL APPEND PROPERTY HOLDFAST_LIBRARY_LINKS ${arg_LINK})
  endif()
  add_library(holdfast::${name} ALIAS ${target})

  if(NOT arg_TEST_TIMEOUT)
    set(arg_TEST_TIMEOUT 120)
  endif()
  if(arg_TESTS)
    holdfast_test(${name}_test
      SOURCES ${arg_TESTS} DEPENDS ${name} LINK ${arg_TEST_LINK}
      LABELS ${arg_TEST_LABELS} TIMEOUT ${arg_TEST_TIMEOUT})
  endif()
endfunction()

# Makes `target` read what `carrier` (made at its first use) compiled once: HEADERS, with LINK.
function(holdfast_reuse_pch target carrier)
  if(NOT HOLDFAST_PCH)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 arg "PIC" "" "HEADERS;LINK")
  get_target_property(visibility ${target} CXX_VISIBILITY_PRESET)
  # To clang, another visibility makes another header.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND visibility STREQUAL "default")
    string(APPEND carrier _shown)
  endif()
  if(NOT TARGET ${carrier})
    set(source "${CMAKE_BINARY_DIR}/${carrier}.cc")
    if(NOT EXISTS "${source}")
      file(WRITE "${source}" "// Carries a precompiled header.\n")
    endif()
    add_library(${carrier} OBJECT EXCLUDE_FROM_ALL "${source}")
    set_target_properties(${carrier} PROPERTIES
      POSITION_INDEPENDENT_CODE ${arg_PIC} CXX_VISIBILITY_PRESET ${visibility})
    target_link_libraries(${carrier} PRIVATE holdfast_internal Threads::Threads ${arg_LINK})
    target_precompile_headers(${carrier} PRIVATE ${arg_HEADERS})
    if(arg_PIC)
      target_compile_options(${carrier} PRIVATE ${HOLDFAST_SOURCE_OPTIONS})
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${carrier} PRIVATE -fpch-preprocess)
    else()  # What ccache brings back may be older than the headers are.
      target_compile_options(${carrier} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    endif()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${carrier})
endfunction()

set(holdfast_pch_headers <algorithm> <atomic> <chrono> <cstdint> <functional> <map> <memory>
  <optional> <string> <string_view> <thread> <vector>)

# GoogleTest's headers cost a second per file.
function(holdfast_use_test_pch target)
  holdfast_reuse_pch(${target} holdfast_test_pch
    HEADERS <gmock/gmock.h> <gtest/gtest.h> ${holdfast_pch_headers}
    LINK GTest::gmock GTest::gtest)
endfunction()

# The plain tests are bound by the processor: the product's own code, a little optimized, takes a third
# of their time away. gcc 12 then warns of strings that nothing is wrong with.
set(HOLDFAST_SOURCE_OPTIONS)
if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT HOLDFAST_SANITIZE)
  set(HOLDFAST_SOURCE_OPTIONS -O1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND HOLDFAST_SOURCE_OPTIONS -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
  endif()
endif()

# The sources include what they use: the builds that compile each file by itself see to that.
function(holdfast_use_source_pch target)
  if(HOLDFAST_UNITY)
    target_compile_options(${target} PRIVATE ${HOLDFAST_SOURCE_OPTIONS})
    holdfast_reuse_pch(${target} holdfast_source_pch PIC
      HEADERS ${holdfast_pch_headers} <array> <condition_variable> <mutex> <stop_token>)
  endif()
endfunction()

function(holdfast_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NEEDS_PROGRAM;NO_MAIN;DISCOVER;SERIAL" "TIMEOUT;BUSY;SHARDS"
    "SOURCES;DEPENDS;LINK;LABELS;ENV")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "holdfast_test(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT HOLDFAST_BUILD_TESTS)
    return()
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS fast hermetic)
  elseif("fast" IN_LIST arg_LABELS)
    list(APPEND arg_LABELS hermetic)
  endif()
  list(REMOVE_DUPLICATES arg_LABELS)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(HOLDFAST_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 3")
  endif()
  list(TRANSFORM arg_DEPENDS PREPEND "holdfast::")

  # Not part of `all`: a sanitized build makes only the tests it is going to run.
  add_executable(${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_link_libraries(${name} PRIVATE
    ${arg_DEPENDS} ${arg_LINK} holdfast_internal holdfast_test_main GTest::gmock GTest::gtest
    Threads::Threads holdfast_warnings)
  holdfast_use_unity(${name})
  holdfast_use_test_pch(${name})

  add_dependencies(tests_all ${name})
  holdfast_label_sanitized(${name})
  foreach(label IN ITEMS hermetic tool sanitized)
    if("${label}" IN_LIST arg_LABELS)
      add_dependencies(tests_${label} ${name})
    endif()
  endforeach()
  if("hermetic" IN_LIST arg_LABELS AND "sanitized" IN_LIST arg_LABELS)
    add_dependencies(tests_sanitized_hermetic ${name})
  endif()

  set(environment "${arg_ENV}")
  if(arg_NEEDS_PROGRAM)
    target_compile_definitions(${name} PRIVATE
      HOLDFAST_PROGRAM="${CMAKE_BINARY_DIR}/bin/holdfast")
    list(APPEND environment "HOLDFAST_PROGRAM=${CMAKE_BINARY_DIR}/bin/holdfast")
    cmake_language(EVAL CODE
      "cmake_language(DEFER DIRECTORY [[${HOLDFAST_ROOT}]] CALL
         holdfast_depend_on_program [[${name}]])")
  endif()
  if(NOT arg_SERIAL)
    set(arg_SERIAL OFF)
  endif()
  holdfast_share_of_processors(share "${arg_BUSY}")
  if(arg_DISCOVER AND NOT arg_SHARDS)
    set(arg_SHARDS 4)
  endif()
  if(NOT arg_SHARDS)
    add_test(NAME ${name} COMMAND ${name})
    holdfast_set_test_properties(${name})
    return()
  endif()
  # Their limits are of a case, as a rule; a shard runs several.
  if(arg_TIMEOUT LESS 300)
    set(arg_TIMEOUT 300)
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}:${shard} COMMAND ${name})
    holdfast_set_test_properties(${name}:${shard})
    set_property(TEST ${name}:${shard} APPEND PROPERTY ENVIRONMENT
      GTEST_TOTAL_SHARDS=${arg_SHARDS} GTEST_SHARD_INDEX=${index})
  endforeach()
endfunction()

# Adds `sanitized` to the caller's arg_LABELS, where `make test-sanitized` runs the test in this build.
# Also what needs a server, but for crowds and random commands, which take minutes there, and for faults
# of a server's disk, network and processes, which HOLDFAST_SANITIZE_ALL adds (`make check-all`). Not
# under the thread sanitizer: fault tests, which measure time.
macro(holdfast_label_sanitized name)
  set(seen hermetic)
  set(unseen "_(herd|recipe|differential)_")
  if(NOT HOLDFAST_SANITIZE_ALL)
    string(APPEND unseen "|^faults_.*_(disk|partition|server)_")
  endif()
  if(HOLDFAST_SANITIZE MATCHES "thread")
    set(seen fast)
    set(unseen "^(faults|fence)_|${unseen}")
  endif()
  if(NOT "${name}" MATCHES "${unseen}")
    list(APPEND seen live)
  endif()
  foreach(label IN LISTS seen)
    if(HOLDFAST_SANITIZE AND "${label}" IN_LIST arg_LABELS AND NOT "lab" IN_LIST arg_LABELS)
      list(APPEND arg_LABELS sanitized)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES arg_LABELS)
endmacro()

# scripts/test runs ten plain tests per processor at once, since most of them wait for leases and
# processes: one that keeps a processor busy takes the place of eight, and 40% of one that of four.
function(holdfast_share_of_processors share busy)
  set(places 1)
  if(busy AND NOT HOLDFAST_SANITIZE)
    if(busy MATCHES "^([0-9]+)%$")
      math(EXPR places "(8 * ${CMAKE_MATCH_1} + 99) / 100")
    else()
      math(EXPR places "8 * ${busy}")
    endif()
  endif()
  set(${share} ${places} PARENT_SCOPE)
endfunction()

# Reads the caller's arg_LABELS, arg_TIMEOUT, arg_SERIAL, arg_BUSY and environment. What may take longest
# begins first: then nothing waits for it at the end.
macro(holdfast_set_test_properties name)
  set_property(TEST ${name} PROPERTY LABELS ${arg_LABELS})
  set_property(TEST ${name} PROPERTY TIMEOUT ${arg_TIMEOUT})
  set_property(TEST ${name} PROPERTY COST ${arg_TIMEOUT})
  set_property(TEST ${name} PROPERTY RUN_SERIAL ${arg_SERIAL})
  holdfast_share_of_processors(share "${arg_BUSY}")
  set_property(TEST ${name} PROPERTY PROCESSORS ${share})
  set_property(TEST ${name} PROPERTY SKIP_RETURN_CODE 77)
  set_property(TEST ${name} PROPERTY ENVIRONMENT ${environment} HOLDFAST_TEST_ENTRY=${name})
endmacro()

function(holdfast_depend_on_program name)
  if(TARGET holdfast_cli)
    add_dependencies(${name} holdfast_cli)
  endif()
endfunction()

# A test that is a script: `holdfast_script_test(tidy COMMAND python3 x.py LABELS fast)`.
function(holdfast_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "TIMEOUT;BUSY" "COMMAND;LABELS;ENV;BUILDS")
  # The sources are the same in a sanitized build.
  if(NOT HOLDFAST_BUILD_TESTS OR HOLDFAST_SANITIZE)
    return()
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS fast)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY "${HOLDFAST_ROOT}")
  set(environment ${arg_ENV})
  holdfast_set_test_properties(${name})
  foreach(target IN LISTS arg_BUILDS)
    if(TARGET ${target})
      add_dependencies(tests_all ${target})
    endif()
  endforeach()
endfunction()

# The libraries that a module of HOLDFAST_LOADED_STORES links, but those that are headers.
function(holdfast_links_of_store name out)
  get_property(links GLOBAL PROPERTY HOLDFAST_LOADED_LINKS_${name})
  list(REMOVE_ITEM links holdfast::asio)
  set(${out} ${links} PARENT_SCOPE)
endfunction()

# libholdfast, shared and static, out of the objects of every module so far. The stores that are
# modules are inside of the static one only: docs/design/0020-store-modules.md.
function(holdfast_add_library)
  get_property(modules GLOBAL PROPERTY HOLDFAST_LIBRARY_OBJECTS)
  get_property(links GLOBAL PROPERTY HOLDFAST_LIBRARY_LINKS)
  get_property(loaded GLOBAL PROPERTY HOLDFAST_LOADED_STORES)
  if(NOT TARGET holdfast_client)
    message(STATUS "The layers below the client only: libholdfast is not built")
    return()
  endif()
  if(links)
    list(REMOVE_DUPLICATES links)
    list(REMOVE_ITEM links holdfast::asio)
  endif()
  set(objects)
  foreach(module IN LISTS modules)
    list(APPEND objects "$<TARGET_OBJECTS:${module}>")
  endforeach()
  set(static_objects ${objects})
  set(static_links ${links})
  foreach(store IN LISTS loaded)
    list(APPEND static_objects "$<TARGET_OBJECTS:holdfast_store_${store}_objects>")
    holdfast_links_of_store(${store} store_links)
    list(APPEND static_links ${store_links})
  endforeach()
  list(REMOVE_DUPLICATES static_links)

  list(TRANSFORM loaded REPLACE "(.+)" "USE(\\1)" OUTPUT_VARIABLE uses)
  list(JOIN uses " " uses)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/src/stores/loaded.h" CONTENT
    "// Made by cmake/HoldfastModule.cmake.\n#pragma once\n\n#define HOLDFAST_LOADED_STORES(USE) ${uses}\n"
    @ONLY)
  add_library(holdfast SHARED ${objects} "${HOLDFAST_ROOT}/src/modules/loader.cc")
  target_include_directories(holdfast PRIVATE "${CMAKE_BINARY_DIR}/generated")
  holdfast_module_settings(holdfast)
  target_compile_definitions(holdfast PRIVATE HOLDFAST_VERSION="${PROJECT_VERSION}"
    HOLDFAST_MODULE_FOLDER="${CMAKE_INSTALL_FULL_LIBDIR}/holdfast")
  add_library(holdfast_static STATIC ${static_objects})
  set_target_properties(holdfast PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  set(map "${CMAKE_BINARY_DIR}/libholdfast.map")
  configure_file("${HOLDFAST_ROOT}/cmake/libholdfast.map.in" "${map}" @ONLY)
  holdfast_show_only(holdfast "${map}")
  set_target_properties(holdfast_static PROPERTIES OUTPUT_NAME holdfast)
  target_link_libraries(holdfast PRIVATE Threads::Threads ${links} ${CMAKE_DL_LIBS})
  target_link_libraries(holdfast_static PRIVATE Threads::Threads ${static_links})
  foreach(library IN ITEMS holdfast holdfast_static)
    set_target_properties(${library} PROPERTIES LINKER_LANGUAGE CXX)
    target_include_directories(${library} INTERFACE
      "$<BUILD_INTERFACE:${HOLDFAST_ROOT}/include>"
      "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    target_compile_features(${library} INTERFACE cxx_std_20)
    add_library(holdfast::${library} ALIAS ${library})
  endforeach()

  add_custom_target(holdfast_store_modules)
  foreach(store IN LISTS loaded)
    holdfast_links_of_store(${store} store_links)
    set(target holdfast_loaded_${store})
    get_property(parts GLOBAL PROPERTY HOLDFAST_LOADED_PARTS_${store})
    list(TRANSFORM parts REPLACE "(.+)" "$<TARGET_OBJECTS:holdfast_store_\\1_objects>")
    add_library(${target} MODULE "${HOLDFAST_ROOT}/src/modules/entry.cc" ${parts})
    holdfast_module_settings(${target})
    target_compile_definitions(${target} PRIVATE HOLDFAST_MODULE_STORE=${store})
    # Where the library looks: beside itself.
    set_target_properties(${target} PROPERTIES
      PREFIX "" OUTPUT_NAME libholdfast-store-${store}
      LIBRARY_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/holdfast")
    holdfast_show_only(${target} "${HOLDFAST_ROOT}/cmake/store-module.map")
    target_link_libraries(${target} PRIVATE holdfast Threads::Threads ${store_links})
    add_dependencies(holdfast_store_modules ${target})
  endforeach()
endfunction()

# How the library and its modules are compiled, and what tells two builds apart.
function(holdfast_module_settings target)
  target_link_libraries(${target} PRIVATE holdfast_internal holdfast_warnings)
  set(build "${PROJECT_VERSION}")
  if(HOLDFAST_SANITIZE)
    string(APPEND build " sanitized")
  endif()
  target_compile_definitions(${target} PRIVATE HOLDFAST_MODULE_BUILD="${build}")
endfunction()

function(holdfast_show_only target map)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS "${map}")
  target_link_options(${target} PRIVATE "LINKER:--version-script=${map}")
  # Names of the library's own are not looked for elsewhere.
  target_link_options(${target} PRIVATE LINKER:-Bsymbolic-functions)
  if(NOT HOLDFAST_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
endfunction()

# A program links the product's static library (LAYERS adds modules that are not in it), or, SHARED,
# the other one, which loads the stores.
function(holdfast_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SHARED" "OUTPUT;INSTALL" "SOURCES;LAYERS;LINK")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "holdfast_program(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  list(TRANSFORM arg_LAYERS PREPEND "holdfast::")
  add_executable(${name} ${arg_SOURCES})
  holdfast_use_unity(${name})
  if(arg_OUTPUT)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${arg_OUTPUT})
  endif()
  set(library holdfast_static)
  if(arg_SHARED)
    set(library holdfast)
    add_dependencies(${name} holdfast_store_modules)
    cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR
      BASE_DIRECTORY "${CMAKE_INSTALL_FULL_BINDIR}" OUTPUT_VARIABLE back)
    set_target_properties(${name} PROPERTIES INSTALL_RPATH "\$ORIGIN/${back}")
  endif()
  target_link_libraries(${name} PRIVATE
    ${arg_LAYERS} ${arg_LINK} holdfast_internal ${library} Threads::Threads holdfast_warnings)
  if(arg_INSTALL)
    install(TARGETS ${name}
      RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT ${arg_INSTALL})
  endif()
endfunction()

function(holdfast_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS;LINK")
  list(TRANSFORM arg_DEPENDS PREPEND "holdfast::")
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
  target_link_libraries(${name} PRIVATE
    ${arg_DEPENDS} ${arg_LINK} holdfast_internal benchmark::benchmark_main benchmark::benchmark
    Threads::Threads holdfast_warnings)
endfunction()
