#include "src/stores/etcd/transport/watch_stream.h"

#include <chrono>
#include <utility>

namespace holdfast::stores::etcd {
namespace {

using namespace std::chrono_literals;

constexpr auto kBeforeAnother = 100ms;
constexpr auto kForEver = std::chrono::hours(24 * 365);

}  // namespace

class WatchStream::Stream final : public Flight {
 public:
  Stream(WatchStream& owner, std::size_t at) : Flight(at), owner_(owner), home_(owner.home_) {}

  bool start() {
    static_cast<void>(home_.prepare(context_, base::BootClock::now() + kForEver, true));
    grpc::TemplatedGenericStub<wire::WatchRequest, News> stub(home_.channel(server));
    return home_.begin(this, [&] {
      stream_ = stub.PrepareCall(&context_, "/etcdserverpb.Watch/Watch", home_.queue());
      stream_->StartCall(&started_);
    });
  }

  void cancel() override { context_.TryCancel(); }

  void send(wire::WatchRequest request) HOLDFAST_EXCLUDES(mutex_) {
    const base::LocalLock lock(mutex_);
    unsent_.push_back(std::move(request));
    write_next();
  }

 private:
  using News = Answer<wire::WatchResponse>;

  struct Part final : Tag {
    Part(Stream& stream, void (Stream::*step)(bool)) : whole(stream), next(step) {}
    void proceed(bool ok) override { (whole.*next)(ok); }
    Stream& whole;
    void (Stream::*next)(bool);
  };

  void on_started(bool ok) HOLDFAST_EXCLUDES(mutex_) {
    if (!ok) return finish();
    {
      const base::LocalLock lock(mutex_);
      open_ = true;
      write_next();
    }
    stream_->Read(&answer_, &read_);
  }

  void on_read(bool ok) {
    if (!ok) return finish();
    if (answer_.too_large) {
      context_.TryCancel();
    } else {
      owner_.on_answer(answer_.message);
    }
    stream_->Read(&answer_, &read_);
  }

  void on_written(bool ok) HOLDFAST_EXCLUDES(mutex_) {
    bool over = false;
    {
      const base::LocalLock lock(mutex_);
      writing_ = false;
      if (!ok) open_ = false;  // The pending read fails, too, and ends the stream.
      write_next();
      over = finished_;
    }
    if (over) end();
  }

  void write_next() HOLDFAST_REQUIRES(mutex_) {
    if (!open_ || writing_ || unsent_.empty()) return;
    writing_ = true;
    request_ = std::move(unsent_.front());
    unsent_.pop_front();
    stream_->Write(request_, &written_);
  }

  void finish() HOLDFAST_EXCLUDES(mutex_) {
    {
      const base::LocalLock lock(mutex_);
      open_ = false;
    }
    stream_->Finish(&status_, &done_);
  }

  void on_finished(bool) HOLDFAST_EXCLUDES(mutex_) {
    bool writing = false;
    {
      const base::LocalLock lock(mutex_);
      finished_ = true;
      writing = writing_;
    }
    if (!writing) end();
  }

  void end() {
    const std::unique_ptr<Stream> self(this);
    const Verdict verdict = judge({static_cast<int>(status_.error_code()), status_.error_message()},
                                  /*reads_only=*/true);
    if (verdict.remedy == Remedy::kNextServer) home_.leave(server);
    home_.landed(this);
    owner_.on_broken(this);
  }

  WatchStream& owner_;
  Rpc::Impl& home_;
  grpc::ClientContext context_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<wire::WatchRequest, News>> stream_;
  wire::WatchRequest request_;
  News answer_;
  Part started_{*this, &Stream::on_started};
  Part read_{*this, &Stream::on_read};
  Part written_{*this, &Stream::on_written};
  Part done_{*this, &Stream::on_finished};

  base::LocalMutex mutex_;
  std::deque<wire::WatchRequest> unsent_ HOLDFAST_GUARDED_BY(mutex_);
  bool open_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool writing_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool finished_ HOLDFAST_GUARDED_BY(mutex_) = false;
};

std::uint64_t WatchStream::add(std::string key, std::string end, Sink sink) {
  const base::LocalLock lock(mutex_);
  const std::uint64_t id = ++last_id_;
  Watch& watch = watches_[id];
  watch = {std::move(key), std::move(end), std::make_shared<Sink>(std::move(sink))};
  if (stream_ != nullptr) {
    stream_->send(create_request(id, watch));
  } else if (!waiting_to_reopen_) {
    ensure_stream();
  }
  return id;
}

void WatchStream::remove(std::uint64_t watch) {
  const base::LocalLock lock(mutex_);
  if (watches_.erase(watch) == 0 || stream_ == nullptr) return;
  wire::WatchRequest request;
  request.mutable_cancel_request()->set_watch_id(static_cast<std::int64_t>(watch));
  stream_->send(std::move(request));
}

void WatchStream::restart() {
  const base::LocalLock lock(mutex_);
  if (stream_ != nullptr) stream_->cancel();
}

void WatchStream::ensure_stream() {
  auto stream = std::make_unique<Stream>(*this, home_.server_in_use());
  if (!stream->start()) return;
  stream_ = stream.release();
  for (const auto& [id, watch] : watches_) stream_->send(create_request(id, watch));
}

wire::WatchRequest WatchStream::create_request(std::uint64_t id, const Watch& watch) const {
  wire::WatchRequest request;
  wire::WatchCreateRequest& create = *request.mutable_create_request();
  create.set_watch_id(static_cast<std::int64_t>(id));
  create.set_key(watch.key);
  create.set_range_end(watch.end);
  return request;
}

void WatchStream::on_answer(const wire::WatchResponse& answer) {
  std::shared_ptr<Sink> sink;
  WatchNews news;
  {
    const base::LocalLock lock(mutex_);
    const auto found = watches_.find(static_cast<std::uint64_t>(answer.watch_id()));
    if (found == watches_.end()) return;
    sink = found->second.sink;
    if (answer.canceled()) {
      // A watch from now on cannot be hit by compaction, so a permission is missing.
      news.refused = Error(Errc::kPermissionDenied,
                           "etcd refuses the watch: " + answer.cancel_reason().substr(0, 200));
      watches_.erase(found);
    }
  }
  news.created = answer.created();
  news.revision = answer.header().revision();
  news.events.assign(answer.events().begin(), answer.events().end());
  (*sink)(news);
}

void WatchStream::on_broken(Stream* stream) {
  {
    const base::LocalLock lock(mutex_);
    if (stream_ != stream) return;
    stream_ = nullptr;
    if (watches_.empty()) return;
    waiting_to_reopen_ = true;
  }
  home_.after(kBeforeAnother, [this] { reopen(); });
}

void WatchStream::reopen() {
  const base::LocalLock lock(mutex_);
  waiting_to_reopen_ = false;
  if (stream_ == nullptr && !watches_.empty()) ensure_stream();
}

}  // namespace holdfast::stores::etcd
