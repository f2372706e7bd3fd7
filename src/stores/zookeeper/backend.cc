#include "src/stores/zookeeper/backend.h"

#include <algorithm>
#include <future>
#include <map>
#include <string_view>
#include <utility>

#include <zookeeper/zookeeper.h>

#include "src/port/examination.h"
#include "src/stores/zookeeper/doctor.h"
#include "src/stores/zookeeper/entry_batch.h"
#include "src/stores/zookeeper/errors.h"
#include "src/stores/zookeeper/guarantees.h"
#include "src/stores/zookeeper/layout.h"
#include "src/stores/zookeeper/nodes.h"
#include "src/stores/zookeeper/session.h"
#include "src/stores/zookeeper/sole_user_cache.h"

namespace holdfast::stores::zookeeper {
namespace {

using base::BootInstant;
using contend::Change;
using contend::Details;
using contend::Entered;
using contend::Key;
using contend::Listing;
using contend::QueueEntry;
using contend::Read;
using contend::Record;
using contend::SessionView;
using contend::Value;
using contend::WakerPtr;

constexpr int kAttempts = 5;
constexpr std::string_view kValueFormat = "hf1 ";
constexpr char kConfig[] = "/zookeeper/config";

class ZookeeperBackend final : public contend::Backend {
 public:
  template <typename T>
  using Op = std::shared_ptr<Pending<T>>;

  ZookeeperBackend(ZookeeperAddress address, const port::StoreContext& context)
      : loop_(context.loop),
        base_(address.base),
        layout_(make_layout(address)),
        length_(address.session),
        session_(std::make_shared<Session>(std::move(address), context)),
        entry_batch_(std::make_shared<EntryBatch>(*context.loop, session_)) {}

  void start(contend::Events* events) override { session_->start(events); }
  SessionView session() const override { return session_->view(); }
  std::string session_tag() const override { return session_->tag(); }
  Guarantees guarantees() const override {
    Guarantees result = zookeeper::guarantees(length_, session_->agreed_length());
    layout_->limit(result);
    return result;
  }

  void ensure_session(BootInstant deadline, Done<SessionView> done) override {
    auto op = make<SessionView>(deadline, std::move(done));
    session_->when_ready(op, [session = session_, op] { op->complete(session->view()); });
  }

  void enter(std::uint64_t epoch, std::string lock, Key key, Details details, BootInstant deadline,
             Done<Entered> done) override {
    auto op = make<Entered>(deadline, std::move(done));
    if (refused(op, layout_->refuse_key(key)) || refused(op, layout_->refuse_name(lock))) return;
    auto entering = std::make_shared<Entering>();
    entering->epoch = epoch;
    entering->lock = std::move(lock);
    entering->key = key;
    entering->text = contend::to_text(details);
    in_session(op, epoch, [this, op, entering] { enter_folder(op, entering); });
  }

  void list(std::string lock, bool latest, WakerPtr waker, BootInstant deadline,
            Done<Listing> done) override {
    auto op = make<Listing>(deadline, std::move(done));
    session_->when_ready(op, [this, op, waker, latest, path = folder(lock)] {
      Link& link = link_for(path);
      if (latest) link.sync(path, Link::Done::nothing());
      auto answered = [op, path, layout = layout_](const Reply& reply) {
        if (reply.rc == ZNONODE) return op->complete(Listing());
        if (reply.rc != ZOK) return op->complete(error_of(reply.rc, false, "listing " + path));
        op->complete(layout->listing(reply, path));
      };
      link.children(path, waker, {op, std::move(answered)});
    });
  }

  void list_in_full(std::string lock, BootInstant deadline, Done<Listing> done) override {
    auto op = make<Listing>(deadline, std::move(done));
    if (refused(op, layout_->refuse_name(lock))) return;
    auto reading = std::make_shared<Reading>();
    reading->lock = std::move(lock);
    reading->path = folder(reading->lock);
    session_->when_ready(op, [this, op, reading] {
      link_for(reading->path).sync(reading->path, Link::Done::nothing());
      read_all(op, reading);
    });
  }

