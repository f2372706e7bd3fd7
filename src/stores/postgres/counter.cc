#include "src/stores/postgres/counter.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/detail/number.h"
#include "src/sql/blocking_link.h"
#include "src/stores/postgres/dialect.h"

namespace holdfast::stores::postgres {
namespace {

using base::BootInstant;

// $1 the name, as SQL has it. A row without an id: there is nothing of that name.
constexpr char kLook[] = R"sql(
SELECT c.oid, c.relkind, s.seqincrement, CASE WHEN s.seqcycle THEN 1 ELSE 0 END, s.seqcache,
  c.relpersistence, CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END
FROM (SELECT to_regclass($1::text) AS oid) named
LEFT JOIN pg_class c ON c.oid = named.oid LEFT JOIN pg_sequence s ON s.seqrelid = named.oid)sql";

// $1 the id $2 how many $3 the increment $4 the name $5 whether it caches. No row: it is gone, has
// another name, or was changed.
constexpr char kTake[] = R"sql(
WITH taken AS (
  SELECT nextval(s.seqrelid::regclass) AS number
  FROM pg_sequence s, generate_series(1, $2::int)
  WHERE s.seqrelid = $1::oid AND s.seqincrement = $3::bigint AND NOT s.seqcycle
    AND s.seqrelid = to_regclass($4::text)::oid AND (s.seqcache > 1) = ($5::int = 1)
    AND set_config('synchronous_commit', 'on', true) IS NOT NULL)
SELECT string_agg(number::text, ' ' ORDER BY number), pg_sequence_last_value($1::oid::regclass),
  pg_logical_emit_message(true, 'holdfast', '')
FROM taken HAVING count(*) > 0)sql";

// $1 the name. The same with quotes where it needs some.
constexpr char kQuoted[] = R"sql(
SELECT string_agg(quote_ident(part), '.' ORDER BY place)
FROM unnest(parse_ident($1::text)) WITH ORDINALITY AS parts(part, place))sql";

constexpr std::string_view kEnd = "2200H";  // The sequence's limit is reached.
constexpr std::string_view kThere = "42P07";

class PostgresCounter final : public port::NativeCounter {
 public:
  PostgresCounter(const PostgresAddress& address, sql::Link::Settings link, std::string name)
      : link_(std::make_unique<PostgresDialect>(address), std::move(link)),
        name_(std::move(name)) {}

  Result<void> create(std::uint64_t from, BootInstant by) {
    const auto quoted = link_.ask({kQuoted, {name_}}, by, /*reads=*/true);
    if (!quoted) return unfit(quoted.error().message());
    const std::string first = std::to_string(from);
    const sql::Answer made =
        link_.send({"CREATE SEQUENCE " + (*quoted)->bytes(0, 0) + " MINVALUE " +
                    (from == 0 ? "0" : "1") + " START WITH " + first},
                   by);
    if (made.fate == sql::Fate::kDone) return {};
    if (made.code == kThere) return Error(Errc::kStoreInUse, named() + "it is there already");
    return error_of(link_.dialect(), made);
  }

  Result<void> open(BootInstant by) {
    auto losses = link_.forgets(by);
    if (!losses) return losses.error();
    forgets_ = *std::move(losses);
    return look(by);
  }

  Result<Taken> take(std::uint32_t count, BootInstant by) override {
    const sql::Answer answer =
        link_.send({kTake,
                    {oid_, std::to_string(count), std::to_string(increment_), name_,
                     std::string(caches_ ? "1" : "0")}},
                   by);
    if (answer.code == kEnd) {
      return Error(Errc::kUnsupported, named() + "the last number of the sequence is given");
    }
    if (answer.fate != sql::Fate::kDone) return error_of(link_.dialect(), answer);
    if (answer.rows->size() == 0) return changed(by);
    Taken taken;
    std::string_view text = answer.rows->text(0, 0);
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(' '), text.size());
      const auto number = detail::parse_number<std::uint64_t>(text.substr(0, end));
      if (!number) {
        return Error(Errc::kCorruptState, named() + "it gave " + std::string(text.substr(0, end)) +
                                              ", and ids are no negative numbers");
      }
      taken.numbers.push_back(*number);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    taken.counter = static_cast<std::uint64_t>(answer.rows->number(0, 1));
    return taken;
  }

  std::string forgets() const override { return forgets_; }
  bool caches() const override { return caches_; }

 private:
  enum Column : int { kOid, kKind, kIncrement, kCycle, kCache, kPersistence, kOnlyReads };

  Error unfit(const std::string& why) const { return {Errc::kInvalidArgument, named() + why}; }
  std::string named() const { return link_.where() + ": sequence " + name_ + ": "; }

  Result<void> look(BootInstant by) {
    const auto found = link_.ask({kLook, {name_}}, by, /*reads=*/true);
    if (!found) return found.error();
    const sql::Rows& row = **found;
    if (row.size() != 1 || row.number(0, kOnlyReads) != 0) {
      link_.reset();
      return Error(Errc::kUnavailable, link_.where() +
                                           ": this server only reads (a replica?): connect to the "
                                           "primary");
    }
    if (row.is_null(0, kOid)) {
      return unfit("there is none: make it once (StoreCounter::create, or CREATE SEQUENCE)");
    }
    if (row.text(0, kKind) != "S") return unfit("this is no sequence, but another relation");
    if (row.is_null(0, kIncrement)) return unfit("this user may not see what it is");
    if (row.number(0, kCycle) != 0) {
      return unfit(
          "it has CYCLE, so its numbers come again after the last one: "
          "ALTER SEQUENCE ... NO CYCLE");
    }
    if (row.number(0, kIncrement) < 1) {
      return unfit("its increment is " + std::string(row.text(0, kIncrement)) +
                   ", and ids have to grow: ALTER SEQUENCE ... INCREMENT BY 1");
    }
    if (row.text(0, kPersistence) != "p" && forgets_.empty()) {
      forgets_ = named() + "it is UNLOGGED, so a crash sets it back";
    }
    oid_ = row.bytes(0, kOid);
    increment_ = row.number(0, kIncrement);
    caches_ = row.number(0, kCache) > 1;
    return {};
  }

  // Nothing was taken: says why.
  Error changed(BootInstant by) {
    const std::string before = oid_;
    const bool cached = caches_;
    const auto found = look(by);
    caches_ = cached;  // As it was promised.
    if (!found && found.error().code() != Errc::kInvalidArgument) return found.error();
    const std::string why = found ? (before == oid_
                                         ? "its increment or its cache was changed: open it again"
                                         : "it was dropped or renamed, and made again")
                                  : found.error().message();
    return {Errc::kCorruptState, found ? named() + why : why};
  }

  sql::BlockingLink link_;
  const std::string name_;
  std::string oid_;
  std::int64_t increment_ = 1;
  bool caches_ = false;
  std::string forgets_;
};

}  // namespace

Result<std::unique_ptr<port::Store>> make_counter(const PostgresAddress& address,
                                                  sql::Link::Settings link,
                                                  const port::StoreContext& context) {
  return port::answer(
      *context.counter,
      std::make_unique<PostgresCounter>(address, std::move(link), context.counter->name),
      context.open_by);
}

}  // namespace holdfast::stores::postgres
