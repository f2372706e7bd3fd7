// Holdfast's own driver of `make bench-peers-ids`. The flags and the line it prints are described
// in bench/peers/README.md.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "bench/slow_records.h"
#include "holdfast/ids/layout.h"
#include "holdfast/ids/snowflake.h"

namespace {

using holdfast::ids::Id;
using holdfast::ids::Layout;
using holdfast::ids::Snowflake;
using holdfast::ids::SnowflakeBlock;
using Clock = std::chrono::steady_clock;

// One clock reading for so many ids, so that it weighs little.
constexpr int kBatch = 1'024;
constexpr const char* kWide = "time:41 sequence:22";

struct Flags {
  std::string generator = "twitter";
  double seconds = 3;
  double warmup = 0.3;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Counts times in buckets of at most 1/128 of their value.
class Histogram {
 public:
  void add(std::uint64_t nanoseconds) {
    const int shift = static_cast<int>(std::bit_width(nanoseconds)) - 8;
    ++counts_[shift <= 0 ? nanoseconds
                         : (static_cast<std::uint64_t>(shift) << 7) + (nanoseconds >> shift)];
    ++total_;
    longest_ = std::max(longest_, nanoseconds);
  }

  std::uint64_t at(double share) const {
    auto left = static_cast<std::uint64_t>(share * static_cast<double>(total_));
    for (std::uint64_t bucket = 0; bucket < counts_.size(); ++bucket) {
      if (left < counts_[bucket]) {
        return bucket < 256 ? bucket : ((bucket & 127) + 128) << ((bucket >> 7) - 1);
      }
      left -= counts_[bucket];
    }
    return longest_;
  }

  std::uint64_t longest() const { return longest_; }

 private:
  std::array<std::uint64_t, std::size_t{64} * 128> counts_{};
  std::uint64_t total_ = 0;
  std::uint64_t longest_ = 0;
};

struct Figures {
  double ids_per_s = 0;
  std::int64_t ahead_ms = 0;
  Histogram times;
};

// Asks as one thread does. An id that is not above the one before ends the comparison.
template <typename Source>
class Asking {
 public:
  Asking(Source& from, const Layout* layout) : from_(from), layout_(layout) {}

  Figures measure(const Flags& flags) {
    Figures figures;
    static_cast<void>(during(flags.warmup));
    figures.ids_per_s = during(flags.seconds);
    figures.ahead_ms = ahead_ms_;
    const auto begin = Clock::now();
    while (seconds_since(begin) < flags.seconds) {
      for (int i = 0; i < kBatch; ++i) {
        const auto before = Clock::now();
        const std::uint64_t id = number();
        const auto took = Clock::now() - before;
        figures.times.add(static_cast<std::uint64_t>(took.count()));
        check(id);
      }
    }
    return figures;
  }

 private:
  std::uint64_t number() {
    const auto id = from_.next();
    if (!id) throw std::runtime_error(id.error().message());
    return id->number();
  }

  void check(std::uint64_t id) {
    if (id <= last_) throw std::runtime_error("an id is not above the one before");
    last_ = id;
  }

  double during(double seconds) {
    const auto begin = Clock::now();
    for (std::uint64_t count = kBatch;; count += kBatch) {
      for (int i = 0; i < kBatch; ++i) check(number());
      look_ahead();
      const double took = seconds_since(begin);
      if (took >= seconds) return static_cast<double>(count) / took;
    }
  }

  void look_ahead() {
    if (layout_ == nullptr) return;
    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    const auto time = layout_->decode(Id::of(last_)).value().unix_time;
    ahead_ms_ = std::max<std::int64_t>(ahead_ms_, (time - now).count());
  }

  Source& from_;
  const Layout* const layout_;
  std::uint64_t last_ = 0;
  std::int64_t ahead_ms_ = 0;
};

// The median of an empty time: what reading the clock adds to each time.
std::uint64_t clock_ns() {
  Histogram times;
  for (int i = 0; i < 1'000'000; ++i) {
    const auto before = Clock::now();
    times.add(static_cast<std::uint64_t>((Clock::now() - before).count()));
  }
  return times.at(0.5);
}

void print(const Figures& figures, const Layout* layout) {
  // The bits alone, as the other drivers write them.
  std::string text = layout == nullptr ? "" : layout->to_string();
  text.erase(std::min(text.size(), text.find(" unit:1ms")));
  std::printf("{\"layout\": \"%s\", \"ids_per_s\": %.1f, ", text.c_str(), figures.ids_per_s);
  if (layout != nullptr) {
    std::printf("\"cap\": %.1f, \"ahead_ms\": %lld, ", layout->ids_per_second(),
                static_cast<long long>(figures.ahead_ms));
  }
  const auto at = [&](double share) {
    return static_cast<unsigned long long>(figures.times.at(share));
  };
  std::printf(
      "\"p50_ns\": %llu, \"p99_ns\": %llu, \"p9999_ns\": %llu, \"max_ns\": %llu, "
      "\"clock_ns\": %llu, \"refused\": 0, \"fell\": 0}\n",
      at(0.5), at(0.99), at(0.9999), static_cast<unsigned long long>(figures.times.longest()),
      static_cast<unsigned long long>(clock_ns()));
}

std::unique_ptr<Snowflake> make(const char* layout) {
  return Snowflake::make({.layout = Layout::parse(layout).value()}).value();
}

// Each thread has a block of its own. The rate is that of both, the times are the first one's.
Figures measure_blocks(Snowflake& from, const Flags& flags) {
  std::array<Figures, 2> figures;
  std::array<std::string, 2> failures;
  {
    std::array<std::jthread, 2> threads;
    for (std::size_t t = 0; t < threads.size(); ++t) {
      threads[t] = std::jthread([&, t] {
        try {
          SnowflakeBlock block(from, 4'096);
          figures[t] = Asking(block, &from.layout()).measure(flags);
        } catch (const std::exception& failure) {
          failures[t] = failure.what();
        }
      });
    }
  }
  for (const std::string& failure : failures) {
    if (!failure.empty()) throw std::runtime_error(failure);
  }
  figures[0].ids_per_s += figures[1].ids_per_s;
  figures[0].ahead_ms = std::max(figures[0].ahead_ms, figures[1].ahead_ms);
  return figures[0];
}

void run(const Flags& flags) {
  if (flags.generator == "segments") {
    const auto ids = holdfast::ids::open_slow_segments();
    if (ids == nullptr) throw std::runtime_error("no segments");
    return print(Asking(*ids, nullptr).measure(flags), nullptr);
  }
  const auto ids = make(flags.generator == "twitter" ? "twitter" : kWide);
  print(flags.generator == "blocks" ? measure_blocks(*ids, flags)
                                    : Asking(*ids, &ids->layout()).measure(flags),
        &ids->layout());
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Holdfast's driver of the comparison of id generators");
  app.add_option("--generator", flags.generator)
      ->check(CLI::IsMember({"twitter", "wide", "blocks", "segments"}));
  app.add_option("--seconds", flags.seconds);
  app.add_option("--warmup", flags.warmup);
  CLI11_PARSE(app, argc, argv);
  try {
    run(flags);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "ids peer holdfast: %s\n", failure.what());
    return 1;
  }
  return 0;
}
