// The class behind make_backend(): session and shared parts in backend.cc, entries and removals in
// backend_enter.cc, the other reads in backend_reads.cc.
//
// Thread-safety: the loop only, except guarantees(), close() and abandon_after_fork().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zookeeper/zookeeper.h>

#include "src/contend/backend.h"
#include "src/port/registry.h"
#include "src/stores/zookeeper/entry_batch.h"
#include "src/stores/zookeeper/layout.h"
#include "src/stores/zookeeper/session/store_session.h"
#include "src/stores/zookeeper/sole_user_cache.h"
#include "src/stores/zookeeper/transport/link.h"
#include "src/stores/zookeeper/transport/pending.h"
#include "src/stores/zookeeper/url.h"

namespace holdfast::stores::zookeeper {

class ZookeeperBackend final : public contend::Backend {
 public:
  using BootInstant = base::BootInstant;
  using Change = contend::Change;
  using Details = contend::Details;
  using Entered = contend::Entered;
  using Key = contend::Key;
  using Listing = contend::Listing;
  using QueueEntry = contend::QueueEntry;
  using Read = contend::Read;
  using Record = contend::Record;
  using SessionView = contend::SessionView;
  using Value = contend::Value;
  using WakerPtr = contend::WakerPtr;

  ZookeeperBackend(ZookeeperAddress address, const port::StoreContext& context);

  void start(contend::Events* events) override { session_->start(events); }
  SessionView session() const override { return session_->view(); }
  std::string session_tag() const override { return session_->tag(); }
  Guarantees guarantees() const override;

  void ensure_session(BootInstant deadline, Done<SessionView> done) override;
  void enter(std::uint64_t epoch, std::string lock, Key key, Details details, BootInstant deadline,
             Done<Entered> done) override;
  void list(std::string lock, bool latest, WakerPtr waker, BootInstant deadline,
            Done<Listing> done) override;
  void list_in_full(std::string lock, BootInstant deadline, Done<Listing> done) override;
  void read(std::string lock, QueueEntry place, WakerPtr waker, BootInstant deadline,
            Done<std::optional<Read>> done) override;
  bool rewrites() const override { return layout_->keeps_record(); }
  bool keeps_record() const override { return layout_->keeps_record(); }
  bool keeps() const override { return layout_->keeps_record(); }
  // The first waiter for permits watches the folder, and reads no contender.
  bool keeps_permits() const override { return false; }
  void keep(std::uint64_t epoch, contend::Keep what, BootInstant deadline,
            Done<std::optional<Read>> done) override;
  void drop(std::string lock, QueueEntry place, BootInstant deadline, Done<bool> done) override;
  void write(std::uint64_t epoch, std::string lock, QueueEntry place, Details details,
             BootInstant deadline, Done<std::optional<Read>> done) override;
  void remove(std::uint64_t epoch, std::string lock, QueueEntry place, BootInstant deadline,
              Done<bool> done) override;
  void read_record(std::string lock, BootInstant deadline,
                   Done<std::pair<Record, std::uint64_t>> done) override;
  void read_value(std::string lock, BootInstant deadline, Done<Value> done) override;
  void apply(Change change, BootInstant deadline, Done<std::optional<std::uint64_t>> done) override;
  void notify(std::string session_tag, std::function<void()> then) override;
  void list_locks(std::string prefix, std::size_t limit, BootInstant deadline,
                  Done<contend::Locks> done) override;
  // A standalone server has this node, too, but an empty one.
  void look_at_servers(BootInstant deadline, Done<contend::Servers> done) override;
  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override;
  void close(BootInstant) override;
  void abandon_after_fork() noexcept override { session_->abandon(); }

 private:
  template <typename T>
  using Op = std::shared_ptr<Pending<T>>;

  static constexpr int kAttempts = 5;
  static constexpr std::string_view kValueFormat = "hf1 ";
  static constexpr std::string_view kOwnNode = "node";  // Kept::lease of a persistent node.

  std::string folder(const std::string& lock) const { return layout_->folder(lock); }
  std::string node(const std::string& lock, const QueueEntry& place) const {
    return folder(lock) + "/" + layout_->node(place);
  }

  // For a request outside a batch. Earlier requests about the same folder are sent first.
  Link& link_for(const std::string& path) {
    entry_batch_->settle(path);
    return session_->link();
  }
  // Whether it may join a batch. An upgrade may not: it must be sent before the ticket under it.
  bool joins(const Key& key) const {
    return layout_->keeps_record() && key.shape == contend::Shape::kExclusive;
  }

  template <typename T>
  Op<T> make(BootInstant deadline, Done<T> done) {
    auto op = std::make_shared<Pending<T>>(std::move(done));
    session_->pendings().add(op, deadline);
    return op;
  }

  template <typename T>
  void post_error(const Op<T>& op, Error error) {
    loop_->post([op, error = std::move(error)] { op->complete(error); });
  }
  template <typename T>
  bool refused(const Op<T>& op, std::optional<Error> why) {
    if (why) post_error(op, *std::move(why));
    return why.has_value();
  }

