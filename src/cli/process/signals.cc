#include "src/cli/process/signals.h"

#include <sys/signalfd.h>

#include <cstring>

namespace holdfast::cli {

Signals::Signals() {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_before_);
  sigaction(SIGTTOU, &ignore, &ttou_before_);
  // A parent may have left SIGCHLD ignored: then children could not be waited for.
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &usual, nullptr);
  sigset_t all;
  sigfillset(&all);
  // A fault of our own must still be fatal at once.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
    sigdelset(&all, fault);
  }
  // An ignored signal must not be blocked: the kernel would keep it, and the descriptor would
  // report it.
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) {
      sigdelset(&all, signal);
    }
  }
  pthread_sigmask(SIG_BLOCK, &all, &before_);
  fd_.reset(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::optional<int> Signals::next() const {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

std::optional<int> Signals::next_ending() const {
  while (const auto signal = next()) {
    if (default_of(*signal) == SignalDefault::kStops) stop_self();
    if (default_of(*signal) == SignalDefault::kEnds) return signal;
  }
  return std::nullopt;
}

void Signals::discard(int signal) const {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  const timespec now{};
  while (sigtimedwait(&one, nullptr, &now) == signal) {
  }
}

bool Signals::has_come(int signal) {
  sigset_t waiting;
  return ::sigpending(&waiting) == 0 && sigismember(&waiting, signal) == 1;
}

void Signals::restore() const {
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  sigaction(SIGTTOU, &ttou_before_, nullptr);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::string signal_name(int signal) {
  if (const char* name = ::sigabbrev_np(signal)) return name;
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) return "RTMIN+" + std::to_string(signal - SIGRTMIN);
  return std::to_string(signal);
}

SignalDefault default_of(int signal) {
  switch (signal) {
    case SIGCHLD:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH: return SignalDefault::kNothing;
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU: return SignalDefault::kStops;
    default: return SignalDefault::kEnds;
  }
}

bool is_for_group(int signal) {
  switch (signal) {
    case SIGTERM:
    case SIGINT:
    case SIGQUIT:
    case SIGHUP:
    case SIGTSTP:
    case SIGCONT:
    case SIGWINCH: return true;
    default: return false;
  }
}

void stop_self() { ::kill(::getpid(), SIGSTOP); }

}  // namespace holdfast::cli
