// Hears the grants of this client's waiters: LISTEN on a connection of its own.
//
// Behind a transaction pooler a LISTEN is another's. So this client notifies itself, over another
// connection, before it relies on that: until the word arrives the engine polls.
//
// Thread-safety: start() and close() as of sql::Link. Ownership: the engine outlives it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/port/value_watches.h"
#include "src/sql/engine.h"
#include "src/sql/link.h"
#include "src/sql/sql_store.h"

namespace holdfast::stores::postgres {

class Wakeups final : public sql::WakeUps {
 public:
  // `prepares` is set while notifications arrive.
  Wakeups(sql::Link::Settings settings, const port::StoreContext& context, sql::Engine& engine,
          std::shared_ptr<std::atomic<bool>> prepares);

  void start(base::BootInstant by) override;
  void close() override { link_.close(); }
  port::WatchHandle watch_value(const std::string& name, port::Task changed) override {
    return values_->add(engine_.value_channel(name), std::move(changed));
  }

 private:
  void listen();
  void try_out();
  void on_notify(std::string_view channel, std::string_view payload);
  void join(const std::string& channel, bool on);
  void send(std::string text, std::function<void(const sql::Answer&)> done);
  void heard(bool yes);

  port::Loop* const loop_;
  port::Listener* const listener_;
  asio::io_context* const io_;
  sql::Engine& engine_;
  const std::shared_ptr<std::atomic<bool>> prepares_;
  bool heard_ = false;
  bool before_ = false;
  std::set<std::string> joined_;
  std::shared_ptr<port::ValueWatches> values_;
  sql::Link link_;
};

}  // namespace holdfast::stores::postgres
