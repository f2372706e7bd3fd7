#include "src/server/testing/world.h"

#include <algorithm>

namespace holdfast::server::testing {
namespace {

using machine::Duration;
using machine::Instant;
using machine::Outcome;
using machine::TicketImage;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Without what renewals change.
machine::MachineImage plain(machine::MachineImage image) {
  image.now = {};
  image.floor = {};
  for (machine::LockImage& lock : image.locks) {
    for (TicketImage& ticket : lock.tickets) {
      ticket.lease_end = {};
      ticket.seq = 0;
      ticket.lease = {};
      ticket.owner = nullptr;
    }
  }
  return image;
}

// Collects the effects of a record.
class Effects final : public RecordVisitor {
 public:
  bool on_effect(machine::Effect& effect) override {
    all.push_back(std::move(effect));
    return true;
  }
  bool on_floor(machine::Token) override { return true; }
  bool on_mark(std::string, std::string, std::uint64_t) override { return true; }
  bool on_client_floor(std::string, std::uint64_t) override { return true; }
  bool on_lock(LockHead&) override { return true; }
  bool on_trace(std::string, BreakTrace) override { return true; }
  bool on_kept(std::string key, KeptText text) override {
    kept.emplace_back(std::move(key), std::move(text));
    return true;
  }
  bool on_closing() override { return true; }
  bool on_end(Instant) override { return true; }

  std::vector<machine::Effect> all;
  std::vector<std::pair<std::string, KeptText>> kept;
};

}  // namespace

World::World(std::uint64_t seed) : dice_(seed), kept_dice_(~seed) {
  disk_.room = 12 + dice_.below(40);
  start();
}

std::string World::run(int steps) {
  for (step_ = 0; step_ < steps && failure_.empty(); ++step_) {
    step();
    if (kept_dice_.one_in(8)) change_kept();
    record();
    check_beliefs();
  }
  if (failure_.empty()) settle();
  return failure_;
}

void World::fail(const std::string& what) {
  if (failure_.empty()) failure_ = "step " + std::to_string(step_) + ": " + what;
}

void World::step() {
  switch (dice_.below(16)) {
    case 0: return dice_.one_in(8) ? stall() : pass_time();
    case 1:
    case 2: return newcomer();
    case 3:
    case 4:
    case 5: return speak();
    case 6:
    case 7:
    case 8:
      if (requests_.empty()) return;
      {
        const std::size_t at = dice_.below(std::min<std::size_t>(requests_.size(), 4));
        const Message message = requests_[at];
        requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(at));
        if (!dice_.one_in(12)) deliver_request(message);
        past_.push_back(message);
      }
      return;
    case 9:
      if (!past_.empty() && dice_.one_in(2)) deliver_request(dice_.pick(past_));
      return;
    case 10:
    case 11: return deliver_news();
    case 12:
      if (shard_) shard_->tick(boot());
      if (dice_.one_in(20) && shard_) shard_->doubt_time();
      return;
    default: return drive_journal();
  }
}

void World::pass_time() {
  now_ += dice_.one_in(8) ? Duration(seconds(dice_.below(4)))
                          : Duration(milliseconds(1 + dice_.below(400)));
}

