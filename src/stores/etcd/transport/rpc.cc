#include "src/stores/etcd/transport/rpc.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/support/channel_arguments.h>

#include "src/base/fork_guard.h"
#include "src/base/thread.h"
#include "src/stores/etcd/transport/rpc_impl.h"
#include "src/stores/etcd/transport/watch_stream.h"

namespace holdfast::stores::etcd {
namespace {

constexpr auto kOneTry = std::chrono::milliseconds(1500);
constexpr auto kPatience = std::chrono::milliseconds(900);  // Then a silent connection is dropped.
constexpr char kSystemCertificates[] = "/etc/ssl/certs/ca-certificates.crt";

gpr_timespec to_gpr(std::chrono::nanoseconds from_now) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(std::max<std::int64_t>(from_now.count(), 0), GPR_TIMESPAN));
}

Result<std::string> read_pem(const std::string& path, const char* option) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file || text.empty()) {
    return Error(Errc::kInvalidArgument,
                 "etcd URL: " + std::string(option) + ": cannot read '" + path + "'");
  }
  if (text.find("-----BEGIN ") == std::string::npos) {
    return Error(Errc::kInvalidArgument, "etcd URL: " + std::string(option) + ": '" + path +
                                             "' is no PEM file: it has no line '-----BEGIN ...'");
  }
  return text;
}

