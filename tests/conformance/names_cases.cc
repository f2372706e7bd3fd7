// Different names are different locks, whatever they are written with.
#include <map>
#include <set>

#include "holdfast/detail/transient.h"
#include "tests/conformance/harness.h"

namespace holdfast::testing {
namespace {

std::vector<std::string> awkward_names() {
  std::vector<std::string> names{"{a}",
                                 "{a}b",
                                 "{}a",
                                 "a/b",
                                 "a//b",
                                 "a/b/",
                                 "/a/b",
                                 "a'b",
                                 "a''b",
                                 "a\"b",
                                 "a`b",
                                 "a\\b",
                                 "a\\\\b",
                                 "a%b",
                                 "a%25b",
                                 "a%2Fb",
                                 "a_b",
                                 "a*b",
                                 "a?b",
                                 "a[b]",
                                 "a;b",
                                 "a--b",
                                 "a b",
                                 " a b",
                                 "a b ",
                                 "a:b",
                                 "a|b",
                                 "a&b",
                                 "a=b",
                                 "a#b",
                                 "a~b",
                                 "$a",
                                 "${a}",
                                 "A/B",
                                 "a.b",
                                 ".",
                                 "-rf",
                                 "NULL",
                                 "0",
                                 "00",
                                 "\xC3\xA9",
                                 "e\xCC\x81",
                                 "\xF0\x9F\x94\x92",
                                 "\xE6\x97\xA5\xE6\x9C\xAC"};
  names.push_back(std::string(256, 'n'));
  names.push_back(std::string(255, 'n'));
  names.push_back(std::string(256, 'n'));
  names.back().back() = 'm';
  return names;
}

// The path of a file or of a URL would read these names differently.
const std::vector<std::string>& path_names() {
  static const std::vector<std::string> names{
      ".",   "..",   "...", ".a",   "..a",   "a.",     "a..",  "./",  "../",
      "./a", "../a", "a/.", "a/..", "a/./b", "a/../b", "a//b", "/",   "//",
      "/a",  "a/",   "a",   "a/b",  "%2E",   "%2E%2E", "%2e",  "./.", "../.."};
  return names;
}

// Own bounded draws: the same names on every machine.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9E37'79B9'7F4A'7C15U + 1) {}
  std::uint64_t below(std::uint64_t bound) {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return (state_ >> 11U) % bound;
  }

 private:
  std::uint64_t state_;
};

}  // namespace

TEST_P(NamesConformance, AwkwardNamesAreLocksOfTheirOwn) {
  HOLDFAST_NEEDS_MANY_LOCKS();
  const auto names = awkward_names();
  for (const auto& name : names) {
    ASSERT_TRUE(holds(client().acquire(Request(name, fresh()).no_wait()))) << name;
  }
  for (const auto& name : names) {
    EXPECT_TRUE(is_busy(client("bob").acquire(Request(name, fresh()).no_wait()))) << name;
    const auto info = client("bob").inspect(name);
    ASSERT_TRUE(info && *info) << name;
    EXPECT_EQ((*info)->name, name);
  }
  if (!promised().list) return;
  const auto listed = client().list("", 1000);
  ASSERT_TRUE(listed);
  std::set<std::string> found;
  for (const LockInfo& lock : *listed) found.insert(lock.name);
  EXPECT_EQ(found, std::set<std::string>(names.begin(), names.end()));
}

TEST_P(NamesConformance, NamesLikePathsAreHeldWaitedForAndHandedOn) {
  HOLDFAST_NEEDS(site_->shows_holders(), "no inspect");
  for (const std::string& name : path_names()) {
    SCOPED_TRACE("name '" + name + "'");
    const auto holder = fresh();
    const auto waiter = fresh();
    const auto grant = client().acquire({name, holder});
    ASSERT_TRUE(holds(grant));
    EXPECT_TRUE(is_busy(client("bob").acquire(Request(name, fresh()).no_wait())));
    ASSERT_TRUE(waits(client("bob").acquire({name, waiter})));
    if (promised().values) {
      ASSERT_TRUE(client().set_value(name, holder, "of " + name));
      const auto value = client("bob").get_value(name);
      ASSERT_TRUE(value) << value.error().message();
      EXPECT_EQ(*value, "of " + name);
    }
    const auto info = client("bob").inspect(name);
    ASSERT_TRUE(info && *info);
    EXPECT_EQ((*info)->holders.size(), 1U);
    EXPECT_EQ((*info)->waiters.size(), site_->shows_waiters() ? 1U : 0U);
    ASSERT_TRUE(ends(client().release(name, holder), EndStatus::kReleased));
    EXPECT_TRUE(client("bob").inbox().next(waiter));
    const auto next = client("bob").renew(name, waiter, 1);
    ASSERT_TRUE(holds(next));
    EXPECT_GT(next->token, grant->token);
    ASSERT_TRUE(ends(client("bob").release(name, waiter), EndStatus::kReleased));
  }
}

