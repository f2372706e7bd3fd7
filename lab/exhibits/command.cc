#include "lab/exhibits/command.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iomanip>
#include <ostream>
#include <stdexcept>
#include <string_view>

#include "lab/exhibits/exhibits.h"
#include "lab/exhibits/steps.h"
#include "lab/report/report.h"
#include "lab/report/utf8.h"

namespace holdfast::lab {
namespace {

// Scripts depend on milliseconds, so a pause of the machine spoils a performance, which is then
// repeated.
constexpr int kPerformances = 3;
constexpr int kName = 27;
constexpr int kWrong = 65;
constexpr int kClassWidth = 14;

const Exhibit* find(std::string_view name) {
  const auto& all = exhibits();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Exhibit& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

using Chosen = std::vector<const Exhibit*>;

std::string words_of(const Expectations& expected) {
  std::string words;
  for (std::size_t i = 0; i < kClasses; ++i) {
    if (expected[i] != Expected::kMust) continue;
    words += (words.empty() ? "" : ", ") + std::string(name_of(static_cast<Class>(i)));
  }
  return words.empty() ? "-" : words;
}

std::string expected_of(const Exhibit& exhibit) {
  return exhibit.ids ? "duplicates" : words_of(exhibit.mistake);
}

std::string words_of(const Verdict& verdict) {
  std::string words;
  for (std::size_t i = 0; i < kClasses; ++i) {
    if (verdict.counts[i] == 0) continue;
    words += (words.empty() ? "" : ", ") + std::string(name_of(static_cast<Class>(i)));
  }
  return words.empty() ? "clean" : words;
}

std::string seen_of(const Exhibit& exhibit, const Performance& performance) {
  if (exhibit.ids) {
    const std::size_t found = performance.ids.duplicates();
    if (found == 0) return "unique";
    return std::to_string(found) + (found == 1 ? " duplicate" : " duplicates");
  }
  if (!exhibit.tally) return words_of(performance.verdict);
  const Tally& tally = performance.tally;
  return std::to_string(tally.failed) + " of " + std::to_string(tally.requests);
}

std::string in_seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", seconds);
  return text;
}

void print_row(std::ostream& out, std::string_view name, std::string_view wrong,
               std::string_view expected, std::string_view seen, std::string_view beside,
               std::string_view seconds) {
  out << std::left << std::setw(kName) << name << std::setw(kWrong) << wrong
      << std::setw(kClassWidth) << expected << std::setw(kClassWidth) << seen
      << std::setw(kClassWidth) << beside << std::right << std::setw(7) << seconds << "\n";
}

class Show {
 public:
  Show(const ExhibitsOrders& orders, Chosen chosen, std::ostream& out,
       const std::function<bool()>& interrupted)
      : orders_(orders), chosen_(std::move(chosen)), out_(out), interrupted_(interrupted) {}

  bool run() {
    if (orders_.steps) {
      steps();
      return missed_ == 0;
    }
    print_row(out_, "exhibit", "what goes wrong", "expected", "seen", "Holdfast", "s");
    for (const Exhibit* exhibit : chosen_) {
      if (const auto why_not = exhibit->why_not()) {
        print_row(out_, exhibit->name, "not played: " + *why_not, "-", "-", "-", "-");
        ++left_out_;
        continue;
      }
      show(*exhibit);
      if (interrupted_()) return false;
    }
    std::size_t beside = 0;
    for (const Exhibit* exhibit : chosen_) beside += exhibit->beside && !exhibit->why_not() ? 1 : 0;
    out_ << "\n"
         << chosen_.size() - left_out_ - missed_ << " of " << chosen_.size()
         << " caught; Holdfast in " << beside
         << " of the same scripts: " << (broken_ == 0 ? "as promised" : "NOT AS PROMISED") << "\n";
    return missed_ + broken_ == 0;
  }

 private:
  // Prints only the steps of the mistakes, which a page of the docs quotes.
  void steps() {
    for (const Exhibit* exhibit : chosen_) {
      const Performance mistake = played(*exhibit, /*beside=*/false);
      if (interrupted_()) return;
      if (!mistake.as_expected) ++missed_;
      print(mistake);
    }
  }

  void print(const Performance& performance) {
    print_steps(performance.history, performance.verdict, performance.names, out_);
    performance.ids.print(out_);
  }

  Performance played(const Exhibit& exhibit, bool beside) {
    Performance last;
    for (int i = 0; i < kPerformances && !last.as_expected && !interrupted_(); ++i) {
      last = perform(exhibit, house_, beside);
    }
    report(exhibit, last, beside);
    return last;
  }

