// GET /v1/locks: a page of locks of all shards, also of those that other servers lead.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "holdfast/detail/number.h"
#include "holdfast/detail/percent.h"
#include "src/base/lock_name.h"
#include "src/server/http/http_forwarder.h"
#include "src/server/http/lock_answers.h"

namespace holdfast::server {
namespace {

using nlohmann::json;

constexpr std::size_t kMostOnePage = 100;

struct Listed {
  std::string name;
  LockSight sight{};
  json told{};  // By another server, instead.
};

// The page, while it comes together.
struct Page {
  std::size_t limit = 0;
  HttpCaller caller;
  Answered done;
  bool for_server = false;             // Another server asks, for a page of its own.
  std::vector<std::string> leaders{};  // By shard.
  std::vector<bool> covered{};         // By shard: its locks are here.
  std::size_t longest = HttpForwarding().longest_answer;  // Bytes.
  std::optional<std::string> upto{};  // A page of another server ends there, and has a next one.
  std::size_t left = 1;               // Answers that are awaited, and one while they are asked for.
  std::vector<Listed> locks{};
  std::optional<Error> failure{};
  std::optional<HttpAnswer> refusal{};  // That of another server.
};

// JSON is UTF-8, and earlier servers took names that are not. These are told in hexadecimal digits
// behind a control character, which no name has.
constexpr char kInHex = '\x01';

std::string after_text(const std::string& name) {
  if (base::is_utf8(name)) return name;
  std::string text(1, kInHex);
  for (const char each : name) {
    const auto byte = static_cast<unsigned char>(each);
    text += detail::kLowerDigits[byte >> 4U];
    text += detail::kLowerDigits[byte & 0xfU];
  }
  return text;
}

std::optional<std::string> read_after(const std::string& text) {
  if (!text.starts_with(kInHex)) return text;
  std::string name;
  for (std::size_t at = 1; at < text.size(); at += 2) {
    const auto byte = detail::parse_number<std::uint8_t>(text.substr(at, 2), 16);
    if (!byte) return std::nullopt;
    name += static_cast<char>(*byte);
  }
  return name;
}

json to_json(const Page& page, Listed& lock) {
  if (!lock.told.is_null()) return std::move(lock.told);
  json shown = sight_json(lock.sight, page.caller.account);
  // The other server has to sort it.
  if (page.for_server && !base::is_utf8(lock.name)) shown["after"] = after_text(lock.name);
  return shown;
}

// Whether there may be more behind what is left.
bool cut_page(Page& page) {
  std::size_t number = 0;
  std::size_t bytes = 0;
  for (Listed& each : page.locks) {
    if (number == page.limit || (page.upto && each.name > *page.upto)) break;
    each.told = to_json(page, each);
    // The loop writes it, and another server would take nothing of a longer one.
    bytes += each.told.dump(-1, ' ', false, json::error_handler_t::replace).size() + 1;
    if (number > 0 && bytes > page.longest) break;
    ++number;
  }
  const bool cut = number < page.locks.size() || number == page.limit || page.upto;
  page.locks.resize(number);
  return cut && number > 0;
}

HttpAnswer page_answer(Page& page) {
  if (page.failure) return failed(*page.failure);
  if (std::find(page.covered.begin(), page.covered.end(), true) == page.covered.end()) {
    return page.refusal ? *page.refusal : standing_by(page.leaders.front());
  }
  // A shard that moves may be told by two.
  const auto by_name = [](const Listed& one, const Listed& other) { return one.name < other.name; };
  const auto same = [](const Listed& one, const Listed& other) { return one.name == other.name; };
  std::stable_sort(page.locks.begin(), page.locks.end(), by_name);
  page.locks.erase(std::unique(page.locks.begin(), page.locks.end(), same), page.locks.end());
  const bool cut = cut_page(page);
  json out = {{"locks", json::array()}};
  for (Listed& each : page.locks) out["locks"].push_back(std::move(each.told));
  if (cut) out["next_after"] = after_text(page.locks.back().name);
  for (std::size_t shard = 0; shard < page.covered.size(); ++shard) {
    if (page.covered[shard]) continue;
    out["elsewhere"].push_back({{"shard", shard}, {"leader", page.leaders[shard]}});
  }
  return as_json(200, out);
}

void count_answer(Page& page) {
  if (--page.left == 0) page.done(page_answer(page));
}

// The lock as another server tells it. nullopt: that is none.
std::optional<Listed> read_listed(json lock) {
  if (!lock.is_object() || !lock.contains("name") || !lock["name"].is_string()) return std::nullopt;
  std::optional<std::string> name = lock["name"].get<std::string>();
  if (lock.contains("after")) {
    if (!lock["after"].is_string()) return std::nullopt;
    name = read_after(lock["after"].get<std::string>());
    lock.erase("after");
  }
  if (!name) return std::nullopt;
  return Listed{.name = *std::move(name), .told = std::move(lock)};
}

// The locks of the shards that the server leads by now, whichever these are.
void take_page(Page& page, const HttpAnswer& answer) {
  if (answer.status != 200) {
    page.refusal = answer;
    return;
  }
  json told = json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (!told.is_object() || !told.contains("locks") || !told["locks"].is_array()) return;
  std::vector<Listed> locks;
  for (json& each : told["locks"]) {
    auto lock = read_listed(std::move(each));
    if (!lock) return;
    locks.push_back(*std::move(lock));
  }
  std::vector<bool> covered(page.covered.size(), true);
  for (const json& each : told.value("elsewhere", json::array())) {
    const bool good = each.is_object() && each.contains("shard");
    if (!good || !each["shard"].is_number_unsigned()) return;
    const auto shard = each["shard"].get<std::size_t>();
    if (shard < covered.size()) covered[shard] = false;
  }
  if (told.contains("next_after")) {
    if (!told["next_after"].is_string()) return;
    const auto upto = read_after(told["next_after"].get<std::string>());
    if (!upto) return;
    if (!page.upto || *upto < *page.upto) page.upto = upto;
  }
  for (std::size_t shard = 0; shard < covered.size(); ++shard) {
    page.covered[shard] = page.covered[shard] || covered[shard];
  }
  std::move(locks.begin(), locks.end(), std::back_inserter(page.locks));
}

// All have the same page at most, so the first names of all are among theirs.
void ask_others(const HttpScene& scene, const std::shared_ptr<Page>& page,
                const HttpRequest& request) {
  std::vector<std::string> asked;
  std::vector<std::function<void()>> cancels;
  for (const std::string& leader : page->leaders) {
    if (!scene.can_forward(request, leader)) continue;
    if (std::find(asked.begin(), asked.end(), leader) != asked.end()) continue;
    asked.push_back(leader);
    ++page->left;
    cancels.push_back(scene.forwarder->ask({.leader = leader, .caller = page->caller.address},
                                           request, [page](const Result<HttpAnswer>& answer) {
                                             if (answer) take_page(*page, *answer);
                                             count_answer(*page);
                                           }));
  }
  if (cancels.empty()) return;
  page->caller.departure->then = [cancels] {
    for (const auto& each : cancels) each();
  };
}

void list_shards(const HttpScene& scene, const std::shared_ptr<Page>& page,
                 const HttpRequest& request, const std::string& prefix, const std::string& after) {
  for (const HttpShard& each : scene.shards) {
    page->leaders.push_back(each.leader);
    page->covered.push_back(each.service != nullptr);
  }
  ask_others(scene, page, request);
  for (const HttpShard& each : scene.shards) {
    if (each.service == nullptr) continue;
    ++page->left;
    each.service->list(prefix, after, page->limit, [page](Result<std::vector<LockSight>> sights) {
      if (!sights) {
        page->failure = sights.error();
      } else {
        for (LockSight& sight : *sights) {
          std::string name = sight.name;
          page->locks.push_back({.name = std::move(name), .sight = std::move(sight)});
        }
      }
      count_answer(*page);
    });
  }
  count_answer(*page);
}

}  // namespace

void answer_list(const HttpScene& scene, const HttpQuery& query, const HttpRequest& request,
                 const HttpCaller& caller, const Answered& done) {
  const auto text = [&query](const char* word, const std::string& otherwise) {
    const auto found = query.find(word);
    return found == query.end() ? otherwise : found->second;
  };
  const std::string prefix = text("prefix", "");
  const auto good = base::check_lock_prefix(prefix);
  if (!good) return done(bad_request(good.error().message()));
  const auto after = read_after(text("after", ""));
  if (!after || after->size() > base::kLongestStoredName) {
    return done(bad_request("'after' must be what 'next_after' was"));
  }
  const auto limit =
      detail::parse_number<std::size_t>(text("limit", std::to_string(kMostOnePage))).value_or(0);
  if (limit < 1 || limit > kMostOnePage) {
    return done(
        bad_request("'limit' must be a whole number from 1 to " + std::to_string(kMostOnePage)));
  }
  if (caller.account != nullptr && !caller.account->user->may_list(prefix)) {
    return done(failed({Errc::kPermissionDenied, "no right to observe all of these"}));
  }
  const auto page = std::make_shared<Page>(Page{
      .limit = limit, .caller = caller, .done = done, .for_server = !request.forwarded.empty()});
  if (scene.forwarder != nullptr) page->longest = scene.forwarder->longest_page();
  list_shards(scene, page, request, prefix, *after);
}

}  // namespace holdfast::server
