#include "src/server/http/routes.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <nlohmann/json.hpp>

#include "holdfast/detail/percent.h"
#include "holdfast/detail/utc.h"
#include "src/base/clock.h"
#include "src/server/http/console_page.h"

namespace holdfast::server {
namespace {

constexpr std::string_view kLocks = "/v1/locks";
constexpr std::string_view kIds = "/v1/ids/";

HttpAnswer plain(unsigned status, std::string text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = std::move(text)};
}

HttpAnswer readiness(const HttpScene& scene) {
  const auto state = scene.state();
  const bool alone = scene.shards.size() == 1;
  if (!scene.journal_answers(state)) {
    return plain(503, std::string(state ? "leads" : "standing by") +
                          ", and the journal does not answer: nothing is granted until it does\n");
  }
  if (!state && alone) {
    const std::string& leader = scene.shards.front().leader;
    return plain(503, leader.empty() ? "standing by: no server leads yet\n"
                                     : "standing by: " + leader + " leads\n");
  }
  if (!state) return plain(503, "standing by: this server leads no shard\n");
  if (state->full) {
    // This path is open to all, so it does not name the journal's place.
    return plain(503,
                 "the journal cannot be written, so no lock is granted, and renewals go on: make "
                 "room on its disk, or in its etcd\n");
  }
  if (state->quiet_shards.size() == scene.leading()) {
    return plain(503, quiet_text(state->quiet) + "\n");
  }
  if (alone) return plain(200, "ready\n");
  std::string text = "ready: leads " + std::to_string(scene.leading()) + " of " +
                     std::to_string(scene.shards.size()) + " shards\n";
  for (const std::uint32_t each : state->quiet_shards) {
    text += "shard " + std::to_string(each) + ": " +
            quiet_text(scene.shards[each].service->quiet()) + "\n";
  }
  return plain(200, text);
}

void begin_metric(std::string& out, std::string_view name, std::string_view type,
                  std::string_view help) {
  out.append("# HELP ").append(name).append(" ").append(help);
  out.append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
}

void append_metric(std::string& out, std::string_view name, std::string_view type,
                   std::string_view help, std::uint64_t value) {
  begin_metric(out, name, type, help);
  out.append(name).append(" ").append(std::to_string(value)).append("\n");
}

void append_counts(std::string& out, const LockCounts& locks) {
  append_metric(out, "holdfast_server_grants_total", "counter", "Locks granted.", locks.granted);
  append_metric(out, "holdfast_server_queued_total", "counter", "Requests that had to wait.",
                locks.queued);
  begin_metric(out, "holdfast_server_ends_total", "counter", "Holds and waits that ended, by how.");
  const std::pair<std::string_view, std::uint64_t> ends[] = {{"released", locks.released},
                                                             {"cancelled", locks.cancelled},
                                                             {"expired", locks.expired},
                                                             {"broken", locks.broken}};
  for (const auto& [how, count] : ends) {
    out.append("holdfast_server_ends_total{how=\"").append(how).append("\"} ");
    out.append(std::to_string(count)).append("\n");
  }
  append_metric(out, "holdfast_server_extended_leases_total", "counter",
                "Leases that began anew because the term before ended in a crash.", locks.extended);
}

void append_commits(std::string& out, const Service::State& state) {
  constexpr std::string_view kName = "holdfast_server_commit_seconds";
  begin_metric(out, kName, "summary", "Time from a batch to the journal's answer.");
  out.append(kName).append("_sum ");
  out.append(std::to_string(std::chrono::duration<double>(state.commit_time).count()));
  out.append("\n").append(kName).append("_count ").append(std::to_string(state.commits));
  out.append("\n");
}

// The sum over all servers is 1 for each shard that somebody leads.
void append_shards(std::string& out, const HttpScene& scene) {
  append_metric(out, "holdfast_server_shards", "gauge", "Shards of the service.",
                scene.shards.size());
  constexpr std::string_view kName = "holdfast_server_shard_leads";
  begin_metric(out, kName, "gauge", "1: this server leads that shard.");
  for (std::size_t shard = 0; shard < scene.shards.size(); ++shard) {
    out.append(kName).append("{shard=\"").append(std::to_string(shard)).append("\"} ");
    out.append(scene.shards[shard].service != nullptr ? "1\n" : "0\n");
  }
}

HttpAnswer metrics(const HttpScene& scene) {
  std::string out;
  const auto gauge = [&out](std::string_view name, std::string_view help, std::uint64_t value) {
    append_metric(out, name, "gauge", help, value);
  };
  const auto state = scene.state();
  gauge("holdfast_server_leads", "1: this server leads.", state ? 1 : 0);
  gauge("holdfast_server_journal_answers", "0: the journal does not answer.",
        scene.journal_answers(state) ? 1 : 0);
  if (scene.shards.size() > 1) append_shards(out, scene);
  gauge("holdfast_server_http_connections", "Open HTTP connections.", scene.connections);
  if (state) {
    gauge("holdfast_server_holders", "Tickets that hold.", state->holders);
    gauge("holdfast_server_waiters", "Tickets that wait.", state->waiters);
    gauge("holdfast_server_uncommitted_bytes", "Bytes not in the journal yet.", state->uncommitted);
    gauge("holdfast_server_journal_full", "1: the journal takes only renewals.",
          state->full ? 1 : 0);
    const auto quiet = std::chrono::ceil<std::chrono::seconds>(state->quiet).count();
    gauge("holdfast_server_quiet_seconds", "A restored copy grants nothing for so long.",
          static_cast<std::uint64_t>(quiet));
    append_commits(out, *state);
  }
  append_counts(out, scene.locks);
  begin_metric(out, "holdfast_server_http_answers_total", "counter",
               "Answers by the class of their status.");
  for (const int digit : {2, 4, 5}) {
    out += "holdfast_server_http_answers_total{class=\"" + std::to_string(digit) + "xx\"} " +
           std::to_string(scene.answered[digit]) + "\n";
  }
  begin_metric(out, "holdfast_server_build_info", "gauge", "The program's version.");
  out += "holdfast_server_build_info{version=\"" + scene.greeting.version + "\",journal=\"" +
         scene.greeting.journal + "\"} 1\n";
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = std::move(out)};
}

