#include "src/recipes/held_backend.h"

#include <algorithm>
#include <utility>

#include "src/base/clock.h"

namespace holdfast::recipes {
namespace {

using base::BootClock;
using base::BootInstant;
using machine::AcquisitionId;
using port::Done;
using sql::Answer;
using sql::Fate;

class HeldBackend final : public Backend, public std::enable_shared_from_this<HeldBackend> {
 public:
  HeldBackend(HeldTerms terms, port::Loop& loop) : terms_(std::move(terms)), loop_(loop) {}

  Guarantees guarantees() const override { return terms_.guarantees; }
  Result<std::string> key_of(const std::string& name) const override { return terms_.key_of(name); }

  void start(Lost lost, Done<bool> done) override {
    lost_ = std::move(lost);
    open(add_session(), [done](const Result<std::uint64_t>& opened) {
      if (!opened) return done(opened.error());
      done(true);
    });
  }

  void take(Hold hold, machine::OwnerPtr, Done<Taken> done) override {
    if (!terms_.own_transaction) return take_on(sessions_.front().get(), hold, std::move(done));
    const auto idle = std::find_if(sessions_.begin(), sessions_.end(),
                                   [](const auto& each) { return !each->used; });
    if (idle != sessions_.end()) return take_on(idle->get(), hold, std::move(done));
    if (sessions_.size() < terms_.connections) {
      return take_on(add_session(), hold, std::move(done));
    }
    const auto held = std::count_if(grants_.begin(), grants_.end(),
                                    [](const auto& grant) { return grant.second.held; });
    if (std::cmp_less(held, terms_.connections)) {
      return queue_.push_back([this, hold, done] { take(hold, {}, done); });
    }
    later([done, this] {
      done(Error(Errc::kQueueFull,
                 terms_.place +
                     ": all of this client's connections hold a lock: release one, or "
                     "raise connections= (now " +
                     std::to_string(terms_.connections) + ")"));
    });
  }

  void confirm(std::vector<Hold> holds, Done<std::vector<Result<bool>>> done) override {
    struct Gathered {
      std::vector<Result<bool>> results;
      std::size_t left = 1;
    };
    const auto all = std::make_shared<Gathered>();
    all->results.assign(holds.size(), false);
    const auto arrived = [all, done] {
      if (--all->left == 0) done(std::move(all->results));
    };
    std::map<std::pair<Session*, std::uint64_t>, std::vector<std::size_t>> by_session;
    for (std::size_t i = 0; i < holds.size(); ++i) {
      const auto grant = grants_.find(holds[i].id);
      if (grant == grants_.end()) continue;
      by_session[{grant->second.session, grant->second.number}].push_back(i);
    }
    for (const auto& [where, places] : by_session) {
      ++all->left;
      send(where.first, where.second, terms_.confirm,
           [this, all, arrived, where = where, places = places](const Answer& answer) {
             const bool over = where.first->number != where.second;
             for (const std::size_t i : places) {
               if (answer.fate == Fate::kDone) {
                 all->results[i] = true;
               } else if (!over) {
                 all->results[i] = error_of(answer);
               }
             }
             arrived();
           });
    }
    later(arrived);
  }

  void give_back(Hold hold, Done<bool> done) override {
    const auto found = grants_.find(hold.id);
    if (found == grants_.end()) return later([done] { done(false); });
    const Grant grant = found->second;
    send(grant.session, grant.number, terms_.give_back(hold.key),
         [this, grant, id = hold.id, done](const Answer& answer) {
           const bool over = grant.session->number != grant.number;
           const bool ended = answer.fate == Fate::kNotSent && over;
           if (answer.fate != Fate::kDone && !ended) return done(error_of(answer));
           forget(id);
           done(answer.fate == Fate::kDone);
         });
  }

  void inspect(Hold hold, Done<std::optional<LockInfo>> done) override {
    if (!terms_.inspect) {
      return later([done, this] {
        done(Error(Errc::kUnsupported, terms_.place + ": the server does not tell who has a row "
                                                      "locked: look at its list of transactions"));
      });
    }
    ask(terms_.inspect(hold.key), [this, hold, done](const Answer& answer) {
      if (answer.fate != Fate::kDone) return done(unanswered(answer));
      done(terms_.describe(hold.name, *answer.rows));
    });
  }

