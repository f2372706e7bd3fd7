// One HTTP exchange that libcurl runs.
//
// Thread-safety: one thread. Ownership: a transfer owns its handle, and is reused, because setting
// one up costs more than a small request.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include <curl/curl.h>

#include "src/stores/consul/transport/http.h"

namespace holdfast::stores::consul {

struct EasyDeleter {
  void operator()(CURL* easy) const noexcept { curl_easy_cleanup(easy); }
};
using EasyHandle = std::unique_ptr<CURL, EasyDeleter>;

// Once per process, before the first handle; false: libcurl cannot start.
bool start_curl();

class Transfer {
 public:
  explicit Transfer(std::shared_ptr<Agents> agents);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Prepares it for this request; false if memory is short.
  bool prepare(HttpRequest request);
  CURL* easy() const { return easy_.get(); }
  const HttpRequest& request() const { return request_; }
  // The result after libcurl has ended with `code`. Leaves an agent that failed.
  Result<HttpReply> outcome(CURLcode code);

 private:
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  static int on_request(void* self, char*, char*, int, int);
  void set_up_once();
  void set_up_tls();

  const std::shared_ptr<Agents> agents_;
  EasyHandle easy_;
  curl_slist* headers_ = nullptr;
  curl_slist* connect_to_ = nullptr;
  HttpRequest request_;
  HttpReply reply_;
  std::array<char, CURL_ERROR_SIZE> why_{};
  std::size_t agent_ = 0;
  std::size_t memory_ = 0;  // The memory of the answer received so far.
  int sent_ = 0;            // How often sending began.
};

}  // namespace holdfast::stores::consul
