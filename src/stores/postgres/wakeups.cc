#include "src/stores/postgres/wakeups.h"

#include <charconv>
#include <chrono>
#include <future>
#include <string>

namespace holdfast::stores::postgres {
namespace {

using base::BootClock;
using std::chrono::seconds;

constexpr seconds kTryAgain{5};
constexpr std::string_view kHello = "hello";

std::uint64_t take_number(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  std::uint64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end.ptr - text.data()));
  return number;
}

}  // namespace

Wakeups::Wakeups(sql::Link::Settings settings, const port::StoreContext& context,
                 sql::Engine& engine, std::shared_ptr<std::atomic<bool>> prepares)
    : loop_(context.loop),
      listener_(context.listener),
      io_(context.io),
      engine_(engine),
      prepares_(std::move(prepares)),
      values_(std::make_shared<port::ValueWatches>(*context.loop,
                                                   [this](const std::string& channel, bool on) {
                                                     link_.post([this, channel, on] {
                                                       join(channel, on);
                                                     });
                                                   })),
      link_(std::move(settings),
            {[this] { listen(); }, [this](const std::string&) { heard(false); },
             [this](std::string_view channel, std::string_view payload) {
               on_notify(channel, payload);
             }}) {}

// A break that is told to a holder before the server listens for it would be missed.
void Wakeups::start(base::BootInstant by) {
  const auto answered = std::make_shared<std::promise<void>>();
  auto answer = answered->get_future();
  // It goes with the first connection, and ends when that one cannot be made.
  link_.post([this, by, answered] {
    link_.send({{"LISTEN " + engine_.channel()},
                by,
                [answered](const sql::Answer&) { answered->set_value(); }});
  });
  link_.start();
  answer.wait();
  if (io_ != nullptr) link_.lend(*io_);
}

void Wakeups::send(std::string text, std::function<void(const sql::Answer&)> done) {
  link_.send({{std::move(text)}, BootClock::now() + seconds(5), std::move(done)});
}

void Wakeups::listen() {
  for (const std::string& channel : joined_) send("LISTEN " + channel, [](const sql::Answer&) {});
  send("LISTEN " + engine_.channel(), [this](const sql::Answer& answer) {
    if (answer.fate == sql::Fate::kDone) try_out();
  });
}

void Wakeups::join(const std::string& channel, bool on) {
  if (on) {
    joined_.insert(channel);
  } else {
    joined_.erase(channel);
  }
  if (!link_.connected()) return;
  // A value that was set before the server listened is told now.
  send((on ? "LISTEN " : "UNLISTEN ") + channel, [this, channel](const sql::Answer& answer) {
    if (answer.fate == sql::Fate::kDone) values_->tell(channel);
  });
}

void Wakeups::try_out() {
  auto question = std::make_shared<sql::Question>();
  question->deadline = BootClock::now() + seconds(5);
  question->answer = [](const sql::RowsPtr&) {};
  question->fail = [](const Error&) {};
  engine_.ask(engine_.link(),
              {"SELECT pg_notify($1, $2)", {engine_.channel(), std::string(kHello)}},
              std::move(question));
  link_.at(BootClock::now() + kTryAgain, [this] {
    if (!heard_ && link_.connected()) try_out();
  });
}

void Wakeups::heard(bool yes) {
  if (heard_ == yes) return;
  heard_ = yes;
  engine_.set_listening(yes);
  *prepares_ = yes;
  if (!yes) return;
  values_->tell_all();
  loop_->post([listener = listener_, again = before_] {
    again ? listener->on_pushes_missed() : listener->on_pushes_begin();
  });
  before_ = true;
}

void Wakeups::on_notify(std::string_view channel, std::string_view payload) {
  if (channel != engine_.channel()) return values_->tell(std::string(channel));
  if (payload == kHello) return heard(true);
  const machine::AcquisitionId id = sql::id_of(sql::from_hex(payload.substr(0, 32)));
  if (!id) return;
  payload.remove_prefix(std::min<std::size_t>(payload.size(), 32));
  std::optional<port::AcquisitionState> granted;
  if (!payload.empty()) {
    granted.emplace();
    granted->status = port::AcquisitionStatus::kHeld;
    granted->token = {0, take_number(payload)};
    granted->seq = take_number(payload);
    granted->lease = machine::Duration(static_cast<std::int64_t>(take_number(payload)));
  }
  engine_.link().post([engine = &engine_, id, granted] { engine->push(id, granted); });
}

}  // namespace holdfast::stores::postgres