  void read(std::string lock, QueueEntry place, WakerPtr waker, BootInstant deadline,
            Done<std::optional<Read>> done) override {
    auto op = make<std::optional<Read>>(deadline, std::move(done));
    session_->when_ready(op, [this, op, waker, above = folder(lock), path = node(lock, place)] {
      auto answered = [op, path, layout = layout_](const Reply& reply) {
        if (reply.rc == ZNONODE) return op->complete(std::optional<Read>());
        if (reply.rc != ZOK) return op->complete(error_of(reply.rc, false, "reading " + path));
        op->complete(std::optional(
            Read{layout->details(reply.text, path), reply.stat.created, reply.stat.modified}));
      };
      link_for(above).get(path, waker, {op, std::move(answered)}, above);
    });
  }

  bool rewrites() const override { return layout_->keeps_record(); }
  bool keeps_record() const override { return layout_->keeps_record(); }
  void write(std::uint64_t epoch, std::string lock, QueueEntry place, Details details,
             BootInstant deadline, Done<std::optional<Read>> done) override {
    auto op = make<std::optional<Read>>(deadline, std::move(done));
    if (refused(op, layout_->refuse_record())) return;
    in_session(op, epoch, [this, op, details, above = folder(lock), path = node(lock, place)] {
      op->sent_to_write = true;
      auto answered = [op, details](const Reply& reply) {
        if (reply.rc == ZNONODE) return op->complete(std::optional<Read>());
        if (reply.rc != ZOK) return op->complete(error_of(reply.rc, true, "writing"));
        op->complete(std::optional(Read{details, reply.stat.created, reply.stat.modified}));
      };
      link_for(above).set(path, contend::to_text(details), -1, {op, std::move(answered)});
    });
  }

  void remove(std::uint64_t epoch, std::string lock, QueueEntry place, BootInstant deadline,
              Done<bool> done) override {
    auto op = make<bool>(deadline, std::move(done));
    in_session(op, epoch, [this, op, epoch, lock = std::move(lock), place = std::move(place)] {
      const std::string path = node(lock, place);
      Link::Done answered(op, [this, op, lock, order = place.order](const Reply& reply) {
        if (reply.rc != ZOK && reply.rc != ZNONODE) {
          return op->complete(error_of(reply.rc, true, "removing"));
        }
        if (reply.rc == ZOK) sole_users_->removed(lock, static_cast<std::uint32_t>(order));
        op->complete(reply.rc == ZOK);
      });
      if (joins(place.key)) {
        return entry_batch_->add(
            {folder(lock), {Step::Kind::kRemove, path}, epoch, op, std::move(answered)});
      }
      op->sent_to_write = true;
      link_for(folder(lock)).remove(path, std::move(answered));
    });
  }

  void read_record(std::string lock, BootInstant deadline,
                   Done<std::pair<Record, std::uint64_t>> done) override {
    auto op = make<std::pair<Record, std::uint64_t>>(deadline, std::move(done));
    session_->when_ready(op, [this, op, path = folder(lock)] {
      auto answered = [op, path, layout = layout_](const Reply& reply) {
        if (reply.rc == ZNONODE) return op->complete(std::pair<Record, std::uint64_t>());
        if (reply.rc != ZOK) return op->complete(error_of(reply.rc, false, "reading " + path));
        op->complete(layout->record(reply, path));
      };
      link_for(path).get(path, nullptr, {op, std::move(answered)});
    });
  }

  void read_value(std::string lock, BootInstant deadline, Done<Value> done) override {
    auto op = make<Value>(deadline, std::move(done));
    if (refused(op, layout_->refuse_record())) return;
    session_->when_ready(op, [this, op, path = folder(lock) + "/" + kValueNode] {
      session_->link().sync(path, Link::Done::nothing());
      auto answered = [op, path](const Reply& reply) {
        if (reply.rc == ZNONODE) return op->complete(Value());
        if (reply.rc != ZOK) return op->complete(error_of(reply.rc, false, "reading " + path));
        if (!reply.text.starts_with(kValueFormat)) {
          return op->complete(
              Error(reply.text.starts_with("hf") ? Errc::kVersionMismatch : Errc::kCorruptState,
                    "zookeeper: " + path + " is not of a form that is known"));
        }
        op->complete(Value{reply.text.substr(kValueFormat.size()), reply.stat.modified});
      };
      session_->link().get(path, nullptr, {op, std::move(answered)});
    });
  }