Result<std::shared_ptr<grpc::ChannelCredentials>> credentials_for(const EtcdAddress& address) {
  if (!address.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  const bool own = !address.tls_paths.ca.empty();
  auto trusted = read_pem(own ? address.tls_paths.ca : kSystemCertificates, "tls_ca");
  if (!trusted) return trusted.error();
  options.pem_root_certs = *std::move(trusted);
  if (!address.tls_paths.cert.empty()) {
    auto certificate = read_pem(address.tls_paths.cert, "tls_cert");
    if (!certificate) return certificate.error();
    auto key = read_pem(address.tls_paths.key, "tls_key");
    if (!key) return key.error();
    options.pem_cert_chain = *std::move(certificate);
    options.pem_private_key = *std::move(key);
  }
  return grpc::SslCredentials(options);
}

grpc::ChannelArguments arguments_for(const EtcdAddress& address) {
  grpc::ChannelArguments arguments;
  const int patience = static_cast<int>(address.connect_timeout.count());
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  // This is also the timeout of one connection attempt.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, patience);
  // etcd allows a ping every five seconds.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kLongestMessage);
  // gRPC checks a message's length when it has all of it. This quota stops an endless message
  // earlier.
  grpc::ResourceQuota quota;
  arguments.SetResourceQuota(quota.Resize(port::kMostAnswerMemory));
  if (!address.tls_paths.name.empty()) {
    arguments.SetSslTargetNameOverride(address.tls_paths.name);
  }
  return arguments;
}

// One call, with its attempts at several servers.
template <typename Request>
class UnaryCall final : public Tag, public Flight {
 public:
  using Response = typename Method<Request>::Response;

  UnaryCall(Rpc::Impl& home, Request request, How how, Rpc::Then<Response> then)
      : Flight(how.server.value_or(home.server_in_use())),
        home_(home),
        request_(std::move(request)),
        how_(how),
        then_(std::move(then)) {}

  // False while closing: the caller drops the call.
  bool start() {
    context_ = std::make_unique<grpc::ClientContext>();
    sent_ = base::BootClock::now();
    // A read can be repeated, so one member must not use up its whole time.
    const base::BootInstant until =
        how_.reads_only ? std::min(how_.deadline, sent_ + kOneTry) : how_.deadline;
    login_ = home_.prepare(*context_, until, kNeedsLogin);
    channel_ = home_.channel(server);
    grpc::TemplatedGenericStub<Request, Answer<Response>> stub(channel_);
    return home_.begin(this, [&] {
      reader_ =
          stub.PrepareUnaryCall(context_.get(), Method<Request>::kPath, request_, home_.queue());
      reader_->StartCall();
      reader_->Finish(&response_, &status_, this);
    });
  }

  void cancel() override { context_->TryCancel(); }

  void proceed(bool) override {
    std::unique_ptr<UnaryCall> self(this);
    home_.landed(this);
    if (home_.closing()) return;
    if (status_.ok() && !response_.too_large) return then_(std::move(response_.message));
    const Refusal refusal{static_cast<int>(status_.error_code()), status_.error_message()};
    if (response_.too_large || is_too_large(refusal)) {
      home_.drop_connections(server, channel_);
      return then_(Error(Errc::kCorruptState, home_.name_of(server) + port::kAnswerTooLarge));
    }
    const Verdict verdict = judge(refusal, how_.reads_only);
    if (std::find(asked_.begin(), asked_.end(), server) == asked_.end()) asked_.push_back(server);
    // A connection that owes an answer is not used again, because it may be dead without notice.
    const bool timed_out = refusal.code == grpc::StatusCode::DEADLINE_EXCEEDED;
    if (timed_out && base::BootClock::now() - sent_ >= kPatience) {
      home_.drop_connections(server, channel_);
    }
    if (retries(verdict, timed_out)) return retry(verdict.remedy, std::move(self));
    // Where the next server was to help, none did.
    if (verdict.remedy != Remedy::kNextServer) asked_ = {server};
    then_(to_error(refusal, how_.reads_only, home_.names_of(asked_)));
  }

 private:
  static constexpr bool kNeedsLogin = !std::is_same_v<Request, wire::AuthenticateRequest>;

  bool retries(const Verdict& verdict, bool timed_out) {
    if (verdict.remedy == Remedy::kNextServer && !how_.server) home_.leave(server);
    if (base::BootClock::now() >= how_.deadline) return false;
    if (verdict.remedy == Remedy::kLogInAgain) {
      return kNeedsLogin && home_.has_login() && ++logins_ <= 2;
    }
    return verdict.remedy == Remedy::kNextServer && verdict.code == Errc::kUnavailable &&
           !how_.server && (timed_out || ++tries_ <= home_.servers());
  }

  void retry(Remedy remedy, std::unique_ptr<UnaryCall> self) {
    if (remedy == Remedy::kNextServer) {
      server = home_.server_in_use();
      if (start()) static_cast<void>(self.release());
      return;
    }
    // Shared, because std::function must be copyable.
    auto kept = std::make_shared<std::unique_ptr<UnaryCall>>(std::move(self));
    home_.log_in(login_, how_.deadline, [kept](const Result<bool>& done) {
      if (!done) return (*kept)->then_(done.error());
      if ((*kept)->start()) static_cast<void>(kept->release());
    });
  }

  Rpc::Impl& home_;
  Request request_;
  const How how_;
  Rpc::Then<Response> then_;
  Answer<Response> response_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Answer<Response>>> reader_;
  Rpc::Impl::ChannelPtr channel_;
  base::BootInstant sent_;
  std::uint64_t login_ = 0;
  std::vector<std::size_t> asked_;  // The servers that refused it, each once.
  std::size_t tries_ = 1;
  int logins_ = 0;
};

// A stream with one request and one answer.
class KeepAliveCall final : public Tag, public Flight {
 public:
  KeepAliveCall(Rpc::Impl& home, std::size_t at, std::int64_t lease, base::BootInstant deadline,
                Rpc::Then<std::int64_t> then)
      : Flight(at), home_(home), channel_(home.keeper(at)), then_(std::move(then)) {
    request_.set_id(lease);
    static_cast<void>(home_.prepare(context_, deadline, true));
  }

  bool start() {
    grpc::TemplatedGenericStub<wire::LeaseKeepAliveRequest, wire::LeaseKeepAliveResponse> stub(
        channel_);
    return home_.begin(this, [&] {
      stream_ = stub.PrepareCall(&context_, "/etcdserverpb.Lease/LeaseKeepAlive", home_.queue());
      stream_->StartCall(this);
    });
  }

  void cancel() override { context_.TryCancel(); }

  void proceed(bool ok) override {
    if (step_ == Step::kFinish) return end();
    if (!ok || step_ == Step::kRead) {
      answered_ = ok;
      // The stream is not used again.
      if (ok) context_.TryCancel();
      step_ = Step::kFinish;
      stream_->Finish(&status_, this);
      return;
    }
    if (step_ == Step::kStart) {
      step_ = Step::kWrite;
      stream_->Write(request_, this);
    } else {
      step_ = Step::kRead;
      stream_->Read(&response_, this);
    }
  }

 private:
  enum class Step { kStart, kWrite, kRead, kFinish };

  void end() {
    const std::unique_ptr<KeepAliveCall> self(this);
    home_.landed(this);
    if (home_.closing()) return;
    if (answered_) return then_(response_.ttl());
    if (status_.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      home_.drop_connections(server, channel_);
    }
    then_(to_error({static_cast<int>(status_.error_code()), status_.error_message()},
                   /*reads_only=*/true, home_.name_of(server)));
  }

  Rpc::Impl& home_;
  const Rpc::Impl::ChannelPtr channel_;
  wire::LeaseKeepAliveRequest request_;
  wire::LeaseKeepAliveResponse response_;
  Rpc::Then<std::int64_t> then_;
  grpc::ClientContext context_;
  grpc::Status status_;
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<wire::LeaseKeepAliveRequest, wire::LeaseKeepAliveResponse>>
      stream_;
  Step step_ = Step::kStart;
  bool answered_ = false;
};

class Delay final : public Tag, public Flight {
 public:
  Delay(Rpc::Impl& home, std::function<void()> task)
      : Flight(static_cast<std::size_t>(-1)), home_(home), task_(std::move(task)) {}

  bool start(std::chrono::nanoseconds time) {
    return home_.begin(this, [&] { alarm_.Set(home_.queue(), to_gpr(time), this); });
  }
  void cancel() override { alarm_.Cancel(); }
  void proceed(bool ok) override {
    const std::unique_ptr<Delay> self(this);
    home_.landed(this);
    if (ok && !home_.closing()) task_();
  }

 private:
  Rpc::Impl& home_;
  std::function<void()> task_;
  grpc::Alarm alarm_;
};

}  // namespace

