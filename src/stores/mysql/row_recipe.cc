#include "src/stores/mysql/row_recipe.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/port/examination.h"
#include "src/sql/link.h"
#include "src/stores/mysql/connection.h"
#include "src/stores/mysql/text.h"

namespace holdfast::stores::mysql {
namespace {

using base::BootClock;
using port::Done;
using recipes::Hold;
using recipes::Taken;
using sql::Answer;
using sql::Fate;

constexpr std::chrono::seconds kAnswer{5};
constexpr std::chrono::milliseconds kAgain{20};  // After a deadlock.
constexpr char kMicros[] = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))";
const std::string kNow = std::string(kMicros) + " DIV 1000";

std::string value_of(const machine::AcquisitionId& id) { return base::to_hex(id.high, id.low); }
std::string literal(const std::string& text) { return "_utf8mb4 " + text_of(text); }

// Somebody was faster, or has the row locked for a moment.
bool is_busy(const Answer& answer) {
  const auto known = {"1020", "1062", "1205", "1213", "3572"};
  return answer.fate == Fate::kRefused &&
         std::find(known.begin(), known.end(), answer.code) != known.end();
}

class RowBackend final : public recipes::Backend, public std::enable_shared_from_this<RowBackend> {
 public:
  RowBackend(const MysqlAddress& address, RecipeOptions options, port::Loop& loop)
      : options_(std::move(options)),
        place_(address.display() + ", table " + options_.table),
        ttl_(std::to_string(options_.session.count())),
        loop_(loop),
        link_(link_settings(address, "holdfast-myrow", /*keep=*/false), {}),
        renewals_(link_settings(address, "holdfast-myrenew", /*keep=*/false), {}) {
    link_.start();
    renewals_.start();
  }

  Guarantees guarantees() const override { return recipe_guarantees(options_); }
  Result<std::string> key_of(const std::string& name) const override {
    if (name.size() <= longest_name_) return name;
    return Error(Errc::kInvalidArgument, place_ + ": the name is longer than the column lock_name");
  }

  void start(Lost, Done<bool> done) override {
    ask({"SELECT column_name, data_type, IFNULL(character_maximum_length, 0),"
         " (SELECT COUNT(*) FROM information_schema.statistics s WHERE s.table_schema = DATABASE()"
         "  AND s.table_name = c.table_name AND s.non_unique = 0 AND s.column_name = 'lock_name'"
         "  AND s.seq_in_index = 1 AND NOT EXISTS (SELECT 1 FROM information_schema.statistics o"
         "   WHERE o.table_schema = s.table_schema AND o.table_name = s.table_name"
         "   AND o.index_name = s.index_name AND o.seq_in_index = 2))"
         " FROM information_schema.columns c WHERE table_schema = DATABASE() AND table_name = '" +
         options_.table + "'"},
        [this, done](const Answer& answer) {
          if (answer.fate != Fate::kDone) return done(unanswered(answer));
          if (answer.rows->size() == 0) return create(done);
          if (auto good = learn(*answer.rows); !good) return done(good.error());
          link_.post([this] { sweep_later(); });
          done(true);
        });
  }

  void take(Hold hold, machine::OwnerPtr, Done<Taken> done) override {
    const std::string table = options_.table;
    const std::string name = literal(hold.key);
    const std::string value = literal(value_of(hold.id));
    const std::string ends = kNow + " + " + ttl_;
    std::string text = "UPDATE " + table + " SET lock_value = " + value + ", expire_time = " + ends;
    if (!created_.empty()) text += ", create_time = " + created_;
    text += " WHERE lock_name = " + name + " AND expire_time <= " + kNow + ";INSERT INTO " + table +
            " (lock_name, lock_value, expire_time" + (created_.empty() ? "" : ", create_time") +
            ") SELECT " + name + ", " + value + ", " + ends +
            (created_.empty() ? "" : ", " + created_) +
            " FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM " + table + " WHERE lock_name = " + name +
            ");SELECT lock_value = " + value + ", " + kMicros + ", expire_time - " + kNow +
            " FROM " + table + " WHERE lock_name = " + name;
    ask({std::move(text), {}, 2}, [this, done](const Answer& answer) {
      if (is_busy(answer)) return done(Taken{});
      if (answer.fate != Fate::kDone) return done(error_of(answer));
      const sql::Rows& rows = *answer.rows;
      if (rows.size() == 0) return done(Taken{});  // Its holder has just gone.
      if (rows.number(0, 0) == 1) {
        return done(Taken{true, static_cast<std::uint64_t>(rows.number(0, 1))});
      }
      const auto left = std::max<std::int64_t>(rows.number(0, 2), 0);
      done(Taken{.free_in = std::chrono::milliseconds(left)});
    });
  }

