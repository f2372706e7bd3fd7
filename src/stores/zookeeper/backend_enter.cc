// Entries and removals of contenders, and the folders that entries need.
#include <string_view>
#include <utility>

#include <zookeeper/zookeeper.h>

#include "src/stores/zookeeper/backend_impl.h"
#include "src/stores/zookeeper/transport/errors.h"

namespace holdfast::stores::zookeeper {

void ZookeeperBackend::enter(std::uint64_t epoch, std::string lock, Key key, Details details,
                             BootInstant deadline, Done<Entered> done) {
  auto op = make<Entered>(deadline, std::move(done));
  if (refused(op, layout_->refuse_key(key)) || refused(op, layout_->refuse_name(lock))) return;
  auto entering = std::make_shared<Entering>();
  entering->epoch = epoch;
  entering->lock = std::move(lock);
  entering->key = key;
  entering->text = contend::to_text(details);
  in_session(op, epoch, [this, op, entering] { enter_folder(op, entering); });
}

void ZookeeperBackend::remove(std::uint64_t epoch, std::string lock, QueueEntry place,
                              BootInstant deadline, Done<bool> done) {
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

void ZookeeperBackend::enter_folder(const Op<Entered>& op, const EnteringPtr& entering) {
  const std::string path = folder(entering->lock);
  if (entering->turn == 0) entering->turn = ++last_turn_;
  // While the folder is being created, entries queue, so that they keep the order of their callers.
  if (const auto making = making_.find(path); making != making_.end()) {
    making->second.try_emplace(entering->turn, op, entering);
    return;
  }
  if (layout_->keeps_record()) {
    know_connection(*entering);
    entering->ahead = joins(entering->key) && sole_users_->expects_no_folder(entering->lock);
    watch_folder(entering->lock, path);
    if (entering->ahead) make_folder_ahead(path, entering);
    entering->alone = joins(entering->key) && sole_users_->is_free(entering->lock);
  }
  const std::string node = path + "/" + layout_->prefix(entering->key);
  Link::Done created(op,
                     [this, op, entering](const Reply& reply) { on_created(op, entering, reply); });
  if (entering->alone) {
    return entry_batch_->add({path,
                              {Step::Kind::kEnter, node, entering->text},
                              entering->epoch,
                              op,
                              std::move(created)});
  }
  op->sent_to_write = true;
  link_for(path).create(node, entering->text, NodeKind::kContender, std::move(created));
  // Sent after the creation on the same connection, so the listing shows the new node.
  if (!entering->ahead) list_entered(op, entering);
}

void ZookeeperBackend::make_folder_ahead(const std::string& path, const EnteringPtr& entering) {
  auto answered = [cache = sole_users_, entering](const Reply& reply) {
    entering->first = reply.rc == ZOK;
    if (reply.rc == ZNODEEXISTS) cache->found_folder(true);
  };
  link_for(path).create(path, "", NodeKind::kContainer, Link::Done::always(std::move(answered)));
}

void ZookeeperBackend::watch_folder(const std::string& lock, const std::string& path) {
  const WakerPtr waker = sole_users_->wants_watch(lock);
  if (!waker) return;
  auto answered = [cache = sole_users_, lock, waker](const Reply& reply) {
    // Checks the record once, because nobody else changes it while this watch lasts. After an
    // unreadable record there is no watch, and the next listing reports it.
    const bool readable = reply.rc == ZOK && contend::parse_record(reply.text);
    if (!readable) cache->no_watch(lock, waker);
  };
  session_->link().get(path, waker, Link::Done::always(std::move(answered)));
}

void ZookeeperBackend::on_created(const Op<Entered>& op, const EnteringPtr& entering,
                                  const Reply& reply) {
  if (reply.rc == ZNONODE && entering->attempts > 0) {
    op->sent_to_write = false;
    if (layout_->keeps_record()) sole_users_->found_folder(false);
    --entering->attempts;
    if (!is_session_of(*entering)) {
      return post_error(op, Error(Errc::kLost, "zookeeper: the session has ended"));
    }
    // Later requests would find the new folder and overtake this one, so they queue.
    const auto [making, first] = making_.try_emplace(folder(entering->lock));
    making->second.try_emplace(entering->turn, op, entering);
    if (first) make_folder_for(op, entering);
    return;
  }
  if (reply.rc != ZOK) {
    return op->complete(error_of(reply.rc, true, "entering " + folder(entering->lock)));
  }
  entering->entered.created = reply.stat.created;
  const auto place = layout_->parse(std::string_view(reply.text).substr(reply.text.rfind('/') + 1));
  know_connection(*entering);
  const bool alone =
      place && sole_users_->created(entering->lock, static_cast<std::uint32_t>(place->order));
  if (!entering->alone && !entering->ahead) return;  // The listing answers it.
  const bool first_ever = entering->ahead && entering->first && place && place->order == 0;
  if (!alone && !first_ever) {
    return in_session(op, entering->epoch, [this, op, entering] { list_entered(op, entering); });
  }
  entering->entered.listing.queue.push_back(*place);
  // A later change of the record does not matter: this contender is alone, and nobody can
  // overtake it.
  op->complete(std::move(entering->entered));
}

void ZookeeperBackend::list_entered(const Op<Entered>& op, const EnteringPtr& entering) {
  const std::string path = folder(entering->lock);
  auto answered = [this, op, entering, path](const Reply& reply) {
    // The creation failed, and its own answer has dealt with that.
    if (entering->entered.created == 0) return;
    if (reply.rc != ZOK) {
      // The contender exists, so the caller must look for it whatever the reason is.
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

void ZookeeperBackend::make_folder_for(const Op<Entered>& op, const EnteringPtr& entering) {
  auto made = [this, op, path = folder(entering->lock)](const Result<bool>& result) {
    if (!result) op->complete(result.error());
    enter_queued(path);
  };
  make_folder(make<bool>(op->deadline, std::move(made)), entering);
}

void ZookeeperBackend::make_folder(const Op<bool>& op, const EnteringPtr& entering) {
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

void ZookeeperBackend::make_folder_with_parents(const Op<bool>& op, const EnteringPtr& entering) {
  for (const auto& [path, kind] : layout_->parents(folder(entering->lock))) {
    auto answered = [entering](const Reply& reply) {
      if (reply.rc != ZOK && reply.rc != ZNODEEXISTS) entering->above = reply.rc;
    };
    session_->link().create(path, "", kind, {op, std::move(answered)});
  }
  make_folder(op, entering);
}

void ZookeeperBackend::enter_queued(const std::string& path) {
  const auto queued = making_.extract(path);
  if (!queued) return;
  for (const auto& [turn, each] : queued.mapped()) {
    const auto [op, entering] = each;
    if (op->over()) continue;
    in_session(op, entering->epoch,
               [this, op = op, entering = entering] { enter_folder(op, entering); });
  }
}

}  // namespace holdfast::stores::zookeeper
