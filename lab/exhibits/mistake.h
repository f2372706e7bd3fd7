// The frame around a mistake, so that each one consists only of code that people write.
//
// A mistake is a Subject whose lock has one try (take) and one release (give_back). It waits by
// retrying. Unless this is its mistake, it counts its lease correctly: from before the request.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lab/subject/subject.h"

namespace holdfast::lab {

struct Held {
  std::string name;
  std::string value;  // Unique to this acquisition.
  Token token{};
  std::int64_t deadline_ns = 0;  // The end of the owner's belief.
};

class Mistake : public Subject {
 public:
  explicit Mistake(const SubjectSetup& setup) : passes_(setup.passes) {}

  Acquired acquire(const Ask& ask, Listener& listener) final;

  // On entry the deadline is counted from now.
  virtual bool take(const Ask& ask, Held& held) = 0;
  // Whether the store confirmed that the lock was held.
  virtual bool give_back(const Held& held) = 0;

 protected:
  // Where a script may stop or kill the process.
  void passes(std::string_view point) { passes_(point); }

 private:
  std::function<void(std::string_view)> passes_;
};

// Makes a SubjectKind from a class whose constructor takes the setup and `more`.
template <typename Subject, typename... More>
SubjectKind mistake(const std::string& name, const std::string& about, More... more) {
  return {name, about, [more...](const SubjectSetup& setup) {
            return std::make_unique<Subject>(setup, more...);
          }};
}

std::string in_ms(std::chrono::milliseconds span);

}  // namespace holdfast::lab
