// Locks on Consul against the raw limit of the same server: contest.h says how.
//
// A bare pair: the two transactions that a safe grant needs. One makes a key of the session's that
// was not there, if the session's fence is as it was (so that a late duplicate does nothing), and
// reads the folder; the other removes the key, under the same condition. The bare loop drives
// libcurl's multi interface on one thread, with a connection for each chain.
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <curl/curl.h>

#include "bench/contest.h"
#include "bench/figures.h"
#include "tests/support/consul_server.h"

namespace holdfast::bench {
namespace {

using support::ConsulServer;

std::size_t keep(char* data, std::size_t size, std::size_t count, void* text) {
  static_cast<std::string*>(text)->append(data, size * count);
  return size * count;
}

// A handle of libcurl's, whose connection is kept.
class Easy {
 public:
  explicit Easy(const ConsulServer& consul)
      : base_("http://127.0.0.1:" + std::to_string(consul.port())), easy_(curl_easy_init()) {
    headers_ = curl_slist_append(headers_, "Expect:");
    headers_ = curl_slist_append(headers_, "Content-Type: application/json");
    curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_);
    curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy_, CURLOPT_PROXY, "");
    curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &keep);
    curl_easy_setopt(easy_, CURLOPT_WRITEDATA, &answer_);
  }
  ~Easy() {
    curl_easy_cleanup(easy_);
    curl_slist_free_all(headers_);
  }
  Easy(const Easy&) = delete;
  Easy& operator=(const Easy&) = delete;

  CURL* get() const { return easy_; }
  const std::string& answer() const { return answer_; }

  void prepare_get(const std::string& target) {
    answer_.clear();
    curl_easy_setopt(easy_, CURLOPT_URL, (base_ + target).c_str());
    curl_easy_setopt(easy_, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, nullptr);
  }
  // `body` lives until the answer.
  void prepare_put(const std::string& target, const std::string& body, const char* method = "PUT") {
    answer_.clear();
    curl_easy_setopt(easy_, CURLOPT_URL, (base_ + target).c_str());
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, method);
  }
  bool good() const {
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    return status == 200;
  }

 private:
  const std::string base_;
  CURL* const easy_;
  curl_slist* headers_ = nullptr;
  std::string answer_;
};

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) all += part;
  return all;
}

// The text behind `"name":"`, or the number behind `"name":`.
std::string field(const std::string& json, const std::string& name) {
  std::size_t at = json.find("\"" + name + "\":");
  if (at == std::string::npos) throw std::runtime_error("no " + name + " in " + json);
  at += name.size() + 3;
  while (json[at] == ' ' || json[at] == '"') ++at;
  return json.substr(at, json.find_first_of("\",}", at) - at);
}

class Pairs final : public RawPairs {
 public:
  Pairs(const ConsulServer& consul, int in_flight) : multi_(curl_multi_init()) {
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 64L);
    const std::string session =
        field(consul.ask("PUT", "/v1/session/create", R"({"TTL":"600s","Behavior":"delete"})").body,
              "ID");
    consul.ask("PUT", "/v1/kv/raw-fence?acquire=" + session);
    const std::string fence = field(consul.ask("GET", "/v1/kv/raw-fence").body, "ModifyIndex");
    for (int i = 0; i < in_flight; ++i) {
      const std::string folder = "raw/" + std::to_string(i) + "/", key = folder + "key";
      const std::string begin =
          joined({R"([{"KV":{"Verb":"check-index","Key":"raw-fence","Index":)", fence, "}},"});
      auto chain = std::make_unique<Chain>(consul);
      chain->acquire =
          joined({begin, R"({"KV":{"Verb":"check-not-exists","Key":")", key,
                  R"("}},{"KV":{"Verb":"lock","Key":")", key, R"(","Value":"","Session":")",
                  session, R"("}},{"KV":{"Verb":"get-tree","Key":")", folder, "\"}}]"});
      chain->release =
          joined({begin, R"({"KV":{"Verb":"check-session","Key":")", key, R"(","Session":")",
                  session, R"("}},{"KV":{"Verb":"delete","Key":")", key, "\"}}]"});
      curl_easy_setopt(chain->easy.get(), CURLOPT_PRIVATE, chain.get());
      chains_.push_back(std::move(chain));
    }
  }
  ~Pairs() override {
    chains_.clear();
    curl_multi_cleanup(multi_);
  }

  double run(int pairs) override {
    left_ = pairs;
    running_ = 0;
    bool failed = false;
    const auto begin = Clock::now();
    for (const auto& each : chains_) next(*each);
    while (running_ > 0) {
      int busy = 0, queued = 0;
      curl_multi_perform(multi_, &busy);
      bool any = false;
      while (const CURLMsg* message = curl_multi_info_read(multi_, &queued)) {
        if (message->msg != CURLMSG_DONE) continue;
        any = true;
        Chain* chain = nullptr;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &chain);
        failed = failed || message->data.result != CURLE_OK || !chain->easy.good();
        curl_multi_remove_handle(multi_, chain->easy.get());
        --running_;
        if (!failed) next(*chain);
      }
      if (!any) curl_multi_poll(multi_, nullptr, 0, 1000, nullptr);
    }
    return failed ? 0 : pairs / seconds_since(begin);
  }

 private:
  struct Chain {
    explicit Chain(const ConsulServer& consul) : easy(consul) {}
    Easy easy;
    std::string acquire;
    std::string release;
    bool held = false;
  };

  void next(Chain& chain) {
    if (!chain.held && left_-- <= 0) return;
    chain.easy.prepare_put("/v1/txn", chain.held ? chain.release : chain.acquire);
    chain.held = !chain.held;
    curl_multi_add_handle(multi_, chain.easy.get());
    ++running_;
  }

  CURLM* const multi_;
  std::vector<std::unique_ptr<Chain>> chains_;
  int left_ = 0;
  int running_ = 0;
};

