#include "src/stores/etcd/transport/watch_stream.h"

#include <chrono>
#include <utility>

#include "src/stores/etcd/transport/answer_size.h"

namespace holdfast::stores::etcd {
namespace {

constexpr auto kBeforeAnother = std::chrono::milliseconds(100);

}  // namespace

std::uint64_t WatchStream::add(std::string key, std::string end, Sink sink) {
  const std::uint64_t id = ++last_id_;
  Watch watch{std::move(key), std::move(end), std::make_shared<Sink>(std::move(sink))};
  home_.on_loop([this, id, watch = std::move(watch)] {
    if (home_.closing()) return;
    watches_.emplace(id, watch);
    if (link_ != nullptr) {
      link_->write(call_, create_request(id, watch));
    } else if (!waiting_to_reopen_) {
      ensure_stream();
    }
  });
  return id;
}

void WatchStream::remove(std::uint64_t watch) {
  home_.on_loop([this, watch] {
    if (watches_.erase(watch) == 0 || link_ == nullptr) return;
    wire::WatchRequest request;
    request.mutable_cancel_request()->set_watch_id(static_cast<std::int64_t>(watch));
    link_->write(call_, framed(request));
  });
}

void WatchStream::restart() {
  if (link_ == nullptr) return;
  link_->drop(call_);
  open_again_soon();
}

void WatchStream::close() {
  watches_.clear();
  link_ = nullptr;
}

void WatchStream::ensure_stream() {
  server_ = home_.server_in_use();
  const LinkPtr link = home_.link(server_);
  if (link == nullptr) return on_end(home_.why_not(server_));
  Http2Link::Call call;
  call.path = "/etcdserverpb.Watch/Watch";
  call.token = home_.token();
  for (const auto& [id, watch] : watches_) call.out += create_request(id, watch);
  call.streams = true;
  call.on_message = [this](std::string_view message) { on_message(message); };
  call.on_end = [this](const Refusal& refusal) { on_end(refusal); };
  link_ = link;
  call_ = link->open(std::move(call));
}

std::string WatchStream::create_request(std::uint64_t id, const Watch& watch) const {
  wire::WatchRequest request;
  wire::WatchCreateRequest& create = *request.mutable_create_request();
  create.set_watch_id(static_cast<std::int64_t>(id));
  create.set_key(watch.key);
  create.set_range_end(watch.end);
  return framed(request);
}

void WatchStream::on_message(std::string_view message) {
  wire::WatchResponse answer;
  if (memory_to_read(message) > port::kMostAnswerMemory || !parse(message, answer)) {
    return restart();
  }
  on_answer(answer);
}

void WatchStream::on_answer(const wire::WatchResponse& answer) {
  const auto found = watches_.find(static_cast<std::uint64_t>(answer.watch_id()));
  if (found == watches_.end()) return;
  const std::shared_ptr<Sink> sink = found->second.sink;
  WatchNews news;
  if (answer.canceled()) {
    // A watch from now on cannot be hit by compaction, so a permission is missing.
    news.refused = Error(Errc::kPermissionDenied,
                         "etcd refuses the watch: " + answer.cancel_reason().substr(0, 200));
    watches_.erase(found);
  }
  news.created = answer.created();
  news.revision = answer.header().revision();
  news.events.assign(answer.events().begin(), answer.events().end());
  (*sink)(news);
}

void WatchStream::on_end(const Refusal& refusal) {
  if (home_.closing()) return;
  if (judge(refusal, /*reads_only=*/true).remedy == Remedy::kNextServer) home_.leave(server_);
  open_again_soon();
}

void WatchStream::open_again_soon() {
  link_ = nullptr;
  if (watches_.empty() || std::exchange(waiting_to_reopen_, true)) return;
  home_.after(kBeforeAnother, [this] {
    waiting_to_reopen_ = false;
    if (link_ == nullptr && !watches_.empty()) ensure_stream();
  });
}

}  // namespace holdfast::stores::etcd
