// The console: one static page at `/` and the files that it loads (docs/design/0070-console.md).
//
// Guarantee: the answers are the files of src/server/http/console as they were when the program was
// built. They hold no data of the service. The browser runs no script but theirs, and connects to
// no other origin.
// Thread-safety: any thread. Blocking: never.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "src/server/http/http_codec.h"

namespace holdfast::server {

struct ConsoleFile {
  std::string_view name;
  std::string_view bytes;
};

// A source that the build makes has them (cmake/EmbedFiles.cmake).
std::span<const ConsoleFile> console_files();

// nullopt: the path is none of the console's.
std::optional<HttpAnswer> console_page(std::string_view path);

}  // namespace holdfast::server
