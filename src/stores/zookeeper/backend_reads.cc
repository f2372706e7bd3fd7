// The reads of the backend.
#include <algorithm>
#include <utility>

#include <zookeeper/zookeeper.h>

#include "src/stores/zookeeper/backend_impl.h"
#include "src/stores/zookeeper/nodes.h"
#include "src/stores/zookeeper/transport/errors.h"

namespace holdfast::stores::zookeeper {

void ZookeeperBackend::list(std::string lock, bool latest, WakerPtr waker, BootInstant deadline,
                            Done<Listing> done) {
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

void ZookeeperBackend::list_in_full(std::string lock, BootInstant deadline, Done<Listing> done) {
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

void ZookeeperBackend::read(std::string lock, QueueEntry place, WakerPtr waker,
                            BootInstant deadline, Done<std::optional<Read>> done) {
  auto op = make<std::optional<Read>>(deadline, std::move(done));
  session_->when_ready(op, [this, op, waker, above = folder(lock), path = node(lock, place)] {
    auto answered = [this, op, path, layout = layout_](const Reply& reply) {
      if (reply.rc == ZNONODE) return op->complete(std::optional<Read>());
      if (reply.rc != ZOK) return op->complete(error_of(reply.rc, false, "reading " + path));
      complete_read(
          op, Read{layout->details(reply.text, path), reply.stat.created, reply.stat.modified},
          reply.stat);
    };
    link_for(above).get(path, waker, {op, std::move(answered)}, above);
  });
}

void ZookeeperBackend::read_record(std::string lock, BootInstant deadline,
                                   Done<std::pair<Record, std::uint64_t>> done) {
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

void ZookeeperBackend::read_value(std::string lock, BootInstant deadline, Done<Value> done) {
  auto op = make<Value>(deadline, std::move(done));
  if (refused(op, layout_->refuse_record())) return;
  session_->when_ready(op, [this, op, path = folder(lock) + "/" + kValueNode] {
    session_->link().sync(path, Link::Done::nothing());
    auto answered = [op, path](const Reply& reply) {
      if (reply.rc == ZNONODE) return op->complete(Value());
      if (reply.rc != ZOK) return op->complete(error_of(reply.rc, false, "reading " + path));
      if (!reply.text.starts_with(kValueFormat)) {
        return op->complete(Error(
            reply.text.starts_with("hf") ? Errc::kVersionMismatch : Errc::kCorruptState,
            "zookeeper: " + path + " has an unknown format; is it a value of a later version?"));
      }
      op->complete(Value{reply.text.substr(kValueFormat.size()), reply.stat.modified});
    };
    session_->link().get(path, nullptr, {op, std::move(answered)});
  });
}

void ZookeeperBackend::list_locks(std::string prefix, std::size_t limit, BootInstant deadline,
                                  Done<contend::Locks> done) {
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

void ZookeeperBackend::read_all(const Op<Listing>& op, const ReadingPtr& reading) {
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

void ZookeeperBackend::read_each(const Op<Listing>& op, const ReadingPtr& reading) {
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

void ZookeeperBackend::note(Reading& reading, std::size_t i, const Reply& reply) const {
  if (reply.rc == ZNONODE) {
    reading.moved = true;
  } else if (reply.rc != ZOK) {
    reading.error = error_of(reply.rc, false, "reading a contender");
  } else {
    QueueEntry& place = reading.listing.queue[i];
    place.details = layout_->details(reply.text, reading.path + "/" + layout_->node(place));
    place.created = reply.stat.created;
    place.modified = reply.stat.modified;
    note_kept(place, reply.stat);
  }
}

void ZookeeperBackend::note_record(Reading& reading, const Reply& reply) const {
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

void ZookeeperBackend::finish(const Op<Listing>& op, const ReadingPtr& reading) {
  if (reading->error) return op->complete(*reading->error);
  if (reading->moved && --reading->attempts > 0) {
    return session_->when_ready(op, [this, op, reading] { read_all(op, reading); });
  }
  std::erase_if(reading->listing.queue, [](const QueueEntry& place) { return !place.details; });
  reading->listing.in_full = true;
  complete_listing(op, std::move(reading->listing));
}

}  // namespace holdfast::stores::zookeeper
