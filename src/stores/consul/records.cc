#include "src/stores/consul/records.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/base/random.h"
#include "src/stores/consul/keys.h"
#include "src/stores/consul/transport/http.h"
#include "src/stores/consul/transport/messages.h"

namespace holdfast::stores::consul {
namespace {

using base::BootInstant;
using port::Record;
using Version = std::optional<std::uint64_t>;

constexpr std::size_t kWord = 16;  // The random digits before the text.

std::string stored(std::string_view text) {
  return base::to_hex(base::random_128().low, 0).substr(0, kWord) + std::string(text);
}

class ConsulRecords final : public port::Records {
 public:
  ConsulRecords(const ConsulAddress& address, asio::io_context& io)
      : keys_(address.prefix),
        several_(address.hosts.size()),
        where_(address.display()),
        io_(io),
        http_(std::make_unique<HttpLoop>(io, std::make_shared<Agents>(address))) {}
  ~ConsulRecords() override {
    std::promise<void> gone;
    asio::post(io_, [&] {
      http_->stop();
      http_.reset();
      gone.set_value();
    });
    gone.get_future().wait();
  }

  Result<std::optional<Record>> read(const std::string& key, BootInstant by) override {
    HttpRequest request;
    request.target = key_target(keys_.kept(key)) + "?consistent";
    request.reads = true;
    // One agent may be away, and the next one is asked then.
    Result<HttpReply> reply = Error(Errc::kUnavailable, where_ + ": no time was left");
    for (std::size_t tried = 0; tried < several_; ++tried) {
      const BootInstant now = base::BootClock::now();
      if (now >= by) break;
      reply = send(request, now + (by - now) / static_cast<int>(several_ - tried));
      if (reply || reply.error().code() != Errc::kUnavailable) break;
    }
    if (!reply) return reply.error();
    const auto pairs = read_pairs(*reply, named("read", key));
    if (!pairs) return pairs.error();
    if (pairs->empty()) return std::optional<Record>();
    const std::string value = pairs->front().value();
    if (value.size() < kWord) {
      return Error(Errc::kCorruptState, named("read", key) + ": the key holds no record");
    }
    return std::optional(Record{value.substr(kWord), pairs->front().modified});
  }

  Result<Version> create(const std::string& key, const std::string& text, BootInstant by) override {
    const std::string place = keys_.kept(key);
    return change(Transaction().check_not_exists(place).set(place, stored(text)),
                  named("create", key), by);
  }

  Result<Version> replace(const std::string& key, std::uint64_t version, const std::string& text,
                          BootInstant by) override {
    if (version == 0) return Version();
    const std::string place = keys_.kept(key);
    return change(Transaction().check_index(place, version).set(place, stored(text)),
                  named("replace", key), by);
  }

  std::string forgets() const override { return {}; }

 private:
  Result<Version> change(const Transaction& steps, const std::string& what, BootInstant by) {
    HttpRequest request;
    request.method = HttpRequest::Method::kPut;
    request.target = "/v1/txn";
    request.body = steps.body();
    const auto reply = send(std::move(request), by);
    if (!reply) return reply.error();
    const auto answer = read_transaction(*reply, what, /*reads=*/false);
    if (!answer) return answer.error();
    if (!answer->done) return Version();
    if (answer->pairs.empty()) {
      return Error(Errc::kOutcomeUnknown, what + ": Consul's answer does not tell the index");
    }
    return Version(answer->pairs.back().modified);
  }

  Result<HttpReply> send(HttpRequest request, BootInstant by) {
    request.limit = std::max(left_until(by), std::chrono::milliseconds(1));
    const auto told = std::make_shared<std::promise<Result<HttpReply>>>();
    auto answer = told->get_future();
    asio::post(io_, [this, told, request = std::move(request)]() mutable {
      http_->send(std::move(request),
                  [told](Result<HttpReply> reply) { told->set_value(std::move(reply)); });
    });
    return answer.get();
  }

  std::string named(const char* what, const std::string& key) const {
    return where_ + ": " + what + " record '" + key + "'";
  }

  const Keys keys_;
  const std::size_t several_;
  const std::string where_;
  asio::io_context& io_;
  std::unique_ptr<HttpLoop> http_;  // The loop's.
};

}  // namespace

Result<std::unique_ptr<port::Records>> open_records(const ConsulAddress& address,
                                                    const port::StoreContext& context) {
  auto made = std::make_unique<ConsulRecords>(address, *context.io);
  if (auto tried = made->read("-", context.open_by); !tried) return tried.error();
  return std::unique_ptr<port::Records>(std::move(made));
}

}  // namespace holdfast::stores::consul
