// The program never shows a password of a store's URL, even before it understands the URL.

#include "src/cli/options/config.h"
#include "src/port/store_url.h"
#include "tests/fuzz/secret.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::cli_secrets {
namespace {

// Where stores look for passwords: in front of the host, and in these options.
bool has_secret(const port::StoreUrl& url) {
  const auto at = url.authority.rfind('@');
  if (at != std::string::npos) {
    const std::string login = url.authority.substr(0, at);
    const auto colon = login.find(':');
    if (colon != std::string::npos && login.find(kSecret, colon) != std::string::npos) return true;
  }
  for (const auto& [key, value] : url.options) {
    if (key == "password" && value.find(kSecret) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

void run(std::string_view input) {
  const std::string text = with_secret(input);
  const std::string shown = cli::without_secret(text);
  demand(!cli::holds_secret(text) || shown != text, "what holds a secret is not shown as it is");
  (void)cli::url_option(text, "ttl");
  const std::string decoded = cli::url_decoded(text);
  demand(decoded.size() <= text.size(), "what is decoded is not longer");
  if (const auto exactly = port::percent_decode(text)) {
    demand(*exactly == decoded, "the program and the stores decode alike");
  }

  const auto url = port::StoreUrl::parse(text);
  if (!url || !has_secret(*url)) return;
  demand(cli::holds_secret(text), "a password is known as one");
  if (text.find(kSecret) != text.rfind(kSecret)) return;
  demand(shown.find(kSecret) == std::string::npos, "without_secret() shows a password");
  demand(url->redacted().find(kSecret) == std::string::npos, "redacted() shows a password");
}

}  // namespace holdfast::fuzz::cli_secrets

HOLDFAST_FUZZ_TARGET(cli_secrets)
