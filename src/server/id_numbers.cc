#include "src/server/id_numbers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "src/base/random.h"
#include "src/ids/segments/counter.h"
#include "src/ids/segments/names.h"
#include "src/ids/segments/served.h"

namespace holdfast::server {
namespace {

Error missing(const std::string& name) {
  return {Errc::kInvalidArgument, "there are no ids '" + name +
                                      "': an operator makes them with 'holdfast id init " + name +
                                      " --store URL', with --segments for small numbers"};
}

Error stopped(const std::string& name, const std::string& why) {
  return {Errc::kCorruptState, "the counter of the ids '" + name + "' " + why +
                                   ". Set a floor above all numbers that were ever given: "
                                   "'holdfast id floor'"};
}

// Boot time plus the greatest offset of the wall clock that this process believed: a clock that is
// set back changes nothing. Errors: kUnavailable: it jumped forward.
Result<std::chrono::nanoseconds> logical_time(const ids::ClockPolicy& policy) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
  static std::atomic<std::int64_t> believed{kNone};
  const ids::IdClock::Reading read = ids::IdClock::machine().read();
  const std::int64_t offset = (read.wall - read.boot).count();
  std::int64_t seen = believed;
  if (seen != kNone && std::chrono::nanoseconds(offset - seen) > policy.forward_at_most) {
    return Error(Errc::kUnavailable,
                 "the server's clock jumped forward: set it right, or start the server anew");
  }
  while (offset > seen && !believed.compare_exchange_weak(seen, offset)) continue;
  if (policy.back != ids::ClockPolicy::Back::kLogical) return read.wall;
  return read.boot + std::chrono::nanoseconds(std::max(offset, seen));
}

Result<KeepText> raise_time(const KeptTexts& texts, const std::string& name,
                            const std::string& head_text, std::uint64_t count, IdNumbers& taken) {
  const auto head = ids::ServedHead::parse(name, head_text);
  if (!head) return head.error();
  const std::string key = ids::service_key(name, head->incarnation);
  const std::string where = "the record of the service of the ids '" + name + "'";
  const KeptText* text = texts.find(key);
  if (text == nullptr) {
    return Error(Errc::kCorruptState, where + " is missing: make a new namespace");
  }
  auto state = ids::ServedState::parse(text->text, where);
  if (!state) return state.error();
  if (state->incarnation != head->incarnation) {
    return Error(Errc::kCorruptState, where + " is of another namespace");
  }
  const auto now = logical_time(head->policy);
  if (!now) return now.error();
  auto given = state->give(*head, count, *now);
  if (!given) return given.error();
  taken = {.count = given->size(), .with_time = *std::move(given)};
  return KeepText{.key = key, .version = text->version, .text = state->text()};
}

// The counter with `count` numbers less, and where these begin.
Result<KeepText> raise(const KeptTexts& texts, const std::string& name, std::uint64_t count,
                       bool as_range, IdNumbers& taken) {
  if (auto good = ids::check_namespace(name); !good) return good.error();
  const KeptText* head_text = texts.find(ids::SegmentsHead::key(name));
  if (head_text == nullptr) return missing(name);
  if (ids::ServedHead::is_one(head_text->text)) {
    if (as_range && count > 1) {
      return Error(Errc::kUnsupported,
                   "ids with a time are no range: take them one by one, or several by HTTP");
    }
    return raise_time(texts, name, head_text->text, count, taken);
  }
  const auto head = ids::SegmentsHead::parse(name, head_text->text);
  if (!head) return head.error();
  const KeptText* text = texts.find(head->counter_key());
  if (text == nullptr) return stopped(name, "is missing");
  auto state = ids::CounterState::parse(text->text, "the counter of the ids '" + name + "'");
  if (!state) return state.error();
  if (state->incarnation != head->incarnation) return stopped(name, "is of another namespace");
  if (state->stopped) return stopped(name, "was stopped: " + *state->stopped);
  if (state->next > state->last || state->last - state->next + 1 < count) {
    return Error(Errc::kUnsupported, "the ids '" + name + "' have " +
                                         std::to_string(state->last + 1 - state->next) +
                                         " numbers left: go on in a namespace of another name");
  }
  taken = {state->next, count};
  state->next += count;
  const base::Random128 request = base::random_128();
  state->writer = base::to_hex(request.high, request.low);
  return KeepText{.key = head->counter_key(), .version = text->version, .text = state->text()};
}

}  // namespace

std::string name_of_ids(const std::string& name) { return ids::SegmentsHead::key(name); }

void take_numbers(Service& service, const std::string& name, std::uint64_t count, bool as_range,
                  const std::string& user, Done<IdNumbers> done) {
  if (!fits_one_call(count)) {
    return done(Error(Errc::kInvalidArgument,
                      "one call takes from 1 to " + std::to_string(kMostNumbers) + " numbers"));
  }
  const auto taken = std::make_shared<IdNumbers>();
  service.change_kept(
      user,
      [name, count, as_range, taken](const KeptTexts& texts) {
        return raise(texts, name, count, as_range, *taken);
      },
      [taken, done = std::move(done)](const Result<std::optional<std::uint64_t>>& version) {
        if (!version) return done(version.error());
        done(*taken);
      });
}

}  // namespace holdfast::server
