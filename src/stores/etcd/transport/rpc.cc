#include "src/stores/etcd/transport/rpc.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <system_error>
#include <utility>
#include <vector>

#include "src/base/thread.h"
#include "src/port/enter_loop.h"
#include "src/stores/etcd/transport/answer_size.h"
#include "src/stores/etcd/transport/rpc_impl.h"
#include "src/stores/etcd/transport/watch_stream.h"

namespace holdfast::stores::etcd {
namespace {

using std::chrono::milliseconds;

constexpr auto kOneTry = milliseconds(1500);
constexpr auto kPatience = milliseconds(900);  // Then a silent connection is dropped.
constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{500};
constexpr const char* kAuthenticate = Method<wire::AuthenticateRequest>::kPath;

Refusal damaged(std::string what) {
  return {status::kInternal, std::move(what), /*unsent=*/false, /*ours=*/true};
}

// One call, with its attempts at several servers.
class UnaryCall final : public std::enable_shared_from_this<UnaryCall> {
 public:
  UnaryCall(Rpc::Impl& home, const char* path, std::string request, How how, Rpc::Answered then)
      : home_(home),
        path_(path),
        request_(std::move(request)),
        how_(how),
        then_(std::move(then)),
        server_(how.server.value_or(home.server_in_use())) {}

  void start() {
    sent_ = base::BootClock::now();
    login_ = home_.logins();
    answer_.reset();
    link_ = home_.link(server_);
    if (link_ == nullptr) {
      return home_.post(
          [self = shared_from_this()] { self->ended(self->home_.why_not(self->server_)); });
    }
    Http2Link::Call call;
    call.path = path_;
    if (path_ != kAuthenticate) call.token = home_.token();
    call.out = request_;
    // A read can be repeated, so one member must not use up its whole time.
    call.deadline = how_.reads_only ? std::min(how_.deadline, sent_ + kOneTry) : how_.deadline;
    call.on_message = [self = shared_from_this()](std::string_view message) {
      self->answer_ = message;
    };
    call.on_end = [self = shared_from_this()](const Refusal& refusal) { self->ended(refusal); };
    link_->open(std::move(call));
  }

 private:
  void ended(Refusal refusal) {
    const LinkPtr link = std::exchange(link_, nullptr);
    if (home_.closing()) return;
    const bool large = answer_ && memory_to_read(*answer_) > port::kMostAnswerMemory;
    if (large || is_too_large(refusal)) {
      home_.give_up_server(server_);
      return then_(Error(Errc::kCorruptState, home_.name_of(server_) + port::kAnswerTooLarge));
    }
    if (refusal.code == status::kOk && answer_) return then_(std::string_view(*answer_));
    if (refusal.code == status::kOk) refusal = damaged("an answer without a message");
    const Verdict verdict = judge(refusal, how_.reads_only);
    // It helps more than that another server cannot be reached.
    if (!refusal.ours && verdict.remedy == Remedy::kNextServer) {
      said_ = refusal;
      said_by_ = home_.name_of(server_);
    }
    if (std::find(asked_.begin(), asked_.end(), server_) == asked_.end()) {
      asked_.push_back(server_);
    }
    // A connection that owes an answer is not used again, because it may be dead without notice.
    const bool timed_out = refusal.code == status::kDeadlineExceeded;
    if (timed_out && base::BootClock::now() - sent_ >= kPatience && link != nullptr && link->up()) {
      home_.give_up_server(server_);
    }
    if (retries(refusal, verdict, timed_out)) return retry(verdict.remedy);
    if (refusal.ours && verdict.code == Errc::kUnavailable && said_) {
      return then_(to_error(*said_, how_.reads_only, said_by_));
    }
    // Where the next server was to help, none did.
    if (verdict.remedy != Remedy::kNextServer) asked_ = {server_};
    then_(to_error(refusal, how_.reads_only, home_.names_of(asked_)));
  }