  void apply(Change change, BootInstant deadline,
             Done<std::optional<std::uint64_t>> done) override {
    auto op = make<std::optional<std::uint64_t>>(deadline, std::move(done));
    const bool more = change.record || change.record_rev || change.value || change.value_rev;
    if (more && refused(op, layout_->refuse_record())) return;
    const std::uint64_t epoch = change.epoch;
    auto then = [this, op, change = std::move(change)] {
      if (!change.record && !change.record_rev) return apply_at(op, change, -1, kAttempts);
      // The library's condition is a version, ours a zxid.
      const std::string path = folder(change.lock);
      auto answered = [this, op, change, path](const Reply& reply) {
        if (reply.rc == ZNONODE) return op->complete(std::optional<std::uint64_t>());
        if (reply.rc != ZOK) return op->complete(error_of(reply.rc, false, "reading " + path));
        if (change.record_rev && *change.record_rev != record_rev(reply.stat)) {
          return op->complete(std::optional<std::uint64_t>());
        }
        still_in(op, change.epoch, [this, op, change, version = reply.stat.version] {
          apply_at(op, change, version, kAttempts);
        });
      };
      link_for(path).get(path, nullptr, {op, std::move(answered)});
    };
    if (epoch != 0) return in_session(op, epoch, std::move(then));
    session_->when_ready(op, std::move(then));
  }

  void notify(std::string session_tag, std::function<void()> then) override {
    if (session_tag.empty() || session_tag.find('/') != std::string::npos) {
      return loop_->post(std::move(then));
    }
    auto op = make<bool>(base::BootClock::now() + std::chrono::seconds(5),
                         [then = std::move(then)](const Result<bool>&) { then(); });
    session_->when_ready(op, [this, op, session_tag] {
      session_->link().set(base_ + "/sessions/" + session_tag, "", -1,
                           {op, [op](const Reply&) { op->complete(true); }});
    });
  }

  void list_locks(std::string prefix, std::size_t limit, BootInstant deadline,
                  Done<contend::Locks> done) override {
    auto op = make<contend::Locks>(deadline, std::move(done));
    if (refused(op, layout_->refuse_list())) return;
    session_->when_ready(op, [this, op, prefix, limit, path = base_ + "/locks"] {
      session_->link().sync(path, Link::Done::nothing());
      auto answered = [op, prefix, limit, path](const Reply& reply) {
        if (reply.rc != ZOK && reply.rc != ZNONODE) {
          return op->complete(error_of(reply.rc, false, "listing " + path));
        }
        contend::Locks locks;
        const std::string inside = path + "/";
        for (const std::string& each : reply.names) {
          auto name = decode_name(each);
          if (!name && each.starts_with(prefix)) locks.unknown.add(inside + each);
          if (name && name->starts_with(prefix)) locks.names.push_back(*std::move(name));
        }
        std::sort(locks.names.begin(), locks.names.end());
        if (locks.names.size() > limit) locks.names.resize(limit);
        op->complete(std::move(locks));
      };
      session_->link().children(path, nullptr, {op, std::move(answered)});
    });
  }

  // A server by itself has the node, and nothing in it.
  void look_at_servers(BootInstant deadline, Done<contend::Servers> done) override {
    auto op = make<contend::Servers>(deadline, std::move(done));
    session_->when_ready(op, [session = session_, op] {
      auto answered = [op](const Reply& reply) {
        if (reply.rc != ZOK) return op->complete(error_of(reply.rc, false, "reading the config"));
        op->complete(contend::Servers::on_disk(std::max<std::size_t>(1, voters_in(reply.text))));
      };
      session->link().get(kConfig, nullptr, {op, std::move(answered)});
    });
  }

  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override {
    auto op = make<std::vector<Finding>>(deadline, std::move(done));
    session_->when_ready(op, [this, op] {
      const auto length = std::chrono::floor<std::chrono::milliseconds>(session_->view().length);
      std::vector<Finding> findings{
          {Severity::kOk, "server", "connected to " + session_->link().server(), ""},
          length_finding(length, length_)};
      port::check_clock_rate(findings);
      auto read = [this, op, findings, length](const Reply& reply) {
        // One by itself has no followers.
        if (reply.rc == ZOK && voters_in(reply.text) < 2) return op->complete(findings);
        session_->ask_least([op, findings, length](std::chrono::milliseconds least) mutable {
          findings.push_back(ticks_finding(length, least));
          op->complete(std::move(findings));
        });
      };
      session_->link().get(kConfig, nullptr, {op, std::move(read)});
    });
  }

  void close(BootInstant) override {
    std::promise<void> stopped;
    auto waiting = stopped.get_future();
    loop_->post([this, &stopped] {
      session_->stop();
      stopped.set_value();
    });
    waiting.wait();
    session_->close();
  }

