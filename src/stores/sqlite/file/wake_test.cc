#include "src/stores/sqlite/file/wake.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

#include "src/stores/sqlite/store_test_support.h"

namespace holdfast::stores::sqlite::testing {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<WakeSocket> open_socket(const std::string& database) {
  std::string why;
  auto socket = WakeSocket::open(database, why);
  EXPECT_TRUE(socket) << why;
  return socket;
}

bool readable(const WakeSocket& socket) {
  pollfd ready{socket.descriptor(), POLLIN, 0};
  return ::poll(&ready, 1, 2000) == 1;
}

std::string make_database(const std::string& path) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path).close();
  return path;
}

TEST(WakeTest, AnIdArrivesAtTheOneItWasSentTo) {
  const TempFolder folder;
  const std::string database = make_database(folder / "locks.db");
  const auto one = open_socket(database);
  const auto two = open_socket(database);
  EXPECT_TRUE(one->send(two->name(), {7, 8}));
  EXPECT_TRUE(one->send(two->name(), {9, 10}));
  ASSERT_TRUE(readable(*two));
  EXPECT_EQ(two->drain(), (std::vector<AcquisitionId>{{7, 8}, {9, 10}}));
  EXPECT_TRUE(one->drain().empty());
}

TEST(WakeTest, AFolderOfAnyLengthWillDo) {
  const TempFolder folder;
  // Built without operator+: gcc 12 misjudges it with the sanitizers on.
  std::string path(100, 'a');
  path.append("/").append(200, 'b').append("/locks.db");
  const std::string database = make_database(folder / path);
  const auto one = open_socket(database);
  const auto two = open_socket(database);
  EXPECT_TRUE(one->send(two->name(), {1, 2}));
  EXPECT_TRUE(readable(*two));
}

TEST(WakeTest, NamesThatAreNoneOfOursAreNotSentTo) {
  const TempFolder folder;
  const auto socket = open_socket(make_database(folder / "locks.db"));
  for (const char* name : {"", "../../../etc/x", "0123456789abcdeg", "0123456789abcdef0"}) {
    EXPECT_FALSE(socket->send(name, {1, 2})) << name;
  }
  EXPECT_FALSE(socket->send("0123456789abcdef", {1, 2})) << "nobody is there";
}

TEST(WakeTest, ForgedDatagramsAreDropped) {
  const TempFolder folder;
  const std::string database = make_database(folder / "locks.db");
  const auto socket = open_socket(database);
  const int forger = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = WakeSocket::folder_of(database) + "/" + socket->name();
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  for (const std::string& text : {std::string(), std::string("x"), std::string(24, 'x'),
                                  std::string(5000, 'x'), std::string("HFW1")}) {
    ::sendto(forger, text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&address),
             sizeof address);
  }
  ::close(forger);
  ASSERT_TRUE(readable(*socket));
  EXPECT_TRUE(socket->drain().empty());
}

TEST(WakeTest, TheSocketsFileGoesWithItAndHasTheRightsOfTheDatabase) {
  const TempFolder folder;
  const std::string database = make_database(folder / "locks.db");
  ASSERT_EQ(::chmod(database.c_str(), 0660), 0);
  auto socket = open_socket(database);
  const std::string path = WakeSocket::folder_of(database) + "/" + socket->name();
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0660U);
  ASSERT_EQ(::stat(WakeSocket::folder_of(database).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0770U);
  socket.reset();
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace holdfast::stores::sqlite::testing