// Errors: a word that comes twice, or that is not among the known ones: it may ask for what this
// server does not do.
Result<HttpQuery> read_query(std::string_view text, const std::vector<std::string_view>& known) {
  HttpQuery query;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    auto word = detail::percent_decode(part.substr(0, equals));
    auto value = detail::percent_decode(part.substr(std::min(equals + 1, part.size())));
    if (!word || !value) return Error(Errc::kInvalidArgument, "the query is not percent-encoded");
    const std::string quoted = '\'' + word->substr(0, 64) + '\'';
    if (std::find(known.begin(), known.end(), *word) == known.end()) {
      std::string all;
      for (const std::string_view each : known) all.append(all.empty() ? "" : ", ").append(each);
      return Error(Errc::kInvalidArgument, "this call has no query word " + quoted + ": it has " +
                                               (all.empty() ? "none" : all));
    }
    if (!query.emplace(*std::move(word), *std::move(value)).second) {
      return Error(Errc::kInvalidArgument,
                   "the query has " + quoted + " more than once: give it one value");
    }
  }
  return query;
}

}  // namespace

HttpAnswer http_error(unsigned status, std::string_view code, const std::string& message,
                      const std::string& next) {
  const nlohmann::json body = {{"error", {{"code", code}, {"message", message}, {"next", next}}}};
  return {.status = status,
          .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

std::string quiet_text(machine::Duration left) {
  const auto whole = std::chrono::ceil<std::chrono::seconds>(left);
  return "the journal is a restored copy and grants nothing for " + std::to_string(whole.count()) +
         " s, until " + detail::utc_text(base::wall_now() + whole);
}

HttpAnswer bad_request(const std::string& message) {
  return http_error(400, "bad_request", message, "see docs/guide/http.md");
}

HttpAnswer wrong_method(const std::string& allowed) {
  HttpAnswer answer = http_error(405, "method", "this path has no such method", "use " + allowed);
  answer.headers.emplace_back("Allow", allowed);
  return answer;
}

void LockCounts::add(const machine::Effect& effect) {
  using machine::EffectKind;
  if (effect.system) return;
  switch (effect.kind) {
    case EffectKind::kGranted: ++granted; break;
    case EffectKind::kQueued: ++queued; break;
    case EffectKind::kReleased: ++released; break;
    case EffectKind::kCancelled: ++cancelled; break;
    case EffectKind::kExpired: expired += effect.was_holder ? 1 : 0; break;
    case EffectKind::kBroken: ++broken; break;
    default: break;
  }
}

bool HttpScene::can_forward(const HttpRequest& request, const std::string& leader) const {
  return forwarder != nullptr && request.forwarded.empty() && forwarder->can_ask(leader);
}

std::size_t HttpScene::leading() const {
  return static_cast<std::size_t>(std::count_if(
      shards.begin(), shards.end(), [](const HttpShard& each) { return each.service != nullptr; }));
}

std::optional<Service::State> HttpScene::state() const {
  std::optional<Service::State> sum;
  for (std::uint32_t shard = 0; shard < shards.size(); ++shard) {
    if (shards[shard].service == nullptr) continue;
    if (!sum) sum.emplace();
    sum->add(shards[shard].service->state(), shard);
  }
  return sum;
}

bool HttpScene::journal_answers(const std::optional<Service::State>& present) const {
  return journal_answered && (!present || present->journal_answers);
}

bool is_open_to_all(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  return path == "/healthz" || path == "/readyz";
}

void answer_request(const HttpScene& scene, const HttpRequest& request, const HttpCaller& caller,
                    Answered done) {
  const std::string_view target = request.target;
  const std::size_t mark = target.find('?');
  const std::string_view path = target.substr(0, mark);
  Result<HttpQuery> query = HttpQuery();
  if (path.starts_with("/v1/")) {
    const bool lists = path == kLocks && is_read(request);
    query = read_query(mark == target.npos ? "" : target.substr(mark + 1),
                       lists ? std::vector<std::string_view>{"prefix", "after", "limit"}
                             : std::vector<std::string_view>());
  }
  if (!query) return done(bad_request(query.error().message()));
  if (path == kLocks || path.starts_with("/v1/locks/")) {
    return answer_lock_call(scene, path.substr(kLocks.size()), *query, request, caller, done);
  }
  if (path.starts_with(kIds)) {
    return answer_id_call(scene, path.substr(kIds.size()), request, caller, done);
  }
  if (const auto page = console_page(path)) {
    return done(is_read(request) ? *page : wrong_method("GET, HEAD"));
  }
  const bool known = is_open_to_all(path) || path == "/metrics" || path == "/v1/server";
  if (!known)
    return done(http_error(404, "no_such_path", "there is nothing here", "see /v1/locks"));
  if (!is_read(request)) return done(wrong_method("GET, HEAD"));
  if (path == "/healthz") return done(plain(200, "alive\n"));
  if (path == "/readyz") return done(readiness(scene));
  const AccountPtr& account = caller.account;
  if (account != nullptr && !account->user->admin && !account->user->may_list("")) {
    return done(
        http_error(403, "no_right", "this tells of all locks", "give the user observe:* or admin"));
  }
  done(path == "/metrics" ? metrics(scene) : server_state(scene));
}

}  // namespace holdfast::server
