// A client, and what its log says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/client.h"

namespace holdfast::faults {

// Thread-safety: what it was told may be asked from any thread.
class Listener {
 public:
  explicit Listener(const std::string& url) : client_(connect(url)) {}
  const Client& client() const { return client_; }

  // How many lines have that text.
  std::ptrdiff_t told(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  }

  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  Client connect(const std::string& url) {
    ClientOptions options;
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
    auto client = Client::connect(url, std::move(options));
    if (!client) throw std::runtime_error(client.error().message());
    return *std::move(client);
  }

  std::mutex mutex_;
  std::vector<std::string> lines_;
  Client client_;  // The last: its end is the end of what it tells.
};

}  // namespace holdfast::faults
