// One connection whose caller waits for each answer: for records and counters.
//
// Thread-safety, blocking: as port::Records; asking includes connecting.
// Errors: as error_of(); a question that only reads is never kOutcomeUnknown.
#pragma once

#include <memory>
#include <string>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/sql/dialect.h"
#include "src/sql/link.h"

namespace holdfast::sql {

class BlockingLink {
 public:
  BlockingLink(std::unique_ptr<Dialect> dialect, Link::Settings settings)
      : dialect_(std::move(dialect)), settings_(std::move(settings)) {}

  // A statement that was refused for the sake of others is sent again.
  Result<RowsPtr> ask(const Request& request, base::BootInstant by, bool reads);
  // The answer as it comes, for callers who know its codes.
  Answer send(const Request& request, base::BootInstant by);
  // The next request has a connection of its own: another server may be the primary by now.
  void reset() { link_.reset(); }

  // Why an answered change may be lost; empty: it is not.
  Result<std::string> forgets(base::BootInstant by);
  Dialect& dialect() { return *dialect_; }
  const std::string& where() const { return dialect_->address(); }  // For messages.

 private:
  const std::unique_ptr<Dialect> dialect_;
  const Link::Settings settings_;
  std::unique_ptr<Link> link_;
};

}  // namespace holdfast::sql
