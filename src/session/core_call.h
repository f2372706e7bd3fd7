// Counts a call of the user that is under way in the core.
#pragma once

#include "src/session/core.h"

namespace holdfast::session {

class Core::Call {
 public:
  explicit Call(Core& core);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // kClosed after close() or in a forked child: then the core must not be touched.
  const Result<void>& alive() const { return alive_; }

 private:
  Core& core_;
  Result<void> alive_;
};

}  // namespace holdfast::session