// The blocking query is under way before the deletion is asked for.
class Watch final : public RawWatch {
 public:
  explicit Watch(const ConsulServer& consul)
      : asks_(consul), deletes_(consul), waits_(consul), multi_(curl_multi_init()) {}
  ~Watch() override { curl_multi_cleanup(multi_); }

  double deletion_us() override {
    const std::string none;
    asks_.prepare_put("/v1/kv/raw-watched", none);
    curl_easy_perform(asks_.get());
    asks_.prepare_get("/v1/kv/raw-watched");
    curl_easy_perform(asks_.get());
    waits_.prepare_get("/v1/kv/raw-watched?wait=60s&index=" + field(asks_.answer(), "ModifyIndex"));
    curl_multi_add_handle(multi_, waits_.get());
    // Until it is sent, and the server has it.
    for (int i = 0; i < 5; ++i) perform(1);
    deletes_.prepare_put("/v1/kv/raw-watched", none, "DELETE");
    curl_multi_add_handle(multi_, deletes_.get());
    const auto begin = Clock::now();
    double told = 0;
    for (int ended = 0; ended < 2;) {
      perform(1000);
      int queued = 0;
      while (const CURLMsg* message = curl_multi_info_read(multi_, &queued)) {
        if (message->easy_handle == waits_.get()) told = micros_since(begin);
        curl_multi_remove_handle(multi_, message->easy_handle);
        ++ended;
      }
    }
    return told;
  }

  double round_trip_us() override {
    const auto begin = Clock::now();
    asks_.prepare_get("/v1/kv/raw-watched?consistent");
    curl_easy_perform(asks_.get());
    return micros_since(begin);
  }

 private:
  void perform(int wait_ms) {
    int busy = 0;
    curl_multi_perform(multi_, &busy);
    curl_multi_poll(multi_, nullptr, 0, wait_ms, nullptr);
    curl_multi_perform(multi_, &busy);
  }

  Easy asks_, deletes_, waits_;
  CURLM* const multi_;
};

class Consul final : public Site {
 public:
  // It writes a line about every request then.
  std::string url(const std::string& query) const override {
    return query.empty() ? consul_.url() : telling().url({{"session", "6s"}});
  }
  pid_t process() const override { return consul_.pid(); }
  std::unique_ptr<RawPairs> raw_pairs(int in_flight) override {
    return std::make_unique<Pairs>(consul_, in_flight);
  }
  std::unique_ptr<RawWatch> raw_watch() override { return std::make_unique<Watch>(consul_); }
  double requests() const override {
    const std::string log = telling().log();
    double count = 0;
    for (std::size_t at = 0; (at = log.find("Request finished", at)) != std::string::npos; ++at) {
      ++count;
    }
    return count;
  }

 private:
  ConsulServer& telling() const {
    if (telling_ == nullptr) {
      support::ConsulOptions options;
      options.log_level = "debug";
      telling_ = std::make_unique<ConsulServer>(options);
    }
    return *telling_;
  }

  ConsulServer consul_;
  mutable std::unique_ptr<ConsulServer> telling_;
};

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast;
  curl_global_init(CURL_GLOBAL_DEFAULT);
  return bench::run_contest(argc, argv,
                            {.unavailable = support::ConsulServer::unavailable(),
                             .start = [] { return std::make_unique<bench::Consul>(); },
                             .in_flight = {8, 32},
                             .pairs_per_round = 1'500});
}
