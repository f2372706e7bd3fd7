// One read, and a watch that misses no change after it.
//
// Both are requested at once. The read counts if it is not older than the watch; otherwise it is
// repeated. Guarantee: the first change after the reported state calls `wake` once, after the
// report. Thread-safety: start() from any thread; callbacks run on the loop of `Rpc`.
//
// A write between two steps of the server puts a new watch among those that the server serves every
// 100 ms, until it has come to this one. Nothing tells the client. So the read of a single key is
// repeated twice in this time, and a change that it finds wakes, too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/stores/etcd/transport/rpc.h"

namespace holdfast::stores::etcd {

class WatchedRead : public std::enable_shared_from_this<WatchedRead> {
 public:
  using Told = std::function<void(Result<wire::RangeResponse>)>;

  // Without `wake` nothing is watched. `least`: the read must show at least this revision.
  // `wanted`: once it has expired, nothing is read again.
  WatchedRead(Rpc& rpc, wire::RangeRequest request, std::int64_t least, base::BootInstant deadline,
              Told told, std::function<void()> wake, std::weak_ptr<const void> wanted = {})
      : rpc_(rpc),
        request_(std::move(request)),
        least_(least),
        deadline_(deadline),
        told_(std::move(told)),
        wake_(std::move(wake)),
        wanted_(std::move(wanted)) {}

  // Returns the number of the watch, or 0. If the read is never woken, its caller ends the watch.
  std::uint64_t start(std::string key, std::string end);

 private:
  void on_news(const WatchNews& news);
  void on_read(Result<wire::RangeResponse> range);
  void send_read();
  void tell_when_whole();
  void tell(Result<wire::RangeResponse> range);
  void look_again(std::size_t time);
  bool changed_since(const wire::RangeResponse& range) const;
  void fire();
  void end_watch();

  Rpc& rpc_;
  wire::RangeRequest request_;
  const std::int64_t least_;
  const base::BootInstant deadline_;
  Told told_;
  std::function<void()> wake_;
  const std::weak_ptr<const void> wanted_;

  std::atomic<std::uint64_t> watch_ = 0;
  std::atomic<bool> over_ = false;
  // Used on the loop of Rpc only.
  std::optional<std::int64_t> watched_from_;
  std::optional<wire::RangeResponse> range_;
  bool was_told_ = false;
  bool changed_ = false;
  std::int64_t told_change_ = 0;  // The key's last change in what was told; 0: it was not there.
};

}  // namespace holdfast::stores::etcd
