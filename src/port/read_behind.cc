#include "src/port/read_behind.h"

#include <memory>
#include <optional>
#include <utility>

namespace holdfast::port {
namespace {

using Both = Store::StateAndValue;

Result<Both> both_of(const Result<AcquisitionState>& state, const Result<std::string>& value) {
  if (!state) return state.error();
  if (!is_there(*state)) return Both{*state, {}};
  if (!value) return Error(Errc::kOutcomeUnknown, "acquired, but: " + value.error().message());
  return Both{*state, *value};
}

void read_for(const Result<AcquisitionState>& state, const ReadCall& read, Done<Both> done) {
  if (!state || !is_there(*state)) return done(both_of(state, std::string()));
  read([state, done = std::move(done)](const Result<std::string>& value) {
    done(both_of(state, value));
  });
}

}  // namespace

void acquire_then_read(const AcquireCall& acquire, ReadCall read, Done<Both> done) {
  acquire([read = std::move(read), done = std::move(done)](const Result<AcquisitionState>& state) {
    read_for(state, read, done);
  });
}

void acquire_and_read_behind(const AcquireCall& acquire, const ReadCall& read, Done<Both> done) {
  struct Answers {
    std::optional<Result<AcquisitionState>> state;
    bool read_early = false;
  };
  const auto answers = std::make_shared<Answers>();
  acquire([answers, read, done](const Result<AcquisitionState>& state) {
    if (answers->read_early) return read_for(state, read, done);
    answers->state = state;
  });
  read([answers, done = std::move(done)](const Result<std::string>& value) {
    if (answers->state) return done(both_of(*answers->state, value));
    answers->read_early = true;
  });
}

}  // namespace holdfast::port