  void probe(Done<std::vector<Finding>> done) override {
    ask(terms_.examination, [this, done](const Answer& answer) {
      if (answer.fate != Fate::kDone) return done(unanswered(answer));
      port::Findings findings = terms_.judge(*answer.rows);
      port::check_clock_rate(findings);
      done(std::move(findings));
    });
  }

  void close() override {
    for (const auto& session : sessions_) session->link->close();
  }
  void abandon_after_fork() noexcept override {}

 private:
  struct Session {  // Stays as long as this.
    std::unique_ptr<sql::Link> link;
    std::function<Result<void>(const sql::Rows& rows)> check;
    std::uint64_t number = 0;  // The open connection's.
    bool opening = false;
    bool used = false;  // own_transaction: by a lock.
    std::vector<std::function<void(const Result<std::uint64_t>&)>> opened{};
  };
  struct Grant {
    Session* session = nullptr;
    std::uint64_t number = 0;
    bool held = false;
    std::string server_key{};
  };

  void later(port::Task task) {
    loop_.post([weak = weak_from_this(), task = std::move(task)] {
      if (const auto self = weak.lock()) task();
    });
  }

  Session* add_session() {
    Session* const session = sessions_.emplace_back(std::make_unique<Session>()).get();
    HeldTerms::Line line = terms_.make_line();
    session->check = std::move(line.check);
    session->link = std::make_unique<sql::Link>(
        std::move(line.link), sql::Link::Hooks{.on_lost = [this, session](const std::string&) {
          later([this, session, number = session->link->number()] { on_lost(session, number); });
        }});
    session->link->start();
    return session;
  }

  // Calls `then` with the number of an open connection.
  void open(Session* session, std::function<void(const Result<std::uint64_t>&)> then) {
    if (session->number != 0) return then(session->number);
    session->opened.push_back(std::move(then));
    if (std::exchange(session->opening, true)) return;
    const auto finish = [this, session](Result<std::uint64_t> number) {
      later([session, number] {
        session->opening = false;
        session->number = number ? *number : 0;
        for (const auto& each : std::exchange(session->opened, {})) each(number);
      });
    };
    post(session, 0, terms_.open, [this, session, finish](const Answer& answer) {
      if (answer.fate != Fate::kDone) return finish(unanswered(answer));
      if (auto good = session->check(*answer.rows); !good) return finish(good.error());
      finish(session->link->number());
    });
  }

  void take_on(Session* session, const Hold& hold, Done<Taken> done) {
    session->used = true;
    open(session, [this, session, hold, done](const Result<std::uint64_t>& number) {
      if (!number) {
        set_free(session);
        return done(number.error());
      }
      grants_[hold.id] = {session, *number};
      const auto began = std::make_shared<Answer>(Answer{Fate::kDone});
      if (terms_.own_transaction) {
        send(session, *number, terms_.begin(hold.key),
             [began](Answer answer) { *began = std::move(answer); });
      }
      send(session, *number, terms_.take(hold.key), [this, hold, done, began](Answer answer) {
        if (began->fate != Fate::kDone) answer = *began;
        on_taken(hold, answer, done);
      });
    });
  }