  template <typename T, typename Then>
  void in_session(const Op<T>& op, std::uint64_t epoch, Then then) {
    session_->when_ready(op, [this, op, epoch, then = std::move(then)] {
      if (session_->view().epoch != epoch) {
        return post_error(op, Error(Errc::kLost, "zookeeper: the session has ended"));
      }
      then();
    });
  }

  // Continues an operation after an answer. The session may have ended meanwhile, and its
  // connection with it.
  template <typename T, typename Then>
  void still_in(const Op<T>& op, std::uint64_t epoch, Then then) {
    if (epoch != 0) return in_session(op, epoch, std::move(then));
    session_->when_ready(op, std::move(then));
  }

  struct Entering {
    std::uint64_t epoch = 0;
    std::string lock;
    Key key;
    std::string text;  // The details, encoded.
    int attempts = kAttempts;
    Entered entered{};
    bool alone = false;      // Assumed; the node's number confirms it.
    bool ahead = false;      // The folder is made by the request before...
    bool first = false;      // ...which did make it.
    std::uint64_t turn = 0;  // Position in the order of the callers.
    int above = ZOK;         // Why the parents of the folder could not be created.
  };
  using EnteringPtr = std::shared_ptr<Entering>;
  // Ordered by turn.
  using Queued = std::map<std::uint64_t, std::pair<Op<Entered>, EnteringPtr>>;

  void enter_folder(const Op<Entered>& op, const EnteringPtr& entering);

  void know_connection(const Entering& entering) {
    sole_users_->set_connection(entering.epoch, session_->connections());
  }

  void watch_folder(const std::string& lock, const std::string& path);
  void make_folder_ahead(const std::string& path, const EnteringPtr& entering);

  void on_created(const Op<Entered>& op, const EnteringPtr& entering, const Reply& reply);

  void list_entered(const Op<Entered>& op, const EnteringPtr& entering);

  // Runs as an operation of its own, because the caller may leave before the requests that queue
  // after it.
  void make_folder_for(const Op<Entered>& op, const EnteringPtr& entering);

  void make_folder(const Op<bool>& op, const EnteringPtr& entering);

  // All requests go out together: the connection keeps their order.
  void make_folder_with_parents(const Op<bool>& op, const EnteringPtr& entering);

  bool is_session_of(const Entering& entering) const {
    return session_->view().epoch == entering.epoch;
  }

  // The folder exists, or could not be created; in that case each queued request finds out by
  // itself.
  void enter_queued(const std::string& path);

  // --- backend_keep.cc
  struct Keeping {
    std::uint64_t epoch = 0;
    contend::Keep what;
    bool renews = false;  // It is kept already.
    bool makes_value = false;
    int attempts = kAttempts;
    std::int32_t version = 0;
  };
  using KeepingPtr = std::shared_ptr<Keeping>;
  void read_to_keep(const Op<std::optional<Read>>& op, const KeepingPtr& keeping);
  void write_kept(const Op<std::optional<Read>>& op, const KeepingPtr& keeping);
  // A kept contender's answers tell the time that it has left.
  void complete_read(const Op<std::optional<Read>>& op, Read read, const NodeStat& stat);
  void complete_listing(const Op<Listing>& op, Listing listing);
  static bool is_kept(const Details& details) {
    return details.kept && details.kept->lease == kOwnNode;
  }
  static void note_kept(QueueEntry& place, const NodeStat& stat);
  template <typename T, typename Then>
  void ask_time(const Op<T>& op, Then then);

  // A listing in full: it is repeated until nothing changed during it.
  struct Reading {
    std::string lock;
    std::string path;
    int attempts = kAttempts;
    Listing listing{};
    std::size_t left = 0;
    std::int32_t version = 0;
    bool moved = false;
    std::optional<Error> error{};
  };
  using ReadingPtr = std::shared_ptr<Reading>;

  void read_all(const Op<Listing>& op, const ReadingPtr& reading);
  void read_each(const Op<Listing>& op, const ReadingPtr& reading);
  void note(Reading& reading, std::size_t i, const Reply& reply) const;
  void note_record(Reading& reading, const Reply& reply) const;
  void finish(const Op<Listing>& op, const ReadingPtr& reading);
  void apply_at(const Op<std::optional<std::uint64_t>>& op, const Change& change,
                std::int32_t version, int attempts, bool make_value = false);

  port::Loop* loop_;
  const std::string base_;
  const std::shared_ptr<const Layout> layout_;
  const std::chrono::milliseconds length_;
  std::shared_ptr<StoreSession> session_;
  const std::shared_ptr<EntryBatch> entry_batch_;
  const std::shared_ptr<SoleUserCache> sole_users_ = std::make_shared<SoleUserCache>();
  std::uint64_t last_turn_ = 0;
  std::map<std::string, Queued> making_;  // Folders whose creation is under way.
};

}  // namespace holdfast::stores::zookeeper
