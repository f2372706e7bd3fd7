#include "src/stores/zookeeper/backend.h"

#include <algorithm>
#include <future>
#include <string_view>
#include <utility>

#include <zookeeper/zookeeper.h>

#include "src/port/examination.h"
#include "src/stores/zookeeper/backend_impl.h"
#include "src/stores/zookeeper/doctor.h"
#include "src/stores/zookeeper/guarantees.h"
#include "src/stores/zookeeper/nodes.h"
#include "src/stores/zookeeper/transport/errors.h"

namespace holdfast::stores::zookeeper {
namespace {

constexpr char kConfig[] = "/zookeeper/config";

}  // namespace

ZookeeperBackend::ZookeeperBackend(ZookeeperAddress address, const port::StoreContext& context)
    : loop_(context.loop),
      base_(address.base),
      layout_(make_layout(address)),
      length_(address.session),
      session_(std::make_shared<StoreSession>(std::move(address), context)),
      entry_batch_(std::make_shared<EntryBatch>(*context.loop, session_)) {}

Guarantees ZookeeperBackend::guarantees() const {
  Guarantees result = zookeeper::guarantees(length_, session_->agreed_length());
  layout_->limit(result);
  result.ends_with_client = !keeps();
  return result;
}

void ZookeeperBackend::ensure_session(BootInstant deadline, Done<SessionView> done) {
  auto op = make<SessionView>(deadline, std::move(done));
  session_->when_ready(op, [session = session_, op] { op->complete(session->view()); });
}

void ZookeeperBackend::write(std::uint64_t epoch, std::string lock, QueueEntry place,
                             Details details, BootInstant deadline,
                             Done<std::optional<Read>> done) {
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

void ZookeeperBackend::apply(Change change, BootInstant deadline,
                             Done<std::optional<std::uint64_t>> done) {
  auto op = make<std::optional<std::uint64_t>>(deadline, std::move(done));
  const bool more = change.record || change.record_rev || change.value || change.value_rev;
  if (more && refused(op, layout_->refuse_record())) return;
  const std::uint64_t epoch = change.epoch;
  auto then = [this, op, change = std::move(change)] {
    if (!change.record && !change.record_rev) return apply_at(op, change, -1, kAttempts);
    // The library can only require a version, but we expect a zxid: read the version first.
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

void ZookeeperBackend::notify(std::string session_tag, std::function<void()> then) {
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

void ZookeeperBackend::look_at_servers(BootInstant deadline, Done<contend::Servers> done) {
  auto op = make<contend::Servers>(deadline, std::move(done));
  session_->when_ready(op, [session = session_, op] {
    auto answered = [op](const Reply& reply) {
      if (reply.rc != ZOK) return op->complete(error_of(reply.rc, false, "reading the config"));
      op->complete(contend::Servers::on_disk(std::max<std::size_t>(1, voters_in(reply.text))));
    };
    session->link().get(kConfig, nullptr, {op, std::move(answered)});
  });
}

void ZookeeperBackend::probe(BootInstant deadline, Done<std::vector<Finding>> done) {
  auto op = make<std::vector<Finding>>(deadline, std::move(done));
  session_->when_ready(op, [this, op] {
    const auto length = std::chrono::floor<std::chrono::milliseconds>(session_->view().length);
    std::vector<Finding> findings{
        {Severity::kOk, "server", "connected to " + session_->link().server(), ""},
        length_finding(length, length_)};
    port::check_clock_rate(findings);
    auto read = [this, op, findings, length](const Reply& reply) {
      // A standalone server has no followers.
      if (reply.rc == ZOK && voters_in(reply.text) < 2) return op->complete(findings);
      session_->ask_least([op, findings, length](std::chrono::milliseconds least) mutable {
        findings.push_back(ticks_finding(length, least));
        op->complete(std::move(findings));
      });
    };
    session_->link().get(kConfig, nullptr, {op, std::move(read)});
  });
}

void ZookeeperBackend::close(BootInstant) {
  std::promise<void> stopped;
  auto waiting = stopped.get_future();
  loop_->post([this, &stopped] {
    session_->stop();
    stopped.set_value();
  });
  waiting.wait();
  session_->close();
}

void ZookeeperBackend::apply_at(const Op<std::optional<std::uint64_t>>& op, const Change& change,
                                std::int32_t version, int attempts, bool make_value) {
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
    // The first value makes the value's node, and a later one sets it. If that guess was wrong, the
    // other way is tried.
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

std::unique_ptr<contend::Backend> make_backend(ZookeeperAddress address,
                                               const port::StoreContext& context) {
  return std::make_unique<ZookeeperBackend>(std::move(address), context);
}

}  // namespace holdfast::stores::zookeeper