  void confirm(std::vector<Hold> holds, Done<std::vector<Result<bool>>> done) override {
    std::string owned;
    for (const Hold& hold : holds) {
      append(owned, "(" + literal(hold.key) + "," + literal(value_of(hold.id)) + ")");
    }
    const std::string where =
        " WHERE (lock_name, lock_value) IN (" + owned + ") AND expire_time > " + kNow;
    // A take may wait a while for a row that another program has locked; no renewal waits for it.
    ask(renewals_,
        {"UPDATE " + options_.table + " SET expire_time = " + kNow + " + " + ttl_ + where +
             ";SELECT lock_value FROM " + options_.table + where,
         {},
         1},
        [this, holds = std::move(holds), done](const Answer& answer) {
          if (answer.fate != Fate::kDone) return done(error_of(answer));
          std::set<std::string, std::less<>> ours;
          for (int row = 0; row < answer.rows->size(); ++row) {
            ours.emplace(answer.rows->text(row, 0));
          }
          std::vector<Result<bool>> results;
          for (const Hold& hold : holds) results.emplace_back(ours.contains(value_of(hold.id)));
          done(std::move(results));
        });
  }

  void give_back(Hold hold, Done<bool> done) override {
    ask({"DELETE FROM " + options_.table + " WHERE lock_name = " + literal(hold.key) +
         " AND lock_value = " + literal(value_of(hold.id))},
        [this, hold, done](const Answer& answer) {
          // A deadlock or a lock timeout is not the caller's to see. Its own deadline bounds this.
          if (is_busy(answer)) return give_back_again(hold, done);
          if (answer.fate != Fate::kDone) return done(error_of(answer));
          done(answer.rows->size() > 0);
        });
  }

  void inspect(Hold hold, Done<std::optional<LockInfo>> done) override {
    ask({"SELECT lock_value, expire_time - " + kNow + " FROM " + options_.table +
         " WHERE lock_name = " + literal(hold.key) + " AND expire_time > " + kNow},
        [this, hold, done](const Answer& answer) {
          if (answer.fate != Fate::kDone) return done(unanswered(answer));
          if (answer.rows->size() == 0) return done(std::optional<LockInfo>());
          LockInfo info;
          info.name = hold.name;
          HolderInfo& holder = info.holders.emplace_back();
          holder.who.owner = answer.rows->text(0, 0);
          holder.time_left = std::chrono::milliseconds(answer.rows->number(0, 1));
          done(std::optional<LockInfo>(std::move(info)));
        });
  }

  void probe(Done<std::vector<Finding>> done) override {
    ask({"SELECT @@version, COUNT(*) FROM " + options_.table + " WHERE expire_time <= " + kNow},
        [this, done](const Answer& answer) {
          if (answer.fate != Fate::kDone) return done(unanswered(answer));
          port::Findings findings;
          port::add(findings, Severity::kOk, "version", std::string(answer.rows->text(0, 0)));
          port::add(
              findings, Severity::kOk, "table",
              "expired rows in " + options_.table + ": " + std::string(answer.rows->text(0, 1)));
          add_recipe_finding(findings);
          port::check_clock_rate(findings);
          done(std::move(findings));
        });
  }

  void close() override {
    link_.close();
    renewals_.close();
  }
  void abandon_after_fork() noexcept override {}