  void abandon_after_fork() noexcept override { session_->abandon(); }

 private:
  std::string folder(const std::string& lock) const { return layout_->folder(lock); }
  std::string node(const std::string& lock, const QueueEntry& place) const {
    return folder(lock) + "/" + layout_->node(place);
  }

  // A request on its own goes after the earlier ones about that folder.
  Link& link_for(const std::string& path) {
    entry_batch_->settle(path);
    return session_->link();
  }
  // Plain tickets only: an upgrade goes before the one under it.
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

  // Behind an answer: the session may have ended meanwhile, and with it its connection.
  template <typename T, typename Then>
  void still_in(const Op<T>& op, std::uint64_t epoch, Then then) {
    if (epoch != 0) return in_session(op, epoch, std::move(then));
    session_->when_ready(op, std::move(then));
  }

  struct Entering {
    std::uint64_t epoch = 0;
    std::string lock;
    Key key;
    std::string text;  // The details'.
    int attempts = kAttempts;
    Entered entered{};
    bool alone = false;      // As it seems: to be seen by the number.
    std::uint64_t turn = 0;  // In the order of the callers.
    int above = ZOK;         // Why the folder's parents could not be made.
  };
  using EnteringPtr = std::shared_ptr<Entering>;
  // By their turns.
  using Queued = std::map<std::uint64_t, std::pair<Op<Entered>, EnteringPtr>>;

  void enter_folder(const Op<Entered>& op, const EnteringPtr& entering) {
    const std::string path = folder(entering->lock);
    if (entering->turn == 0) entering->turn = ++last_turn_;
    if (const auto making = making_.find(path); making != making_.end()) {
      making->second.try_emplace(entering->turn, op, entering);
      return;
    }
    if (layout_->keeps_record()) {
      know_connection(*entering);
      watch_folder(entering->lock, path);
      entering->alone = joins(entering->key) && sole_users_->is_free(entering->lock);
    }
    const std::string node = path + "/" + layout_->prefix(entering->key);
    Link::Done created(
        op, [this, op, entering](const Reply& reply) { on_created(op, entering, reply); });
    if (entering->alone) {
      return entry_batch_->add({path,
                                {Step::Kind::kEnter, node, entering->text},
                                entering->epoch,
                                op,
                                std::move(created)});
    }
    op->sent_to_write = true;
    link_for(path).create(node, entering->text, NodeKind::kContender, std::move(created));
    // Behind the creation on the same connection, so it shows it.
    list_entered(op, entering);
  }

  void know_connection(const Entering& entering) {
    sole_users_->set_connection(entering.epoch, session_->connections());
  }

  void watch_folder(const std::string& lock, const std::string& path) {
    const WakerPtr waker = sole_users_->wants_watch(lock);
    if (!waker) return;
    auto answered = [lonely = sole_users_, lock, waker](const Reply& reply) {
      // A record that nobody else has changed since is read here, once: a listing finds an
      // unreadable record.
      const bool readable = reply.rc == ZOK && contend::parse_record(reply.text);
      if (!readable) lonely->no_watch(lock, waker);
    };
    session_->link().get(path, waker, Link::Done::always(std::move(answered)));
  }

  void on_created(const Op<Entered>& op, const EnteringPtr& entering, const Reply& reply) {
    if (reply.rc == ZNONODE && entering->attempts > 0) {
      op->sent_to_write = false;
      --entering->attempts;
      if (!is_session_of(*entering)) {
        return post_error(op, Error(Errc::kLost, "zookeeper: the session has ended"));
      }
      // Requests sent from now on would find the folder, and overtake this one: they queue.
      const auto [making, first] = making_.try_emplace(folder(entering->lock));
      making->second.try_emplace(entering->turn, op, entering);
      if (first) make_folder_for(op, entering);
      return;
    }
    if (reply.rc != ZOK) {
      return op->complete(error_of(reply.rc, true, "entering " + folder(entering->lock)));
    }
    entering->entered.created = reply.stat.created;
    const auto place =
        layout_->parse(std::string_view(reply.text).substr(reply.text.rfind('/') + 1));
    know_connection(*entering);
    const bool alone =
        place && sole_users_->created(entering->lock, static_cast<std::uint32_t>(place->order));
    if (!entering->alone) return;  // The listing comes.
    if (!alone) {
      return in_session(op, entering->epoch, [this, op, entering] { list_entered(op, entering); });
    }
    entering->entered.listing.queue.push_back(*place);
    // Whatever is written to the record from here on, nobody holds beside it, or overtakes it.
    op->complete(std::move(entering->entered));
  }

