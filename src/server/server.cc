#include "holdfast/server.h"

#include <future>
#include <optional>
#include <thread>
#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/base/thread.h"
#include "src/server/front/front.h"
#include "src/server/journal.h"
#include "src/server/service.h"
#include "src/server/tuning.h"

#ifndef HOLDFAST_VERSION
#define HOLDFAST_VERSION "unknown"
#endif

namespace holdfast {

struct Server::Impl {
  Impl(ServerOptions wanted, server::ServerTuning tuning, std::unique_ptr<server::Journal> journal)
      : options(std::move(wanted)),
        place(journal->place()),
        front(io, tuning.front,
              {.version = HOLDFAST_VERSION,
               .journal = options.journal.substr(0, options.journal.find(':')),
               .place = place},
              [this](const Error& reason) {
                if (options.on_stopped) options.on_stopped(reason);
              }),
        service(std::in_place, io, std::move(journal), front,
                with(std::move(tuning.service), options)) {
    front.warn_by([this](const std::string& what) { warn(what); });
  }
  ~Impl() { stop(); }

  server::ServiceOptions with(server::ServiceOptions tuned, const ServerOptions& wanted) {
    tuned.clients_stopped = wanted.clients_stopped;
    tuned.warn = [this](const std::string& what) { warn(what); };
    return tuned;
  }

  void warn(const std::string& what) const {
    if (options.on_warning) options.on_warning(what);
  }

  Result<void> start() {
    // First the port: a second server on it must not wait for the journal.
    if (auto listening = front.listen(options.listen); !listening) return listening;
    address = front.address();
    if (auto started = service->start(); !started) return started;
    journal_id = service->journal_id();
    const auto& seen = service->found();
    found = {seen.began, service->term(), seen.locks, seen.restored,
             std::chrono::ceil<std::chrono::seconds>(seen.quiet)};
    front.serve(*service);
    thread = base::start_thread("holdfast-serve", [this] { io.run(); });
    return {};
  }

  template <typename Task>
  void on_loop(Task task) {
    std::promise<void> ended;
    asio::post(io, [&] {
      task();
      ended.set_value();
    });
    ended.get_future().wait();
  }

  void stop() {
    if (!thread.joinable()) return;
    on_loop([this] {
      front.drain();
      service->stop();  // Answers what is under way.
      front.close();
    });
    work.reset();
    io.stop();
    thread.join();
  }

  const ServerOptions options;
  const std::string place;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  server::Front front;
  std::optional<server::Service> service;
  std::string address;
  std::string journal_id;
  ServerStart found;
  std::thread thread;
};

Result<Server> server::ServerAccess::start(ServerOptions options, ServerTuning tuning) {
  auto journal = make_journal(options.journal);
  if (!journal) return journal.error();
  auto impl =
      std::make_unique<Server::Impl>(std::move(options), std::move(tuning), *std::move(journal));
  if (auto started = impl->start(); !started) return started.error();
  return Server(std::move(impl));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::Server(Server&& other) noexcept = default;
Server& Server::operator=(Server&& other) noexcept = default;
Server::~Server() = default;

Result<Server> Server::start(ServerOptions options) {
  return server::ServerAccess::start(std::move(options), {});
}

std::string Server::address() const { return impl_->address; }
std::string Server::url() const { return "holdfast://" + impl_->address; }
std::string Server::place() const { return impl_->place; }
std::string Server::journal_id() const { return impl_->journal_id; }
ServerStart Server::found() const { return impl_->found; }
void Server::stop() { impl_->stop(); }

}  // namespace holdfast