  bool retries(const Refusal& refusal, const Verdict& verdict, bool timed_out) {
    if (verdict.remedy == Remedy::kNextServer && !how_.server) home_.leave(server_);
    if (base::BootClock::now() >= how_.deadline) return false;
    if (verdict.remedy == Remedy::kLogInAgain) {
      return path_ != kAuthenticate && home_.has_login() && ++logins_ <= 2;
    }
    // A server that leaves may be the only one, and take the call on its next connection.
    const std::size_t most = std::max<std::size_t>(home_.servers(), refusal.unsent ? 2 : 1);
    return verdict.remedy == Remedy::kNextServer && verdict.code == Errc::kUnavailable &&
           !how_.server && (timed_out || ++tries_ <= most);
  }

  void retry(Remedy remedy) {
    if (remedy == Remedy::kNextServer) {
      server_ = home_.server_in_use();
      return start();
    }
    home_.log_in(login_, how_.deadline, [self = shared_from_this()](const Result<bool>& done) {
      if (!done) return self->then_(done.error());
      self->start();
    });
  }

  Rpc::Impl& home_;  // It drops its calls before it goes.
  const char* const path_;
  const std::string request_;
  const How how_;
  const Rpc::Answered then_;
  std::size_t server_;
  LinkPtr link_;
  std::optional<std::string> answer_;
  base::BootInstant sent_;
  std::uint64_t login_ = 0;
  std::vector<std::size_t> asked_;  // The servers that refused it, each once.
  std::optional<Refusal> said_;     // By the last server that answered.
  std::string said_by_;
  std::size_t tries_ = 1;
  int logins_ = 0;
};

}  // namespace

// --- Impl

struct Rpc::Impl::OwnLoop {
  OwnLoop() {
    asio::post(io, [this] {
      port::enter_loop(io, *asio::detail::thread_context::top_of_thread_call_stack());
    });
    thread = base::start_thread("hf-etcd", [this] { io.run(); });
  }
  // Where the rest of Impl could not be made.
  ~OwnLoop() {
    if (!thread.joinable()) return;
    io.stop();
    thread.join();
  }
  OwnLoop(const OwnLoop&) = delete;
  OwnLoop& operator=(const OwnLoop&) = delete;

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  std::thread thread;
};

Rpc::Impl::Impl(const EtcdAddress& address, std::shared_ptr<TlsSettings> tls, asio::io_context* io)
    : address_(address),
      tls_(std::move(tls)),
      own_(io == nullptr ? std::make_unique<OwnLoop>() : nullptr),
      io_(io == nullptr ? own_->io : *io),
      calls_(servers()),
      keepalives_(servers()),
      delays_(io_),
      watches_(std::make_unique<WatchStream>(*this)) {}

Rpc::Impl::~Impl() = default;

Result<std::shared_ptr<Rpc::Impl>> Rpc::Impl::make(const EtcdAddress& address,
                                                   asio::io_context* io) {
  auto tls = TlsSettings::make(address);
  if (!tls) return tls.error();
  return std::shared_ptr<Impl>(new Impl(address, *std::move(tls), io));
}

LinkPtr Rpc::Impl::link(std::size_t server, Use use) {
  ServerLink& its = link_to(server, use);
  if (its.link != nullptr && its.link->usable()) return its.link;
  if (closing_ || base::BootClock::now() < its.not_before) return nullptr;
  its.link = nullptr;
  try {
    its.link =
        std::make_shared<Http2Link>(io_, address_.servers[server], tls_, Http2Link::Patience{});
  } catch (const std::system_error& error) {  // There is no descriptor for its timer.
    on_ended(nullptr, its,
             {status::kUnavailable, kCannotConnect + (": " + std::string(error.what())), true,
              /*ours=*/true},
             /*was_up=*/false);
    return nullptr;
  }
  links_.push_back(its.link);
  its.link->start(address_.connect_timeout,
                  [weak = weak_from_this(), server, use, link = its.link.get()](const Refusal& why,
                                                                                bool was_up) {
                    if (const auto self = weak.lock()) {
                      self->on_ended(link, self->link_to(server, use), why, was_up);
                    }
                  });
  return its.link;
}

// After a failed attempt to connect the server is not asked for a moment.
void Rpc::Impl::on_ended(const Http2Link* link, ServerLink& its, const Refusal& why, bool was_up) {
  std::erase_if(links_, [link](const LinkPtr& each) { return each.get() == link; });
  if (its.link.get() != link) return;
  its.link = nullptr;
  its.why = why;
  its.why.unsent = true;
  its.pause = was_up ? milliseconds(0) : std::clamp(its.pause * 2, kFirstPause, kLongestPause);
  its.not_before = base::BootClock::now() + jitter_.upper_half(its.pause);
}

std::string Rpc::Impl::name_of(std::size_t server) const {
  return (address_.tls ? "etcds://" : "etcd://") + address_.servers[server].text();
}

std::string Rpc::Impl::names_of(const std::vector<std::size_t>& servers) const {
  std::string names;
  for (const std::size_t each : servers) {
    names += names.empty() ? name_of(each) : "," + address_.servers[each].text();
  }
  return names;
}

void Rpc::Impl::send(const char* path, std::string request, How how, Answered then) {
  on_loop([this, path, request = std::move(request), how, then = std::move(then)]() mutable {
    if (closing_) return;
    std::make_shared<UnaryCall>(*this, path, std::move(request), how, std::move(then))->start();
  });
}

// A stream with one request and one answer, after which it is not used again.
void Rpc::Impl::keep_alive(std::size_t server, std::int64_t lease, base::BootInstant deadline,
                           Then<std::int64_t> then) {
  on_loop([this, server, lease, deadline, then = std::move(then)] {
    if (closing_) return;
    const LinkPtr link = this->link(server, Use::kKeepalives);
    const auto refused = [this, server, then, weak = std::weak_ptr(link)](const Refusal& refusal) {
      if (closing_) return;
      const LinkPtr old = weak.lock();
      if (refusal.code == status::kDeadlineExceeded && old != nullptr && old->up()) {
        give_up_server(server);
      }
      then(to_error(refusal, /*reads_only=*/true, name_of(server)));
    };
    if (link == nullptr) {
      return post([this, server, refused] { refused(why_not(server, Use::kKeepalives)); });
    }
    wire::LeaseKeepAliveRequest request;
    request.set_id(lease);
    Http2Link::Call call;
    call.path = "/etcdserverpb.Lease/LeaseKeepAlive";
    call.token = token_;
    call.out = framed(request);
    call.streams = true;
    call.deadline = deadline;
    const auto number = std::make_shared<std::uint64_t>(0);
    call.on_message = [then, refused, number, weak = std::weak_ptr(link)](std::string_view text) {
      if (const LinkPtr its = weak.lock()) its->drop(*number);
      wire::LeaseKeepAliveResponse answer;
      if (!parse(text, answer)) return refused(damaged("a damaged answer"));
      then(answer.ttl());
    };
    call.on_end = refused;
    *number = link->open(std::move(call));
  });
}

void Rpc::Impl::log_in(std::uint64_t stale, base::BootInstant deadline, Then<bool> then) {
  if (logins_ != stale && !logging_in_) return then(true);
  awaiting_login_.push_back(std::move(then));
  if (std::exchange(logging_in_, true)) return;
  wire::AuthenticateRequest request;
  request.set_name(address_.login.user);
  request.set_password(address_.login.password.value_or(""));
  send(kAuthenticate, framed(request), How{deadline, /*reads_only=*/true, std::nullopt},
       [this](const Result<std::string_view>& answer) { logged_in(answer); });
}

void Rpc::Impl::logged_in(const Result<std::string_view>& answer) {
  logging_in_ = false;
  // A server without authentication admits everybody.
  const bool open = !answer && answer.error().message().find("authentication is not enabled") !=
                                   std::string::npos;
  wire::AuthenticateResponse login;
  if (answer && parse(*answer, login)) token_ = login.token();
  if (open) token_.clear();
  if (answer || open) ++logins_;
  // The watch stream still uses the token from its start.
  if (answer) watches_->restart();
  for (const auto& then : std::exchange(awaiting_login_, {})) {
    if (answer || open) {
      then(true);
    } else {
      then(answer.error());
    }
  }
}

void Rpc::Impl::leave(std::size_t server) {
  in_use_.compare_exchange_strong(server, (server + 1) % servers());
}

void Rpc::Impl::give_up_server(std::size_t server) {
  leave(server);
  on_loop([this, server] {
    const Refusal given_up{status::kCancelled, "the server is not asked any more", false,
                           /*ours=*/true};
    for (const Use use : {Use::kCalls, Use::kKeepalives}) {
      const LinkPtr link = std::exchange(link_to(server, use).link, nullptr);
      if (link != nullptr) link->fail(given_up);
    }
  });
}

void Rpc::Impl::after(std::chrono::nanoseconds time, std::function<void()> task) {
  delays_.after(time, std::move(task));
}

void Rpc::Impl::close() {
  if (closing_.exchange(true)) return;
  delays_.close();
  std::promise<void> ended;
  on_loop([this, &ended] {
    for (const LinkPtr& each : links_) each->close();
    links_.clear();
    for (auto* places : {&calls_, &keepalives_}) {
      for (ServerLink& each : *places) each.link = nullptr;
    }
    watches_->close();
    awaiting_login_.clear();
    // Earlier tasks have run then.
    asio::post(io_, [&ended] { ended.set_value(); });
  });
  ended.get_future().wait();
  if (own_ == nullptr) return;
  own_->work.reset();
  own_->thread.join();
}

// --- Rpc

Rpc::Rpc(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Rpc::~Rpc() { close(); }

Result<std::unique_ptr<Rpc>> Rpc::make(const EtcdAddress& address, asio::io_context* io) {
  auto impl = Impl::make(address, io);
  if (!impl) return impl.error();
  return std::unique_ptr<Rpc>(new Rpc(*std::move(impl)));
}

template <typename Request>
void Rpc::call(Request request, How how, Then<typename Method<Request>::Response> then) {
  impl_->send(Method<Request>::kPath, framed(request), how,
              [then = std::move(then), how](const Result<std::string_view>& answer) {
                if (!answer) return then(answer.error());
                typename Method<Request>::Response response;
                if (parse(*answer, response)) return then(std::move(response));
                then(to_error(damaged("a damaged answer"), how.reads_only, "etcd"));
              });
}

template void Rpc::call(wire::RangeRequest, How, Then<wire::RangeResponse>);
template void Rpc::call(wire::PutRequest, How, Then<wire::PutResponse>);
template void Rpc::call(wire::DeleteRangeRequest, How, Then<wire::DeleteRangeResponse>);
template void Rpc::call(wire::TxnRequest, How, Then<wire::TxnResponse>);
template void Rpc::call(wire::CompactionRequest, How, Then<wire::CompactionResponse>);
template void Rpc::call(wire::LeaseGrantRequest, How, Then<wire::LeaseGrantResponse>);
template void Rpc::call(wire::LeaseRevokeRequest, How, Then<wire::LeaseRevokeResponse>);
template void Rpc::call(wire::LeaseTimeToLiveRequest, How, Then<wire::LeaseTimeToLiveResponse>);
template void Rpc::call(wire::MemberListRequest, How, Then<wire::MemberListResponse>);
template void Rpc::call(wire::StatusRequest, How, Then<wire::StatusResponse>);
template void Rpc::call(wire::AlarmRequest, How, Then<wire::AlarmResponse>);

void Rpc::keep_alive(std::size_t server, std::int64_t lease, base::BootInstant deadline,
                     Then<std::int64_t> then) {
  impl_->keep_alive(server, lease, deadline, std::move(then));
}

void Rpc::after(std::chrono::nanoseconds time, std::function<void()> task) {
  impl_->after(time, std::move(task));
}

std::uint64_t Rpc::watch(std::string key, std::string end,
                         std::function<void(const WatchNews&)> sink) {
  return impl_->watches().add(std::move(key), std::move(end), std::move(sink));
}

void Rpc::end_watch(std::uint64_t watch) { impl_->watches().remove(watch); }

std::size_t Rpc::servers() const { return impl_->servers(); }
std::size_t Rpc::server_in_use() const { return impl_->server_in_use(); }
void Rpc::give_up_server(std::size_t server) { impl_->give_up_server(server); }
std::string Rpc::name_of(std::size_t server) const { return impl_->name_of(server); }
void Rpc::close() { impl_->close(); }

}  // namespace holdfast::stores::etcd
