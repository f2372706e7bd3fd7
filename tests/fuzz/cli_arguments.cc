// The arguments of each command, a line each.

#include "src/cli/options/options.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::cli_arguments {
namespace {

void check(const Result<void>& parsed) {
  if (parsed) return;
  demand(parsed.error().code() == Errc::kInvalidArgument, "arguments are refused as invalid");
  demand(!parsed.error().message().empty(), "with a reason");
}

void check_lock(const cli::LockOptions& lock) {
  demand(!lock.name.empty(), "a lock has a name");
  demand(!lock.ttl || lock.ttl->count() > 0, "a lease has a length");
  demand(!lock.max_hold || lock.max_hold->count() > 0, "so has a hold");
  demand(!lock.wait || lock.wait->count() >= 0, "and a wait");
  demand(lock.mode.count() <= lock.mode.capacity(), "n is at most N");
}

void check_store(const cli::Arguments& arguments) {
  cli::StoreOptions store;
  const auto parsed = cli::parse_store(arguments, store);
  check(parsed);
  if (!parsed || store.common.help) return;
  demand(!store.print_sql || !store.common.json, "SQL is no JSON");
}

void check_failover(const cli::Arguments& arguments) {
  cli::FailoverOptions failover;
  const auto parsed = cli::parse_failover(arguments, failover);
  check(parsed);
  if (!parsed || failover.common.help) return;
  demand(failover.place <= 9, "a place is a number of one digit");
}

}  // namespace

void run(std::string_view input) {
  Input lines(input);
  const std::uint8_t which = lines.byte();
  cli::Arguments arguments;
  while (!lines.empty() && arguments.size() < 64) {
    // As the program gets them from main(): they end at a NUL.
    arguments.emplace_back(std::string(lines.line()).c_str());
  }
  switch (which % 8) {
    case 0: {
      cli::RunOptions run;
      const auto parsed = cli::parse_run(arguments, run);
      check(parsed);
      if (!parsed || run.common.help) return;
      check_lock(run.lock);
      demand(!run.command.empty(), "there is a command to run");
      demand(!run.exit_lost || (*run.exit_lost >= 1 && *run.exit_lost <= 255), "a status is one");
      return;
    }
    case 1:
    case 2: {
      cli::HoldOptions hold;
      const auto parsed = cli::parse_hold(which % 8 == 1 ? "hold" : "acquire", arguments, hold);
      check(parsed);
      if (parsed && !hold.common.help) check_lock(hold.lock);
      return;
    }
    case 3: {
      cli::LeaseOptions lease;
      return check(cli::parse_lease("renew", arguments, lease));
    }
    case 4: {
      cli::LookOptions look;
      check(cli::parse_look("watch", arguments, look));
      cli::TopOptions top;
      const auto parsed = cli::parse_top(arguments, top);
      check(parsed);
      if (parsed && !top.common.help) {
        demand(top.interval >= cli::Duration(100), "it does not look all the time");
      }
      return;
    }
    case 5: {
      cli::BreakOptions options;
      check(cli::parse_break(arguments, options));
      cli::ElectOptions elect;
      const auto parsed = cli::parse_elect(arguments, elect);
      check(parsed);
      if (!parsed || elect.run.common.help) return;
      check_lock(elect.run.lock);
      demand(elect.observe == elect.run.command.empty(), "it observes or runs a command");
      return;
    }
    case 6: {
      check_store(arguments);
      check_failover(arguments);
      cli::DoctorOptions doctor;
      return check(cli::parse_doctor(arguments, doctor));
    }
    default: {
      cli::BenchOptions bench;
      const auto parsed = cli::parse_bench(arguments, bench);
      check(parsed);
      if (parsed && !bench.common.help) {
        demand(bench.in_flight > 0 && bench.names > 0, "there is something to measure");
      }
    }
  }
}

}  // namespace holdfast::fuzz::cli_arguments

HOLDFAST_FUZZ_TARGET(cli_arguments)