  void list_entered(const Op<Entered>& op, const EnteringPtr& entering) {
    const std::string path = folder(entering->lock);
    auto answered = [this, op, entering, path](const Reply& reply) {
      if (entering->entered.created == 0) return;
      if (reply.rc != ZOK) {
        return op->complete(error_of(ZCONNECTIONLOSS, true, "listing " + path));
      }
      Listing& listing = entering->entered.listing = layout_->listing(reply, path);
      if (listing.queue.size() == 1 && listing.queue[0].key == entering->key) {
        sole_users_->seen_alone(entering->lock, static_cast<std::uint32_t>(listing.queue[0].order));
      }
      op->complete(std::move(entering->entered));
    };
    session_->link().children(path, nullptr, {op, std::move(answered)});
  }

  // An operation of its own, as the caller may leave before those who queue behind it.
  void make_folder_for(const Op<Entered>& op, const EnteringPtr& entering) {
    auto made = [this, op, path = folder(entering->lock)](const Result<bool>& result) {
      if (!result) op->complete(result.error());
      enter_queued(path);
    };
    make_folder(make<bool>(op->deadline, std::move(made)), entering);
  }

  void make_folder(const Op<bool>& op, const EnteringPtr& entering) {
    auto answered = [this, op, entering](const Reply& reply) {
      if (reply.rc == ZOK || reply.rc == ZNODEEXISTS) return op->complete(true);
      if (reply.rc == ZNONODE && entering->attempts > 0 && is_session_of(*entering)) {
        --entering->attempts;
        return make_folder_with_parents(op, entering);
      }
      const bool above = reply.rc == ZNONODE && entering->above != ZOK;
      op->complete(error_of(above ? entering->above : reply.rc, false,
                            "making the folder of '" + entering->lock + "'"));
    };
    session_->link().create(folder(entering->lock), "", NodeKind::kContainer,
                            {op, std::move(answered)});
  }

  // The requests go out at once: one connection keeps their order.
  void make_folder_with_parents(const Op<bool>& op, const EnteringPtr& entering) {
    for (const auto& [path, kind] : layout_->parents(folder(entering->lock))) {
      auto answered = [entering](const Reply& reply) {
        if (reply.rc != ZOK && reply.rc != ZNODEEXISTS) entering->above = reply.rc;
      };
      session_->link().create(path, "", kind, {op, std::move(answered)});
    }
    make_folder(op, entering);
  }

  bool is_session_of(const Entering& entering) const {
    return session_->view().epoch == entering.epoch;
  }

  // The folder is there, or could not be made; then each finds out by itself.
  void enter_queued(const std::string& path) {
    const auto queued = making_.extract(path);
    if (!queued) return;
    for (const auto& [turn, each] : queued.mapped()) {
      const auto [op, entering] = each;
      if (op->over()) continue;
      in_session(op, entering->epoch,
                 [this, op = op, entering = entering] { enter_folder(op, entering); });
    }
  }

  // Read until nothing changed in between.
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

  void read_all(const Op<Listing>& op, const ReadingPtr& reading) {
    auto answered = [this, op, reading](const Reply& reply) {
      if (reply.rc == ZNONODE) return op->complete(Listing());
      if (reply.rc != ZOK) {
        return op->complete(error_of(reply.rc, false, "listing " + reading->path));
      }
      reading->listing = layout_->listing(reply, reading->path);
      reading->listing.unknown = layout_->unknown(reply, reading->path);
      reading->version = reply.stat.children_version;
      reading->moved = false;
      reading->left = reading->listing.queue.size() + 1;
      session_->when_ready(op, [this, op, reading] { read_each(op, reading); });
    };
    session_->link().children(reading->path, nullptr, {op, std::move(answered)});
  }

  void read_each(const Op<Listing>& op, const ReadingPtr& reading) {
    for (std::size_t i = 0; i < reading->listing.queue.size(); ++i) {
      const std::string path = reading->path + "/" + layout_->node(reading->listing.queue[i]);
      auto answered = [this, op, reading, i](const Reply& read) {
        note(*reading, i, read);
        if (--reading->left == 0) finish(op, reading);
      };
      session_->link().get(path, nullptr, {op, std::move(answered)});
    }
    auto answered = [this, op, reading](const Reply& read) {
      note_record(*reading, read);
      if (--reading->left == 0) finish(op, reading);
    };
    session_->link().get(reading->path, nullptr, {op, std::move(answered)});
  }

