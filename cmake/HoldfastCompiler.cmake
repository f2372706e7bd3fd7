# What every target is compiled with. Warnings are part of developer mode only, so that a newer
# compiler's new warning never breaks a user's build.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

find_program(HOLDFAST_CCACHE ccache)
mark_as_advanced(HOLDFAST_CCACHE)
if(HOLDFAST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the sloppiness, ccache caches nothing that uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;${HOLDFAST_CCACHE}")
endif()

# Some fifty test programs are linked per build: lld needs a third of the default linker's time. mold
# 1.10 was as fast, and at times never ended, or made a program that did not start.
if(HOLDFAST_DEVELOPER)
  find_program(HOLDFAST_LLD ld.lld)
  mark_as_advanced(HOLDFAST_LLD)
  if(HOLDFAST_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

# gcc collects its garbage from some hundred megabytes on, which is a tenth of the time of a large
# source; ours need less than a gigabyte without. Unless folded, each std::move and std::forward is a
# function of its own in a build without optimization: one in fifteen.
if(HOLDFAST_DEVELOPER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-pipe "SHELL:--param ggc-min-heapsize=1048576" -ffold-simple-inlines)
endif()

add_library(holdfast_warnings INTERFACE)
if(HOLDFAST_DEVELOPER)
  target_compile_options(holdfast_warnings INTERFACE
    -Wall -Wextra -Wshadow -Wconversion -Wswitch -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(holdfast_warnings INTERFACE -Wthread-safety)
  endif()
endif()

# One program must not mix differently built Asios: its settings are for everybody.
add_compile_definitions(ASIO_STANDALONE ASIO_NO_DEPRECATED)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Asio 1.22 hides coroutines from clang 14.
  add_compile_definitions(ASIO_HAS_CO_AWAIT=1 ASIO_HAS_STD_COROUTINE=1)
endif()
if(HOLDFAST_SANITIZE)
  # For tests that do less of the same then. The compilers' own names for it differ.
  add_compile_definitions(HOLDFAST_SANITIZED)
  add_compile_options(-fsanitize=${HOLDFAST_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  # What the preset gcc-asan looks for and clang's, which compile in half the time, do not: each access
  # for null and alignment costs much of the build's time, and null is found by the address sanitizer as
  # well; `function` makes clang 14 fail at coroutines.
  if(HOLDFAST_SANITIZE_EXCEPT)
    add_compile_options(-fno-sanitize=${HOLDFAST_SANITIZE_EXCEPT})
  endif()
  add_link_options(-fsanitize=${HOLDFAST_SANITIZE})
  if(HOLDFAST_SANITIZE MATCHES "thread")
    # The thread sanitizer does not understand stand-alone fences.
    add_compile_definitions(ASIO_DISABLE_FENCED_BLOCK HOLDFAST_SANITIZED_THREADS)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      add_compile_options(-Wno-tsan)
    endif()
  endif()
endif()
if(HOLDFAST_FUZZ)
  # All code tells libFuzzer where it goes; only the targets link its main().
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(HOLDFAST_COVERAGE)
  add_compile_options(--coverage -fno-inline)
  add_link_options(--coverage)
endif()
