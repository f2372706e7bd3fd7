// The locks of a server that runs this store's scripts, or takes them as calls of its own: what a
// Redis server, a Redis Cluster and the lock service have in common. How a script gets there, and
// what has to be asked before, is the derived store's.
//
// A waiter subscribes before it enters the queue; otherwise it could miss its grant. A first try
// without waiting needs no subscription, and often gets the lock. No acquisition overtakes such a
// first try: the server would refuse the lower number of the overtaken one as too old.
//
// Thread-safety, blocking, errors: as port/store.h. Ownership: loop and listener outlive it. The
// derived store closes its connections before it is destroyed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/local_mutex.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/port/value_watches.h"
#include "src/stores/redis/confirming.h"
#include "src/stores/redis/connections.h"
#include "src/stores/redis/protocol/requests.h"
#include "src/stores/redis/protocol/script_call.h"

namespace holdfast::stores::redis {

class ScriptStore : public port::Store {
 public:
  void acquire(port::AcquireRequest request, port::Done<port::AcquisitionState> done) override;
  void release(port::AcquisitionRequest request, port::Done<port::EndStatus> done) override;
  void cancel(port::AcquisitionRequest request, port::Done<port::EndStatus> done) override;
  void try_acquire_all(std::vector<port::AcquireRequest> requests,
                       port::Done<Grants> done) override;
  void release_all(std::vector<port::AcquisitionRequest> requests,
                   port::Done<std::vector<Result<port::EndStatus>>> done) override;
  void downgrade(port::AcquisitionRequest request,
                 port::Done<port::AcquisitionState> done) override;
  void inspect(std::string name, base::BootInstant deadline,
               port::Done<std::optional<LockInfo>> done) override;
  void break_lock(port::BreakRequest request, port::Done<bool> done) override;
  void set_value(port::AcquisitionRequest holder, std::string value,
                 port::Done<bool> done) override;
  void keep(port::KeepRequest request, port::Done<bool> done) override;
  port::WatchHandle watch_value(std::string name, port::Task changed) override;
  void resize(port::AcquisitionRequest request, std::uint32_t capacity,
              port::Done<bool> done) override;

  std::optional<Result<port::AcquisitionState>> acquire_inline(
      const port::AcquireRequest& request) override;
  std::optional<Result<port::EndStatus>> release_inline(
      const port::AcquisitionRequest& request) override;
  std::optional<Result<Grants>> try_acquire_all_inline(
      const std::vector<port::AcquireRequest>& requests) override;
  std::optional<Result<std::vector<Result<port::EndStatus>>>> release_all_inline(
      const std::vector<port::AcquisitionRequest>& requests) override;

 protected:
  // The others as Requests'.
  ScriptStore(const port::StoreContext& context, std::string address, std::string client,
              std::function<machine::Instant()> now, ScriptHost host);

  // --- The way to the server.

  virtual void run(ScriptCall script, base::BootInstant deadline, port::Done<Reply> done) = 0;
  // As run(), and tells why the replicas have not confirmed the answer.
  virtual void run_confirmed(ScriptCall script, base::BootInstant deadline,
                             Connections::DoneConfirmed done);
  // On the calling thread; nullopt if another thread is using its connection. `pushes_first`: the
  // next holder's grant leaves the server before this answer, where the server lets a client say.
  virtual std::optional<Result<Reply>> run_here(const ScriptCall& script,
                                                base::BootInstant deadline, bool pushes_first) = 0;
  // Whether grants of this lock are pushed to this client. If not, that may be asked for.
  virtual bool hears_of(std::string_view name) = 0;
  virtual void subscribe(std::string_view name, base::BootInstant deadline,
                         port::Done<void> done) = 0;
  // A channel of value_key().
  virtual void hear(const std::string& channel, bool join) = 0;

  // --- For the derived store.

  void send_acquire(port::AcquireRequest request, port::Done<port::AcquisitionState> done);
  // No acquire is between its first try and its subscription.
  bool none_subscribes() const noexcept { return subscribing_ == 0; }
  static Result<port::AcquisitionState> refusal(const port::AcquireRequest& request);
  template <typename T>
  void answer_later(Result<T> answer, port::Done<T> done) {
    loop_->post([answer = std::move(answer), done = std::move(done)] { done(answer); });
  }

  bool closing() const noexcept { return closing_; }
  // The first step of close(): the releases under way are answered, or the deadline has come.
  void await_ends(base::BootInstant deadline);

  // The subscriber's news, on the loop or on the thread that reads pushes. `counts`: a grant that
  // is pushed counts without a renewal that confirms it.
  void on_message(std::string_view payload, bool counts = true);
  void on_subscribed(bool again);
  void on_lost(const Error& why);

  port::Loop* const loop_;
  port::Listener* const listener_;
  const std::string address_;
  const Requests requests_;
  const std::shared_ptr<port::ValueWatches> values_;

 private:
  std::optional<Result<port::AcquisitionState>> acquire_here(const port::AcquireRequest& request);
  void end(const char* how, port::AcquisitionRequest request, port::Done<port::EndStatus> done);
  void ended_one();
  void change_value(port::KeepRequest request, port::Done<bool> done);
  static port::Done<Reply> done_of(std::string name, port::Done<bool> done);
  static std::optional<Error> refuse_all(const std::vector<port::AcquireRequest>& requests);

  std::atomic<int> subscribing_{0};  // Acquires whose first try, without waiting, is under way.
  std::atomic<std::size_t> ends_under_way_{0};
  std::atomic<bool> closing_{false};  // The thread that ends the last one wakes await_ends().
  base::LocalMutex mutex_;
  base::LocalCondition ended_;  // With the mutex.
};

}  // namespace holdfast::stores::redis