 private:
  void create(Done<bool> done) {
    ask({"CREATE TABLE IF NOT EXISTS " + options_.table +
         " (id BIGINT AUTO_INCREMENT PRIMARY KEY,"
         " lock_name " +
         kNameColumn +
         ", lock_value VARCHAR(128) NOT NULL, expire_time BIGINT NOT NULL,"
         " create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,"
         " UNIQUE KEY uk_lock_name (lock_name), KEY by_end (expire_time)) ENGINE = InnoDB"},
        [this, done](const Answer& answer) {
          if (answer.fate != Fate::kDone) return done(unanswered(answer));
          start({}, done);
        });
  }

  // The columns that a program before us made.
  Result<void> learn(const sql::Rows& rows) {
    std::uint64_t value_length = 0;
    bool counts_ms = false;
    for (int row = 0; row < rows.size(); ++row) {
      const std::string_view column = rows.text(row, 0);
      const std::string_view type = rows.text(row, 1);
      const auto length = static_cast<std::size_t>(rows.number(row, 2));
      if (column == "lock_name") longest_name_ = length;
      if (column == "lock_value") value_length = length;
      if (column == "expire_time") counts_ms = type == "bigint";
      if (column == "create_time") created_ = type == "bigint" ? kNow : "CURRENT_TIMESTAMP";
    }
    const char* const lacks = rows.number(0, 3) == 0 ? "a unique index on lock_name alone"
                              : value_length < 32    ? "a lock_value of 32 characters"
                              : !counts_ms           ? "an expire_time as BIGINT, in milliseconds"
                                                     : nullptr;
    if (lacks == nullptr) return {};
    return Error(Errc::kCorruptState,
                 place_ + " does not have " + lacks + ": change it, or name another table=");
  }

  // On the link's thread.
  void sweep_later() {
    link_.at(BootClock::now() + options_.sweep, [this] {
      link_.send(
          {{"DELETE FROM " + options_.table + " WHERE expire_time <= " + kNow + " LIMIT 1000"},
           BootClock::now() + kAnswer,
           [](const Answer&) {}});
      sweep_later();
    });
  }

  void give_back_again(const Hold& hold, const Done<bool>& done) {
    link_.post([this, hold, done] {
      link_.at(BootClock::now() + kAgain, [this, hold, done] {
        loop_.post([weak = weak_from_this(), hold, done] {
          if (const auto self = weak.lock()) self->give_back(hold, done);
        });
      });
    });
  }

  void ask(sql::Request request, std::function<void(const Answer&)> done) {
    ask(link_, std::move(request), std::move(done));
  }
  void ask(sql::Link& link, sql::Request request, std::function<void(const Answer&)> done) {
    link.post([this, &link, request = std::move(request), done = std::move(done)]() mutable {
      link.send({std::move(request), BootClock::now() + kAnswer,
                 [this, done = std::move(done)](Answer answer) {
                   loop_.post([weak = weak_from_this(), done, answer = std::move(answer)] {
                     if (const auto self = weak.lock()) done(answer);
                   });
                 }});
    });
  }

  Error error_of(const Answer& answer) const {
    const bool unknown = answer.fate == Fate::kUnknown;
    return {unknown ? Errc::kOutcomeUnknown : code_of(answer), place_ + ": " + answer.message};
  }
  Error unanswered(const Answer& answer) const {
    const Error error = error_of(answer);
    return error.code() == Errc::kOutcomeUnknown ? Error(Errc::kUnavailable, error.message())
                                                 : error;
  }

  const RecipeOptions options_;
  const std::string place_;
  const std::string ttl_;
  port::Loop& loop_;
  std::size_t longest_name_ = 256;  // Until the table is known.
  std::string created_;             // Empty: there is no such column.
  sql::Link link_;                  // Last: their threads end first.
  sql::Link renewals_;
};

}  // namespace

std::shared_ptr<recipes::Backend> make_row_backend(const MysqlAddress& address,
                                                   const RecipeOptions& options, port::Loop& loop) {
  return std::make_shared<RowBackend>(address, options, loop);
}

}  // namespace holdfast::stores::mysql