// --- Impl

Rpc::Impl::Impl(const EtcdAddress& address) : address_(address) {}

Rpc::Impl::~Impl() { close(); }

namespace {

// A forked child lacks gRPC's threads and inherits its locks in any state, so a child that uses
// gRPC hangs.
Result<void> check_that_grpc_works_here() {
  static std::atomic<std::uint64_t> used_by{0};
  std::uint64_t before = 0;
  const std::uint64_t here = base::process_generation();
  if (used_by.compare_exchange_strong(before, here) || before == here) return {};
  return Error(
      Errc::kUnsupported,
      "etcd: this process is a forked child of one that used etcd, and gRPC does not work "
      "in such a child. Connect for the first time after the fork, or run (exec) a program "
      "that connects");
}

}  // namespace

Result<std::unique_ptr<Rpc::Impl>> Rpc::Impl::make(const EtcdAddress& address) {
  if (auto works = check_that_grpc_works_here(); !works) return works.error();
  std::unique_ptr<Impl> impl(new Impl(address));
  if (auto connected = impl->connect(); !connected) return connected.error();
  return impl;
}

Result<void> Rpc::Impl::connect() {
  auto credentials = credentials_for(address_);
  if (!credentials) return credentials.error();
  credentials_ = *std::move(credentials);
  // gRPC would print to stderr what our callers get as errors.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) {
    gpr_set_log_verbosity(static_cast<gpr_log_severity>(GPR_LOG_SEVERITY_ERROR + 1));
  }
  {
    const base::LocalLock lock(channels_mutex_);
    for (std::size_t i = 0; i < servers(); ++i) {
      channels_.push_back(make_channel(i));
      keepers_.push_back(make_channel(i));
    }
  }
  watches_ = std::make_unique<WatchStream>(*this);
  thread_ = base::start_thread("hf-etcd", [this] { run(); });
  return {};
}

Rpc::Impl::ChannelPtr Rpc::Impl::make_channel(std::size_t server) const {
  return grpc::CreateCustomChannel("dns:///" + address_.servers[server].text(), credentials_,
                                   arguments_for(address_));
}

Rpc::Impl::ChannelPtr Rpc::Impl::channel(std::size_t server) const {
  const base::LocalLock lock(channels_mutex_);
  return channels_[server];
}

Rpc::Impl::ChannelPtr Rpc::Impl::keeper(std::size_t server) const {
  const base::LocalLock lock(channels_mutex_);
  return keepers_[server];
}

void Rpc::Impl::drop_connections(std::size_t server, const ChannelPtr& old) {
  ChannelPtr channel = make_channel(server);
  ChannelPtr keeper = make_channel(server);
  {
    const base::LocalLock lock(channels_mutex_);
    if (channels_[server] != old && keepers_[server] != old) return;  // Already replaced.
    channels_[server].swap(channel);
    keepers_[server].swap(keeper);
  }
  give_up_server(server);
}

