#include "src/server/http/console_page.h"

#include <algorithm>
#include <string>

namespace holdfast::server {
namespace {

// Scripts and styles come from files only, so a text that slips into the page as markup does
// nothing. Trusted types let the browser refuse every call that would make markup of a text.
constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  return "image/svg+xml";
}

}  // namespace

std::optional<HttpAnswer> console_page(std::string_view path) {
  constexpr std::string_view kFolder = "/console/";
  if (path != "/" && !path.starts_with(kFolder)) return std::nullopt;
  const std::string_view name = path == "/" ? "index.html" : path.substr(kFolder.size());
  const auto files = console_files();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [name](const ConsoleFile& file) { return file.name == name; });
  if (found == files.end()) return std::nullopt;
  return HttpAnswer{.type = std::string(type_of(name)),
                    .body = std::string(found->bytes),
                    .headers = {{"Content-Security-Policy", std::string(kPagePolicy)},
                                {"Referrer-Policy", "no-referrer"}}};
}

}  // namespace holdfast::server
