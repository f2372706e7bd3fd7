#include "src/server/id_numbers.h"

#include <memory>
#include <optional>
#include <utility>

#include "src/base/random.h"
#include "src/ids/segments/counter.h"
#include "src/ids/segments/names.h"

namespace holdfast::server {
namespace {

Error missing(const std::string& name) {
  return {Errc::kInvalidArgument, "there are no ids '" + name +
                                      "': an operator makes them with 'holdfast id init " + name +
                                      " --segments --store URL'"};
}

Error stopped(const std::string& name, const std::string& why) {
  return {Errc::kCorruptState, "the counter of the ids '" + name + "' " + why +
                                   ". Set a floor above all numbers that were ever given: "
                                   "'holdfast id floor'"};
}

// The counter with `count` numbers less, and where these begin.
Result<KeepText> raise(const KeptTexts& texts, const std::string& name, std::uint64_t count,
                       IdNumbers& taken) {
  if (auto good = ids::check_namespace(name); !good) return good.error();
  const KeptText* head_text = texts.find(ids::SegmentsHead::key(name));
  if (head_text == nullptr) return missing(name);
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

void take_numbers(Service& service, const std::string& name, std::uint64_t count,
                  Done<IdNumbers> done) {
  if (!fits_one_call(count)) {
    return done(Error(Errc::kInvalidArgument,
                      "one call takes from 1 to " + std::to_string(kMostNumbers) + " numbers"));
  }
  const auto taken = std::make_shared<IdNumbers>();
  service.change_kept(
      [name, count, taken](const KeptTexts& texts) { return raise(texts, name, count, *taken); },
      [taken, done = std::move(done)](const Result<std::optional<std::uint64_t>>& version) {
        if (!version) return done(version.error());
        done(*taken);
      });
}

}  // namespace holdfast::server
