# Writes a C++ source that has the bytes of files, so that a program needs no files beside it.
#
#   cmake -D FOLDER=dir -D NAMES=index.html,console.js -D OUT=bytes.cc -P EmbedFiles.cmake
#
# The source defines console_files() of src/server/http/console_page.h.
string(REPLACE "," ";" names "${NAMES}")
set(arrays)
set(entries)
set(number 0)
foreach(name IN LISTS names)
  file(READ "${FOLDER}/${name}" bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char kFile${number}[] = {${bytes}};\n")
  string(APPEND entries
    "    {\"${name}\", {reinterpret_cast<const char*>(kFile${number}), sizeof kFile${number}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUT}" "// Made by cmake/EmbedFiles.cmake.
#include \"src/server/http/console_page.h\"

namespace holdfast::server {
namespace {

${arrays}
const ConsoleFile kFiles[] = {
${entries}};

}  // namespace

std::span<const ConsoleFile> console_files() { return kFiles; }

}  // namespace holdfast::server
")
