#include "src/cli/self_lock.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "src/cli/config.h"
#include "src/cli/json.h"
#include "src/cli/text.h"

namespace holdfast::cli {
namespace {

Json inherited() {
  const char* text = std::getenv("HOLDFAST_HELD");
  if (text == nullptr) return Json::array();
  Json list = Json::parse(text, nullptr, false);
  return list.is_array() ? list : Json::array();
}

std::string resolved(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::weakly_canonical(path, error);
  return error ? path : real.string();
}

}  // namespace

std::string store_key(const std::string& url) {
  const std::string plain = without_secret(url);
  std::string key = plain.substr(0, plain.find('?'));
  const std::string scheme = "sqlite://";
  if (key.compare(0, scheme.size(), scheme) == 0) {
    key = scheme + resolved(url_decoded(key.substr(scheme.size())));
  }
  return key + "#" + url_option(url, "ns").value_or("");
}

std::optional<Error> find_self_deadlock(const Client& client, const std::string& key,
                                        const std::string& name) {
  for (const Json& entry : inherited()) {
    if (!entry.is_array() || entry.size() != 3 || entry[0] != key || entry[1] != name) continue;
    const std::string token = entry[2].is_string() ? entry[2].get<std::string>() : "";
    const auto info = client.inspect(name);
    if (!info || !*info) continue;
    const auto& holders = (*info)->holders;
    const bool ours = std::any_of(holders.begin(), holders.end(), [&](const HolderInfo& holder) {
      return holder.token.to_string() == token;
    });
    if (!ours) continue;
    return Error(Errc::kWouldDeadlock,
                 "a deadlock with itself: this runs inside 'holdfast run " + printable(name) +
                     "', which holds " + in_quotes(name) +
                     " (HOLDFAST_HELD says so) and ends only after this. Leave out the inner"
                     " lock, or use another name");
  }
  return std::nullopt;
}

std::string held_variable(const std::string& key, const std::string& name, Token token) {
  Json list = inherited();
  list.push_back(Json::array({key, name, token.to_string()}));
  return list.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace holdfast::cli
