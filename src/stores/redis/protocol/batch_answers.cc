#include "src/stores/redis/protocol/batch_answers.h"

#include <cstddef>
#include <string>
#include <utility>

#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/fields.h"

namespace holdfast::stores::redis {

Result<port::Store::Grants> acquire_all_answer(const Reply& reply,
                                               const std::vector<port::AcquireRequest>& requests) {
  if (reply.kind != Reply::Kind::kArray) {
    Fields fields(reply.text);
    const auto number = fields.number<std::size_t>();
    if (!fields.good() || number == 0 || number > requests.size()) return no_answer(reply.text);
    const auto state = acquire_answer(fields.rest(), requests[number - 1]);
    if (!state) return state.error();
    // This acquisition waits, is gone, or belongs to another client.
    if (state->status == port::AcquisitionStatus::kHeld) return no_answer(reply.text);
    return port::Store::Grants();
  }
  if (reply.items.size() != requests.size()) return no_answer("not one grant for each lock");
  std::vector<port::AcquisitionState> held;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto state = acquire_answer(reply.items[i].text, requests[i]);
    if (!state) return state.error();
    if (state->status != port::AcquisitionStatus::kHeld) return no_answer(reply.items[i].text);
    held.push_back(*std::move(state));
  }
  return port::Store::Grants(std::move(held));
}

Result<port::Store::StateAndValue> acquire_and_read_answer(const Reply& state, const Reply& value,
                                                           const port::AcquireRequest& request) {
  const auto acquired = acquire_answer(state.text, request);
  if (!acquired) return acquired.error();
  if (value.is_error()) return Error(Errc::kOutcomeUnknown, "acquired, but: " + value.text);
  return port::Store::StateAndValue{*acquired, value.text};
}

Result<std::vector<Result<port::EndStatus>>> end_all_answer(
    const Reply& reply, const std::vector<port::AcquisitionRequest>& requests) {
  const bool alone = requests.size() == 1 && reply.kind != Reply::Kind::kArray;
  if (!alone && reply.items.size() != requests.size()) {
    return no_answer("not one answer for each lock");
  }
  std::vector<Result<port::EndStatus>> ends;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Reply& own = alone ? reply : reply.items[i];
    const std::string& name = requests[i].name;
    ends.push_back(own.is_error()
                       ? Result<port::EndStatus>(failed_answer("error " + own.text, name))
                       : end_answer(own.text, name));
  }
  return ends;
}

}  // namespace holdfast::stores::redis