  void show(const Exhibit& exhibit) {
    const Performance mistake = played(exhibit, /*beside=*/false);
    if (interrupted_()) return;  // Then there may be no verdict.
    double seconds = mistake.seconds;
    std::string beside = "-";
    std::string wrong = mistake.as_expected ? "" : " MISSED";
    if (!mistake.as_expected) ++missed_;
    Performance ours;
    if (exhibit.beside) {
      ours = played(exhibit, /*beside=*/true);
      if (interrupted_()) return;
      seconds += ours.seconds;
      beside = seen_of(exhibit, ours);
      if (ours.as_expected && !ours.verdict.clean()) beside += " (declared)";
      if (!ours.as_expected) {
        wrong += " HOLDFAST";
        ++broken_;
      }
    }
    print_row(out_, exhibit.name, exhibit.wrong, expected_of(exhibit), seen_of(exhibit, mistake),
              beside, in_seconds(seconds) + wrong);
    out_.flush();
    if (chosen_.size() == 1) {
      out_ << "\n";
      for (const std::string& line : wrapped(exhibit.story, 100)) out_ << line << "\n";
      if (!exhibit.tally) out_ << "\n";
      print(mistake);
      if (exhibit.beside && exhibit.tally) {
        out_ << "\nFailed attempts: " << seen_of(exhibit, mistake) << ", with Holdfast " << beside
             << ".\n";
      } else if (exhibit.beside) {
        out_ << "\nHoldfast in the same script:\n";
        print(ours);
      } else {
        out_ << "\nNot played with Holdfast: " << exhibit.alone << ".\n";
      }
    }
    if (!mistake.as_expected) tell(mistake);
    if (exhibit.beside && !ours.as_expected) tell(ours);
  }

  void tell(const Performance& performance) {
    for (const Violation& violation : performance.verdict.violations) {
      out_ << "  " << name_of(violation.kind) << ": " << violation.message << "\n";
    }
  }

  void report(const Exhibit& exhibit, const Performance& performance, bool beside) {
    if (orders_.out.empty() || exhibit.tally || exhibit.ids) return;
    const std::string name = std::string(exhibit.name) + (beside ? "-holdfast" : "");
    const std::string folder = orders_.out + "/" + name;
    std::filesystem::create_directories(folder);
    RunFacts facts;
    facts.scenario = name;
    facts.store = exhibit.store;
    facts.version = house_.redis_version();
    facts.holdfast = HOLDFAST_VERSION;
    facts.duration_ns = static_cast<std::int64_t>(performance.seconds * 1e9);
    facts.replay = "holdfast-lab exhibits " + std::string(exhibit.name);
    facts.expected = beside ? *exhibit.beside : exhibit.mistake;
    facts.processes = performance.names;
    const Result<void> written =
        write_report(folder, {facts, performance.history, performance.verdict});
    if (!written) throw std::runtime_error(written.error().message());
  }

  const ExhibitsOrders& orders_;
  const Chosen chosen_;
  std::ostream& out_;
  const std::function<bool()>& interrupted_;
  House house_;
  std::size_t missed_ = 0;
  std::size_t left_out_ = 0;
  std::size_t broken_ = 0;
};

}  // namespace

int run_exhibits(const ExhibitsOrders& orders, std::ostream& out, std::ostream& err,
                 const std::function<bool()>& interrupted) {
  Chosen chosen;
  for (const std::string& name : orders.names) {
    chosen.push_back(find(name));
    if (chosen.back() != nullptr) continue;
    err << "holdfast-lab: there is no exhibit '" << name
        << "'; see: holdfast-lab exhibits --list\n";
    return 2;
  }
  try {
    if (orders.list) {
      for (const Exhibit& one : exhibits()) {
        out << std::left << std::setw(kName) << one.name << one.wrong << "\n";
      }
      out.flush();
      return out ? 0 : 125;
    }
    if (const auto why_not = support::RedisServer::unavailable()) {
      throw std::runtime_error("no Redis: " + *why_not);
    }
    for (const Exhibit* one : chosen) {
      if (const auto why_not = one->why_not()) throw std::runtime_error(*why_not);
    }
    if (chosen.empty()) {
      for (const Exhibit& one : exhibits()) chosen.push_back(&one);
    }
    const bool fine = Show(orders, std::move(chosen), out, interrupted).run();
    out.flush();
    if (!out) throw std::runtime_error("standard output cannot be written");
    return fine ? 0 : 1;
  } catch (const std::exception& problem) {
    err << "holdfast-lab: " << problem.what() << "\n";
    return 125;
  }
}

}  // namespace holdfast::lab