void Rpc::Impl::run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) static_cast<Tag*>(tag)->proceed(ok);
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

void Rpc::Impl::landed(Flight* flight) {
  const base::LocalLock lock(mutex_);
  flights_.erase(flight);
  if (closing_ && flights_.empty()) landed_.notify_all();
}

bool Rpc::Impl::closing() const {
  const base::LocalLock lock(mutex_);
  return closing_;
}

std::uint64_t Rpc::Impl::prepare(grpc::ClientContext& context, base::BootInstant deadline,
                                 bool logged_in) {
  context.set_deadline(to_gpr(deadline - base::BootClock::now()));
  // Makes a member without a leader refuse at once instead of waiting for one.
  context.AddMetadata("hasleader", "true");
  const base::LocalLock lock(mutex_);
  if (logged_in && !token_.empty()) context.AddMetadata("token", token_);
  return logins_;
}

void Rpc::Impl::log_in(std::uint64_t stale, base::BootInstant deadline, Then<bool> then) {
  {
    const base::LocalLock lock(mutex_);
    if (closing_) return;
    if (logins_ == stale || logging_in_) {
      awaiting_login_.push_back(std::move(then));
      if (logging_in_) return;
      logging_in_ = true;
      then = nullptr;
    }
  }
  if (then) return then(true);
  wire::AuthenticateRequest request;
  request.set_name(address_.login.user);
  request.set_password(address_.login.password.value_or(""));
  auto call = std::make_unique<UnaryCall<wire::AuthenticateRequest>>(
      *this, std::move(request), How{deadline, /*reads_only=*/true, std::nullopt},
      [this](Result<wire::AuthenticateResponse> answer) { logged_in(std::move(answer)); });
  if (call->start()) static_cast<void>(call.release());
}

void Rpc::Impl::logged_in(Result<wire::AuthenticateResponse> answer) {
  std::vector<Then<bool>> waiting;
  // A server without authentication admits everybody.
  const bool open = !answer && answer.error().message().find("authentication is not enabled") !=
                                   std::string::npos;
  {
    const base::LocalLock lock(mutex_);
    logging_in_ = false;
    waiting.swap(awaiting_login_);
    if (answer) token_ = answer->token();
    if (open) token_.clear();
    if (answer || open) ++logins_;
  }
  // The watch stream still uses the token from its start.
  if (answer) watches_->restart();
  for (const auto& then : waiting) {
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
  const base::LocalLock lock(mutex_);
  for (Flight* flight : flights_) {
    if (flight->server == server) flight->cancel();
  }
}

void Rpc::Impl::after(std::chrono::nanoseconds time, std::function<void()> task) {
  auto delay = std::make_unique<Delay>(*this, std::move(task));
  if (delay->start(time)) static_cast<void>(delay.release());
}

void Rpc::Impl::close() {
  {
    const base::LocalLock lock(mutex_);
    if (closed_) return;
    closed_ = closing_ = true;
    for (Flight* flight : flights_) flight->cancel();
    while (!flights_.empty()) landed_.wait(mutex_);
  }
  queue_.Shutdown();
  if (thread_.joinable()) thread_.join();
}

// --- Rpc

Rpc::Rpc(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Rpc::~Rpc() = default;

Result<std::unique_ptr<Rpc>> Rpc::make(const EtcdAddress& address) {
  auto impl = Impl::make(address);
  if (!impl) return impl.error();
  return std::unique_ptr<Rpc>(new Rpc(*std::move(impl)));
}

template <typename Request>
void Rpc::call(Request request, How how, Then<typename Method<Request>::Response> then) {
  auto call =
      std::make_unique<UnaryCall<Request>>(*impl_, std::move(request), how, std::move(then));
  if (call->start()) static_cast<void>(call.release());
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
  auto call = std::make_unique<KeepAliveCall>(*impl_, server, lease, deadline, std::move(then));
  if (call->start()) static_cast<void>(call.release());
}

void Rpc::after(std::chrono::nanoseconds time, std::function<void()> task) {
  impl_->after(time, std::move(task));
}

bool Rpc::closing() const { return impl_->closing(); }

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
