// Tells a program of its client: lines for its log, and spans for its observer. Both come on the
// notifier's thread. Without a log or an observer nothing is made.
//
// Thread-safety: log() from any thread; what takes an acquisition, by who may change it.
#pragma once

#include <memory>
#include <string>

#include "holdfast/log_event.h"
#include "holdfast/options.h"
#include "src/session/acquisition.h"
#include "src/session/worker.h"

namespace holdfast::session {

class Reports {
 public:
  // Everything given outlives it.
  Reports(const ClientOptions& options, const std::string& store_url, Worker& notifier);

  LogEvent event(LogSeverity severity, const char* event, std::string text) const;
  LogEvent event(LogSeverity severity, const char* event, std::string text,
                 const Acquisition& acquisition, Errc error) const;
  void log(LogEvent event);

  // --- To the observer.
  void asked(Acquisition& acquisition);
  void queued(Acquisition& acquisition);
  void delayed(const Acquisition& acquisition, std::chrono::milliseconds opens_in);
  void granted(Acquisition& acquisition, BootInstant now);
  // nullptr in the answer: busy.
  void answered(const Acquisition& acquisition, const Result<std::shared_ptr<Acquisition>>& answer);
  void lost(Acquisition& acquisition, const Error& why);
  void ended(Acquisition& acquisition, HoldEnd how);
  struct Renewal {
    BootInstant planned{};
    BootInstant sent_at{};
    BootInstant answered_at{};
  };
  void renewed(const Acquisition& acquisition, const Renewal& times,
               const Result<port::AcquisitionState>& reply);

 private:
  SeenLock seen(const Acquisition& acquisition) const;
  void tell(ObserverFeed::News news);

  const ClientOptions& options_;
  const std::string& store_url_;
  Worker& notifier_;
  const std::shared_ptr<ObserverFeed> feed_;  // nullptr: nobody observes.
};

}  // namespace holdfast::session