  void on_taken(const Hold& hold, const Answer& answer, const Done<Taken>& done) {
    const auto found = grants_.find(hold.id);
    if (found == grants_.end()) return done(Error(Errc::kOutcomeUnknown, terms_.place));
    Grant& grant = found->second;
    if (answer.fate == Fate::kUnknown) return done(error_of(answer));
    const bool yes =
        answer.fate == Fate::kDone && answer.rows->size() == 1 && answer.rows->number(0, 0) == 1;
    if (yes) {
      grant.server_key = std::string(answer.rows->text(0, 2));
      if (!held_twice(hold.id, grant)) {
        grant.held = true;
        // The connection may have gone meanwhile; its end has been told before.
        if (grant.session->number == grant.number) {
          return done(Taken{true, static_cast<std::uint64_t>(answer.rows->number(0, 1))});
        }
        forget(hold.id);
        return done(Error(Errc::kOutcomeUnknown, terms_.place + ": the connection has ended"));
      }
    }
    // Whatever is left of the try goes, too: a transaction, or a second hold of one session.
    if (answer.fate != Fate::kNotSent && (yes || terms_.own_transaction)) {
      send(grant.session, grant.number, terms_.give_back(hold.key), [](const Answer&) {});
    }
    forget(hold.id);
    if (answer.fate == Fate::kDone || (answer.fate == Fate::kRefused && terms_.is_busy(answer))) {
      return done(Taken{});
    }
    done(error_of(answer));
  }

  // Two names may have one key at the server, and a session takes what it has again.
  bool held_twice(AcquisitionId id, const Grant& grant) const {
    return !terms_.own_transaction &&
           std::any_of(grants_.begin(), grants_.end(), [&](const auto& other) {
             return other.first != id && other.second.held && other.second.number == grant.number &&
                    other.second.server_key == grant.server_key;
           });
  }

  void forget(AcquisitionId id) {
    const auto found = grants_.find(id);
    if (found == grants_.end()) return;
    Session* const session = found->second.session;
    grants_.erase(found);
    set_free(session);
  }
  void set_free(Session* session) {
    session->used = false;
    if (queue_.empty()) return;
    later(std::move(queue_.front()));
    queue_.pop_front();
  }

  void on_lost(Session* session, std::uint64_t number) {
    if (session->number == number) session->number = 0;
    std::vector<AcquisitionId> lost;
    for (const auto& [id, grant] : grants_) {
      if (grant.held && grant.session == session && grant.number == number) lost.push_back(id);
    }
    for (const AcquisitionId& id : lost) forget(id);
    if (!lost.empty()) lost_(lost);
  }

  // On the loop: the answer to what goes over no other connection than that.
  void send(Session* session, std::uint64_t number, sql::Request request,
            std::function<void(Answer)> done) {
    post(session, number, std::move(request), [this, done = std::move(done)](Answer answer) {
      later([done, answer = std::move(answer)] { done(answer); });
    });
  }
  void ask(sql::Request request, std::function<void(Answer)> done) {
    send(sessions_.front().get(), 0, std::move(request), std::move(done));
  }
  // The answer comes on the link's thread.
  void post(Session* session, std::uint64_t number, sql::Request request,
            std::function<void(Answer)> done) {
    const bool holds = std::any_of(grants_.begin(), grants_.end(), [&](const auto& grant) {
      return grant.second.held && grant.second.session == session;
    });
    const std::chrono::milliseconds lease = terms_.guarantees.min_ttl;
    const BootInstant deadline =
        BootClock::now() + (holds ? lease : std::min(lease, terms_.patience));
    session->link->post([link = session->link.get(), number, deadline, request = std::move(request),
                         done = std::move(done)]() mutable {
      link->send({std::move(request), deadline, std::move(done), number});
    });
  }

  Error error_of(const Answer& answer) const {
    const bool unknown = answer.fate == Fate::kUnknown;
    return {unknown ? Errc::kOutcomeUnknown : terms_.code_of(answer),
            terms_.place + ": " + answer.message};
  }
  // For requests that change nothing.
  Error unanswered(const Answer& answer) const {
    const Error error = error_of(answer);
    return error.code() == Errc::kOutcomeUnknown ? Error(Errc::kUnavailable, error.message())
                                                 : error;
  }

  const HeldTerms terms_;
  port::Loop& loop_;
  Lost lost_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::map<AcquisitionId, Grant> grants_;
  std::deque<port::Task> queue_;  // Takes that wait for a connection.
};

}  // namespace

std::shared_ptr<Backend> make_held_backend(HeldTerms terms, port::Loop& loop) {
  return std::make_shared<HeldBackend>(std::move(terms), loop);
}

}  // namespace holdfast::recipes