  void note(Reading& reading, std::size_t i, const Reply& reply) const {
    if (reply.rc == ZNONODE) {
      reading.moved = true;
    } else if (reply.rc != ZOK) {
      reading.error = error_of(reply.rc, false, "reading a contender");
    } else {
      QueueEntry& place = reading.listing.queue[i];
      place.details = layout_->details(reply.text, reading.path + "/" + layout_->node(place));
      place.created = reply.stat.created;
      place.modified = reply.stat.modified;
    }
  }

  void note_record(Reading& reading, const Reply& reply) const {
    if (reply.rc == ZNONODE) {
      reading.moved = true;
      return;
    }
    if (reply.rc != ZOK) {
      reading.error = error_of(reply.rc, false, "reading a lock's record");
      return;
    }
    auto record = layout_->record(reply, reading.path);
    if (record) {
      reading.listing.record = std::move(record->first);
      reading.listing.record_rev = record->second;
      reading.moved = reading.moved || reply.stat.children_version != reading.version;
    } else {
      reading.error = record.error();
    }
  }

  void finish(const Op<Listing>& op, const ReadingPtr& reading) {
    if (reading->error) return op->complete(*reading->error);
    if (reading->moved && --reading->attempts > 0) {
      return session_->when_ready(op, [this, op, reading] { read_all(op, reading); });
    }
    std::erase_if(reading->listing.queue, [](const QueueEntry& place) { return !place.details; });
    reading->listing.in_full = true;
    op->complete(std::move(reading->listing));
  }

  void apply_at(const Op<std::optional<std::uint64_t>>& op, const Change& change,
                std::int32_t version, int attempts, bool make_value = false) {
    const std::string path = folder(change.lock);
    std::vector<Step> steps;
    if (change.present) {
      steps.push_back({Step::Kind::kCheck, node(change.lock, *change.present)});
    }
    if (change.record) {
      steps.push_back({Step::Kind::kSet, path, contend::to_text(*change.record), version});
    } else if (change.record_rev) {
      steps.push_back({Step::Kind::kCheck, path, {}, version});
    }
    if (change.value) {
      steps.push_back({make_value ? Step::Kind::kCreate : Step::Kind::kSet, path + "/" + kValueNode,
                       std::string(kValueFormat) + *change.value});
    }
    for (const QueueEntry& place : change.removed) {
      steps.push_back({Step::Kind::kRemove, node(change.lock, place)});
    }
    op->sent_to_write = true;
    auto answered = [this, op, change, version, attempts, make_value](const Reply& reply) {
      if (reply.rc == ZOK) return op->complete(std::optional(reply.stat.modified));
      const bool retry = (reply.rc == ZNONODE && !make_value) || reply.rc == ZNODEEXISTS;
      if (change.value && retry && attempts > 0) {
        return still_in(op, change.epoch,
                        [=, this] { apply_at(op, change, version, attempts - 1, !make_value); });
      }
      const bool unexpected =
          reply.rc == ZNONODE || reply.rc == ZBADVERSION || reply.rc == ZNODEEXISTS;
      if (unexpected) return op->complete(std::optional<std::uint64_t>());
      Error error = error_of(reply.rc, true, "changing '" + change.lock + "'");
      if (error.code() == Errc::kLost && change.epoch == 0) {
        error = Error(Errc::kOutcomeUnknown, error.message());
      }
      op->complete(std::move(error));
    };
    link_for(path).multi(std::move(steps), {op, std::move(answered)});
  }

  port::Loop* loop_;
  const std::string base_;
  const std::shared_ptr<const Layout> layout_;
  const std::chrono::milliseconds length_;
  std::shared_ptr<Session> session_;
  const std::shared_ptr<EntryBatch> entry_batch_;
  const std::shared_ptr<SoleUserCache> sole_users_ = std::make_shared<SoleUserCache>();
  std::uint64_t last_turn_ = 0;
  std::map<std::string, Queued> making_;  // Folders that are being made.
};

}  // namespace

std::unique_ptr<contend::Backend> make_backend(ZookeeperAddress address,
                                               const port::StoreContext& context) {
  return std::make_unique<ZookeeperBackend>(std::move(address), context);
}

}  // namespace holdfast::stores::zookeeper
