#include "src/ids/segments/served.h"

#include <algorithm>
#include <utility>

#include "src/ids/record_text.h"

namespace holdfast::ids {
namespace {

constexpr std::string_view kServiceKind = "service";

}  // namespace

bool ServedHead::is_one(const std::string& text) {
  const auto record = RecordText::parse(text, "a head");
  return record && record->kind() == kWorkersKind;
}

Result<ServedHead> ServedHead::parse(const std::string& name, const std::string& text) {
  const std::string where = "the namespace '" + name + "' of ids";
  const auto record = RecordText::parse(text, kWorkersKind, where);
  if (!record) return record.error();
  if (record->value("served") != "1") {
    return Error(Errc::kUnsupported,
                 where +
                     " has no worker number for the service: make another one on it, by 'holdfast "
                     "id init', with fewer workers than the layout has");
  }
  const auto layout = Layout::parse(record->value("layout").value_or(""));
  const auto policy = ClockPolicy::parse(record->value("policy").value_or(""));
  const auto workers = record->number<std::uint64_t>("workers");
  std::string incarnation = record->value("incarnation").value_or("");
  if (!layout || !policy || !workers || *workers >= layout->workers() || incarnation.empty()) {
    return Error(Errc::kCorruptState, where + ": its layout, policy or workers make no sense");
  }
  return ServedHead{name, std::move(incarnation), *layout, *policy, *workers};
}

std::string ServedState::text() const {
  return RecordText(std::string(kServiceKind))
      .add("incarnation", incarnation)
      .add_number("time", time)
      .add_number("used", used)
      .text();
}

Result<ServedState> ServedState::parse(const std::string& text, const std::string& where) {
  const auto record = RecordText::parse(text, kServiceKind, where);
  if (!record) return record.error();
  const auto time = record->number<std::int64_t>("time");
  const auto used = record->number<std::uint64_t>("used");
  if (!time || *time < -1 || !used) {
    return Error(Errc::kCorruptState, where + ": its numbers make no sense");
  }
  return ServedState{record->value("incarnation").value_or(""), *time, *used};
}

Result<std::vector<std::uint64_t>> ServedState::give(const ServedHead& head, std::uint64_t count,
                                                     std::chrono::nanoseconds wall) {
  const std::int64_t now = head.layout.unit_of(wall);
  if (now < 0) {
    return Error(Errc::kUnavailable, "the server's clock stands before the layout's epoch");
  }
  const std::uint64_t values = std::uint64_t{1} << head.layout.sequence_bits();
  ServedState next = *this;
  if (now > next.time) next = {incarnation, now, 0};
  const std::uint64_t worker = head.layout.place_worker(head.worker);
  std::vector<std::uint64_t> ids;
  while (ids.size() < std::min(count, kMostServedIds)) {
    if (next.time < head.layout.last_unit() && next.used >= values) {
      next = {incarnation, next.time + 1, 0};
    }
    if (next.time > head.layout.last_unit() || next.used >= values) {
      return Error(Errc::kUnsupported,
                   "the layout's lifetime is over: go on in a namespace of another name");
    }
    ids.push_back(head.layout.pack(static_cast<std::uint64_t>(next.time), worker, next.used++));
  }
  const ClockPolicy& policy = head.policy;
  const bool logical = policy.back == ClockPolicy::Back::kLogical;
  const auto ahead = head.layout.spec().unit * (next.time - now);
  if (ahead > (logical ? policy.forward_at_most : policy.borrow_at_most)) {
    return Error(Errc::kUnavailable,
                 "the ids '" + head.name + "' are " + std::to_string(ahead.count()) +
                     " ms ahead of the server's clock: they come again when it has caught up");
  }
  *this = std::move(next);
  return ids;
}

}  // namespace holdfast::ids