// The server hears its timer first, and then the renewals that came while it stood still.
void World::stall() {
  if (!shard_) return;
  const auto tickets = [this] {
    std::size_t all = 0;
    for (const auto& lock : shard_->machine().snapshot().locks) all += lock.tickets.size();
    return all;
  };
  while (shard_->next_tick() && *shard_->next_tick() <= boot()) shard_->tick(boot());
  const std::size_t before = tickets();
  now_ += milliseconds(500 + dice_.below(3'000));
  shard_->tick(boot());
  if (tickets() < before) fail("a stall ended a lease");
}

void World::newcomer() {
  if (acquisitions_.size() > 40) return;
  Acquisition one;
  one.id = {7, next_id_++};
  one.client = dice_.one_in(2) ? "client-a" : "client-b";
  one.name = dice_.one_in(3) ? "other" : "hot";
  one.issue = ++issues_[one.client];
  one.mode = dice_.one_in(4) ? machine::Mode::shared() : machine::Mode::exclusive();
  one.ttl = milliseconds(500 + dice_.below(2500));
  one.waiter_ttl = std::min<Duration>(one.ttl, milliseconds(500 + dice_.below(1500)));
  one.sent.push_back(now_);
  acquisitions_.push_back(one);
  requests_.push_back({acquisitions_.size() - 1, Kind::kAcquire, 0, one.ttl});
}

void World::speak() {
  if (acquisitions_.empty()) return;
  const std::size_t at = dice_.below(acquisitions_.size());
  Acquisition& one = acquisitions_[at];
  if (one.closed) return;
  if (one.believed && now_ >= one.believed_until) one.closed = true;
  const bool ends = dice_.one_in(5);
  if (ends || one.closed) {
    one.closed = true;
    // Also where it is lost already: a release says so again.
    // A release may overtake its acquire.
    const bool releases = one.believed != dice_.one_in(8);
    Message message{at, releases ? Kind::kRelease : Kind::kCancel, 0, {}};
    if (one.believed && dice_.one_in(6)) {
      message.kind = Kind::kKeep;
      message.seq = one.sent.size();
      message.length = milliseconds(50 + dice_.below(300));
      one.sent.push_back(now_);
    }
    requests_.push_back(message);
    return;
  }
  Message renewal{at, Kind::kRenew, one.sent.size(), one.ttl};
  if (dice_.one_in(4)) renewal.length = one.ttl + Duration(seconds(1 + dice_.below(4)));
  one.sent.push_back(now_);
  requests_.push_back(renewal);
}

void World::deliver_request(const Message& message) {
  if (!shard_) return;
  const Request request = request_of(acquisitions_[message.acquisition], message);
  const bool first = message.kind == Kind::kRenew &&
                     inherited_.erase(acquisitions_[message.acquisition].id) > 0;
  shard_->submit(boot(), request, [this, message, first](const Result<Answer>& answer) {
    Acquisition& asker = acquisitions_[message.acquisition];
    if (!answer) return;
    check_told(asker, message.kind, answer->reply);
    if (first && answer->reply.outcome == Outcome::kHeld && answer->reply.seq < message.seq) {
      fail("the first renewal after a crash was answered with an older number");
    }
    if (answer->reply.outcome == Outcome::kHeld) {
      news_.push_back(
          {message.acquisition, answer->reply.seq, answer->reply.lease, answer->reply.token});
    }
    const bool ended = message.kind == Kind::kRelease || message.kind == Kind::kCancel;
    if (ended) asker.end_answered = true;
  });
}

// A text names the version that it is to replace. A request may come late or twice, and its client
// may not know the newest version.
void World::change_kept() {
  if (!shard_) return;
  const std::string key(1, static_cast<char>('a' + kept_dice_.below(2)));
  if (kept_dice_.one_in(3)) return read_kept(key);
  KeepText wish{.key = key, .version = kept_believed_[key]};
  if (wish.version > 0 && kept_dice_.one_in(4)) --wish.version;
  wish.text = std::to_string(wish.version) + "/" + std::to_string(next_text_++);
  for (std::uint64_t copies = kept_dice_.one_in(4) ? 2 : 1; copies > 0; --copies) {
    shard_->keep(boot(), wish, [this, wish](const Result<std::optional<std::uint64_t>>& version) {
      if (version && *version) check_kept(wish.key, **version, wish.text);
    });
  }
}

void World::read_kept(const std::string& key) {
  shard_->kept(boot(), key,
               [this, key, least = kept_told_[key]](const Result<std::optional<KeptText>>& found) {
                 if (!found) return;
                 const KeptText text = found->value_or(KeptText{});
                 if (text.version < least) fail("a kept text was read as it was before");
                 if (text.version > 0) check_kept(key, text.version, text.text);
               });
}

// As it came into the journal.
void World::note_kept(const std::string& key, const KeptText& text) {
  auto& all = kept_[key];
  const std::uint64_t newest = all.empty() ? 0 : all.rbegin()->first;
  if (text.version <= newest) fail("a kept text got a version that it had");
  if (!text.text.starts_with(std::to_string(newest) + "/")) {
    fail("a change of a kept text replaced another one than it named");
  }
  all.emplace(text.version, text.text);
}

// As somebody was told.
void World::check_kept(const std::string& key, std::uint64_t version, const std::string& text) {
  record();
  const auto found = kept_[key].find(version);
  if (found == kept_[key].end() || found->second != text) {
    return fail("a kept text was told that is not in the journal");
  }
  kept_told_[key] = std::max(kept_told_[key], version);
  kept_believed_[key] = version;
}

void World::deliver_news() {
  if (news_.empty()) return;
  const std::size_t at = dice_.below(news_.size());
  const News news = news_[at];
  news_.erase(news_.begin() + static_cast<std::ptrdiff_t>(at));
  if (!dice_.one_in(12)) learn(news);
}

void World::learn(const News& news) {
  Acquisition& one = acquisitions_[news.acquisition];
  if (one.closed || news.seq >= one.sent.size()) return;
  const Instant until = one.sent[news.seq] + news.lease;
  if (now_ >= until || (one.believed && now_ >= one.believed_until)) return;
  if (!one.believed) {
    one.token = news.token;
    const auto [place, fresh] = tokens_.try_emplace({one.name, news.token}, one.id);
    if (!fresh && place->second != one.id) fail("a token was given twice");
    const bool exclusive = one.mode == machine::Mode::exclusive();
    if (exclusive && news.token <= highest_[one.name]) fail("a token did not grow");
  } else if (news.token != one.token) {
    fail("the token of a grant changed");
  }
  one.believed = true;
  one.believed_until = std::max(one.believed_until, until);
}

void World::drive_journal() {
  if (!shard_) return start();
  if (dice_.one_in(25)) return crash();
  if (dice_.one_in(50)) ends_ = true;
  if (!outbound_) {
    outbound_ = take_next();
    durable_ = false;
    if (!outbound_ && ends_) return crash();  // All is written.
    if (outbound_ && dice_.one_in(2)) return;
  }
  if (dice_.one_in(3) && compactor_->busy()) {
    journal_->answer(dice_.one_in(6) ? Commit::kLater : Commit::kCommitted);
    static_cast<void>(compactor_->step());
    journal_->answer(Commit::kCommitted);
  }
  if (outbound_) finish_commit();
}

// Clients go on asking while the server ends.
std::optional<Shard::Outbound> World::take_next() {
  auto next = ends_ ? shard_->take_closing_batch(boot()) : shard_->take_batch();
  if (next) next->add_checksum();
  return next;
}

void World::finish_commit() {
  if (durable_) {  // The answer arrives, or never does.
    outbound_.reset();
    durable_ = false;
    if (dice_.one_in(15)) {
      shard_->fail(Error(Errc::kUnavailable, "lost"), /*unknown=*/true);
      return crash();
    }
    shard_->set_full(false);
    return shard_->committed();
  }
  if (dice_.one_in(30)) {
    shard_->fail(Error(Errc::kUnavailable, "lost"), /*unknown=*/dice_.one_in(2));
    // A while in which the process still lives: nothing may be answered from memory.
    outbound_.reset();
    return;
  }
  if (dice_.one_in(6)) return shard_->set_full(true);  // No room for now.
  while (compactor_->must_finish()) static_cast<void>(compactor_->step());
  if (journal_->commit(outbound_->number, outbound_->bytes) != Commit::kCommitted) {
    return fail("the ring is full although the compactor had its time");
  }
  compactor_->note_commit(outbound_->number, outbound_->bytes.size());
  durable_ = true;
  if (dice_.one_in(2)) finish_commit();
}

void World::start() {
  boot_offset_ = seconds(dice_.below(2'000'000)) - seconds(900'000);
  journal_ = std::make_unique<SimJournal>(disk_);
  static_cast<void>(journal_->open());
  auto recovered = recover(*journal_, {}, 1'000);
  if (!recovered) return fail("the journal cannot be used: " + recovered.error().message());
  inherited_.clear();
  for (const auto& lock : recovered->machine.snapshot().locks) {
    for (const TicketImage& ticket : lock.tickets) {
      if (recovered->extended.contains(ticket.id)) inherited_.insert(ticket.id);
    }
  }
  compactor_.emplace(*journal_, Compactor::Settings{.bytes = 2'000, .chunk = 300}, disk_.head,
                     recovered->last_batch);
  ServiceOptions options;
  options.ends_per_turn = static_cast<std::uint32_t>(1 + disk_.room % 3);
  shard_ = std::make_unique<Shard>(*std::move(recovered), boot(),
                                   static_cast<ServiceListener&>(*this), options);
  check_restart();
  for (const auto& [key, version] : kept_told_) read_kept(key);
  auto first = shard_->take_batch();
  while (compactor_->must_finish()) static_cast<void>(compactor_->step());
  if (!first) return fail("a term begins with a record");
  first->add_checksum();
  if (journal_->commit(first->number, first->bytes) != Commit::kCommitted) {
    return fail("a term's first record cannot be committed");
  }
  compactor_->note_commit(first->number, first->bytes.size());
  shard_->committed();
}

void World::crash() {
  // The batch under way may have reached the disk.
  if (outbound_ && !durable_ && dice_.one_in(2) &&
      outbound_->number - disk_.head.batch <= disk_.room) {
    static_cast<void>(journal_->commit(outbound_->number, outbound_->bytes));
  }
  outbound_.reset();
  durable_ = ends_ = false;
  shard_.reset();
  compactor_.reset();
  news_.clear();
}

bool World::believes(const Acquisition& one) const {
  return one.believed && !one.closed && now_ < one.believed_until;
}

void World::check_beliefs() {
  for (std::size_t a = 0; a < acquisitions_.size(); ++a) {
    const Acquisition& one = acquisitions_[a];
    if (!believes(one)) {
      if (one.believed) highest_[one.name] = std::max(highest_[one.name], one.token);
      continue;
    }
    for (std::size_t b = a + 1; b < acquisitions_.size(); ++b) {
      const Acquisition& other = acquisitions_[b];
      if (other.name != one.name || !believes(other)) continue;
      if (one.mode == machine::Mode::shared() && other.mode == one.mode) continue;
      fail("two count on '" + one.name + "'");
    }
  }
  check_zombies();
}

void World::check_zombies() {
  for (Acquisition& one : acquisitions_) {
    if (!one.end_answered) continue;
    const bool there = durable(one) != nullptr;
    if (there && one.gone) fail("an acquisition came back after its end");
    one.gone = one.gone || !there;
  }
}

// The journal's ticket of that acquisition.
const TicketImage* World::durable(const Acquisition& one) {
  if (folded_at_ != disk_.changes) {
    record();
    SimJournal reader(disk_);
    auto all = recover(reader, {}, 0);
    if (!all) {
      fail("the journal cannot be used: " + all.error().message());
      return nullptr;
    }
    folded_ = all->machine.snapshot();
    folded_at_ = disk_.changes;
  }
  for (const machine::LockImage& lock : folded_->locks) {
    if (lock.name != one.name) continue;
    for (const TicketImage& ticket : lock.tickets) {
      if (ticket.id == one.id) return &ticket;
    }
  }
  return nullptr;
}

// A batch may have more than one step of an acquisition, so the journal's history is asked.
void World::check_told(const Acquisition& one, Kind kind, const machine::Reply& reply) {
  const TicketImage* ticket = durable(one);
  const Recorded& recorded = recorded_[one.id];
  switch (reply.outcome) {
    case Outcome::kHeld:
      if (recorded.granted != reply.token) fail("a grant was told that is not in the journal");
      return;
    case Outcome::kWaiting:
      if (!recorded.entered) fail("a place in the queue was told that is not in the journal");
      return;
    case Outcome::kGone:
      // Unless it came before its own acquire.
      if (kind != Kind::kRenew && ticket != nullptr) {
        fail("an end was told that is not in the journal");
      }
      return;
    case Outcome::kCancelled:
      if (!recorded.ended) fail("a cancel was told that is not in the journal");
      return;
    case Outcome::kReleased:
      // Rule 37.
      if (!recorded.ended && (kind != Kind::kRelease || ticket == nullptr || !ticket->held)) {
        fail("a release was told that is not in the journal");
      }
      return;
    default: return;
  }
}

// Reads what was written since.
void World::record() {
  for (const auto& [number, bytes] : disk_.batches) {
    if (number <= recorded_until_) continue;
    recorded_until_ = number;
    Effects effects;
    if (!read_record(bytes, effects)) return fail("a batch cannot be read");
    for (const machine::Effect& effect : effects.all) {
      Recorded& one = recorded_[effect.id];
      one.entered |= effect.kind == machine::EffectKind::kQueued ||
                     effect.kind == machine::EffectKind::kGranted;
      if (effect.kind == machine::EffectKind::kGranted) one.granted = effect.token;
      one.ended |= machine::ends_ticket(effect.kind);
    }
    for (const auto& [key, text] : effects.kept) note_kept(key, text);
  }
}

void World::on_push(const ClientName&, const port::Push& push) {
  const auto found = std::find_if(acquisitions_.begin(), acquisitions_.end(),
                                  [&](const Acquisition& each) { return each.id == push.id; });
  if (found == acquisitions_.end()) return fail("a push about nobody");
  if (push.kind != port::Push::Kind::kGranted) {
    return check_told(*found, Kind::kCancel, {.outcome = Outcome::kGone});
  }
  check_told(*found, Kind::kAcquire, {.outcome = Outcome::kHeld, .token = push.state.token});
  news_.push_back({static_cast<std::size_t>(found - acquisitions_.begin()), push.state.seq,
                   push.state.lease, push.state.token});
}

void World::on_effect(Position position, const machine::Effect&, Instant) {
  const auto newest = disk_.batches.empty() ? 0 : disk_.batches.rbegin()->first;
  if (position.batch > std::max(newest, disk_.head.batch)) fail("an effect was told too early");
}

void World::check_restart() {
  for (const Acquisition& one : acquisitions_) {
    if (!believes(one)) continue;
    const auto lock = shard_->machine().inspect(one.name);
    const TicketImage* kept = nullptr;
    for (std::size_t at = 0; lock && at < lock->tickets.size(); ++at) {
      if (lock->tickets[at].id == one.id) kept = &lock->tickets[at];
    }
    if (kept == nullptr || !kept->held || kept->token != one.token) {
      return fail("a restart forgot the holder of '" + one.name + "'");
    }
    if (kept->lease_end - shard_->machine().now() < one.believed_until - now_) {
      return fail("a restart shortened the lease of '" + one.name + "'");
    }
  }
}

// The journal says what the machine is, when all is committed.
void World::check_fold() {
  folded_at_ = UINT64_MAX;
  static_cast<void>(durable({}));
  if (folded_ && plain(*folded_) != plain(shard_->machine().snapshot())) {
    fail("the journal folds to another state than the machine's");
  }
}

// The clients go, the server stays: everything ends.
void World::settle() {
  const auto commit_all = [&] {
    const auto next = [&] {
      if (!outbound_) outbound_ = take_next();
      return outbound_.has_value();
    };
    while (next()) {
      while (compactor_->must_finish()) static_cast<void>(compactor_->step());
      if (!durable_) {
        const Commit done = journal_->commit(outbound_->number, outbound_->bytes);
        if (done != Commit::kCommitted) return fail("a batch cannot be committed");
        compactor_->note_commit(outbound_->number, outbound_->bytes.size());
      }
      durable_ = false;
      outbound_.reset();
      shard_->committed();
    }
  };
  for (Acquisition& one : acquisitions_) one.closed = true;
  crash();
  if (failure_.empty()) start();
  if (failure_.empty()) commit_all();
  if (failure_.empty()) check_fold();
  for (int pulses = 0; pulses < 5'000 && failure_.empty() && shard_->next_tick(); ++pulses) {
    now_ += *shard_->next_tick() - boot();
    shard_->tick(boot());
    commit_all();
  }
  if (!failure_.empty()) return;
  check_fold();
  for (const machine::LockImage& lock : shard_->machine().snapshot().locks) {
    if (!lock.tickets.empty()) fail("'" + lock.name + "' is held although everybody has gone");
  }
}

}  // namespace holdfast::server::testing