TEST_P(NamesConformance, ABreakTakesOneNameAndLeavesThoseThatLookLikeIt) {
  HOLDFAST_NEEDS_OWN_FORM();
  std::map<std::string, std::pair<AcquisitionId, Token>> held;
  for (const std::string& name : path_names()) {
    const auto id = fresh();
    const auto grant = client().acquire({name, id});
    ASSERT_TRUE(holds(grant)) << name;
    held[name] = {id, grant->token};
  }
  for (const std::string name : {"%2E", ".", "a/./b", "/"}) {
    SCOPED_TRACE("broken: '" + name + "'");
    const auto ticket = held.at(name);
    held.erase(name);
    ASSERT_TRUE(client("bob").break_lock(name, ticket.second, "a trial"));
    if (site_->tells_broken_holders()) {
      EXPECT_TRUE(client().inbox().next(ticket.first));
    }
    EXPECT_TRUE(is_gone(client().renew(name, ticket.first, 100)));
    // A client that was told of a break looks at all that it holds.
    const std::uint64_t seq = path_names().size() - held.size();
    for (const auto& [other, its] : held) {
      EXPECT_EQ(client().inbox().count(its.first), 0U) << other;
      ASSERT_TRUE(holds(client().renew(other, its.first, seq))) << other;
    }
  }
}

TEST_P(NamesConformance, APrefixLikeAPathFindsWhatBeginsWithIt) {
  HOLDFAST_NEEDS(promised().list, "no list");
  for (const std::string& name : path_names()) {
    ASSERT_TRUE(holds(client().acquire({name, fresh()}))) << name;
  }
  for (const char* prefix : {".", "..", "...", "./", "../", "/", "//", "a/", "a/.", "a/..", "a/./",
                             "a//", "%2E", "b", "b/.", ""}) {
    std::set<std::string> expected;
    for (const std::string& name : path_names()) {
      if (name.starts_with(prefix)) expected.insert(name);
    }
    const auto listed = client("bob").list(prefix);
    ASSERT_TRUE(listed) << prefix << ": " << listed.error().message();
    std::set<std::string> found;
    for (const LockInfo& lock : *listed) found.insert(lock.name);
    EXPECT_EQ(found, expected) << "prefix '" << prefix << "'";
  }
}

TEST_P(NamesConformance, APrefixIsTextAndNotAPattern) {
  HOLDFAST_NEEDS(promised().list, "no list");
  for (const char* name : {"a%b", "axb", "a_b", "a*", "ab", "a[x]"}) {
    ASSERT_TRUE(holds(client().acquire({name, fresh()})));
  }
  const std::vector<std::pair<std::string, std::size_t>> prefixes{
      {"a%", 1}, {"a_", 1}, {"a*", 1}, {"a[", 1}, {"a?", 0}, {"a", 6}, {"", 6}};
  for (const auto& [prefix, count] : prefixes) {
    const auto listed = client().list(prefix);
    ASSERT_TRUE(listed);
    EXPECT_EQ(listed->size(), count) << prefix;
  }
  // No name begins in this way, so a store may say so.
  const auto none = client().list("a\xFF");
  if (none) {
    EXPECT_TRUE(none->empty());
  } else {
    EXPECT_FALSE(detail::is_transient(none.error().code())) << none.error().message();
  }
}

TEST_P(NamesConformance, ListingAPrefixOfTheHighestBytesWorks) {
  HOLDFAST_NEEDS(promised().list, "no list");
  const std::string high = "\xF4\x8F\xBF\xBF";
  ASSERT_TRUE(holds(client().acquire({high, fresh()})));
  ASSERT_TRUE(holds(client().acquire({high + high, fresh()})));
  const auto listed = client().list(high);
  ASSERT_TRUE(listed);
  EXPECT_EQ(listed->size(), 2U);
}

// Names over a small, nasty alphabet, so that any careless escaping makes two of them meet.
TEST_P(NamesConformance, DistinctNamesStayDistinct) {
  HOLDFAST_NEEDS_MANY_LOCKS();
  const std::vector<std::string> letters{"a", "A", "%",  "/", "'", "\"", "{",
                                         "}", "_", "\\", " ", "2", "5",  "\xC3\xA9"};
  std::uint64_t seed = 20'261'121;
  if (const char* given = std::getenv("HOLDFAST_NAMES_SEED")) seed = std::stoull(given);
  SCOPED_TRACE("replay: HOLDFAST_NAMES_SEED=" + std::to_string(seed));
  Dice dice(seed);
  std::set<std::string> taken;
  for (int i = 0; i < 400; ++i) {
    std::string name;
    const auto length = 1 + dice.below(5);
    for (std::uint64_t k = 0; k < length; ++k) name += letters[dice.below(letters.size())];
    const auto asked = client().acquire(Request(name, fresh()).no_wait());
    const bool is_new = taken.insert(name).second;
    ASSERT_TRUE(is_new ? holds(asked) : is_busy(asked)) << "name '" << name << "'";
  }
}

}  // namespace holdfast::testing
