#include "lab/scenario/secrets.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "src/cli/options/config.h"

#include "lab/scenario/topology.h"

namespace holdfast::lab {
namespace {

constexpr char kNotShown[] = "(not shown)";
// A shorter password may be part of other words, so it is hidden in its URL only.
constexpr std::size_t kTooShort = 4;

void add_those_of(const std::string& url, std::vector<std::string>& secrets) {
  const std::vector<std::string> found = cli::secrets_of(url);
  secrets.insert(secrets.end(), found.begin(), found.end());
}

std::string as_url(const std::string& options) { return "x://h?" + options; }

// Adds the passwords of everything that looks like a URL.
void add_those_in(const std::string& text, std::vector<std::string>& secrets) {
  constexpr std::string_view kBetween = " \t\r\n\"'`,";
  for (std::size_t at = text.find("://"); at != text.npos; at = text.find("://", at + 1)) {
    const std::size_t before = text.find_last_of(kBetween, at);
    const std::size_t begin = before == text.npos ? 0 : before + 1;
    add_those_of(text.substr(begin, text.find_first_of(kBetween, at) - begin), secrets);
  }
}

std::string plain_options(const std::string& options) {
  std::string kept;
  for (std::size_t at = 0; at < options.size();) {
    const std::size_t end = std::min(options.find('&', at), options.size());
    const std::string one = options.substr(at, end - at);
    if (!cli::holds_secret(as_url(one))) kept += (kept.empty() ? "" : "&") + one;
    at = end + 1;
  }
  return kept;
}

}  // namespace

std::vector<std::string> secrets_of(const Scenario& scenario) {
  std::vector<std::string> secrets;
  add_those_of(scenario.store.url, secrets);
  add_those_of(as_url(scenario.store.options), secrets);
  if (scenario.topology != nullptr) {
    add_those_of(scenario.topology->url, secrets);
    add_those_in(scenario.topology->text, secrets);
    for (const Cell& cell : scenario.topology->cells) {
      add_those_of(as_url(cell.what.store.options), secrets);
    }
  }
  std::erase_if(secrets, [](const std::string& each) { return each.size() < kTooShort; });
  // Longer passwords first, because a shorter one may be a part of them.
  std::sort(secrets.begin(), secrets.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  secrets.erase(std::unique(secrets.begin(), secrets.end()), secrets.end());
  return secrets;
}

std::string without(const std::vector<std::string>& secrets, std::string text) {
  for (const std::string& secret : secrets) {
    for (std::size_t at = text.find(secret); at != text.npos; at = text.find(secret, at)) {
      text.replace(at, secret.size(), kNotShown);
      at += sizeof kNotShown - 1;
    }
  }
  return text;
}

Scenario without_secrets(const Scenario& scenario) {
  Scenario shown = scenario;
  shown.store.url = cli::without_secret(scenario.store.url);
  shown.store.options = plain_options(scenario.store.options);
  if (scenario.topology == nullptr) return shown;
  auto topology = std::make_shared<Topology>(*scenario.topology);
  topology->text = without(secrets_of(scenario), std::move(topology->text));
  shown.topology = std::move(topology);
  return shown;
}

}  // namespace holdfast::lab
