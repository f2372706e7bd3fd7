#include "src/stores/consul/transport/transfer.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "src/port/answer_limit.h"
#include "src/stores/consul/transport/messages.h"

namespace holdfast::stores::consul {
namespace {

constexpr std::string_view kIndexHeader = "x-consul-index:";

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// Child programs must not inherit the socket.
curl_socket_t open_socket(void*, curlsocktype, curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

bool is_trust(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_SSL_CERTPROBLEM;
}

}  // namespace

bool start_curl() {
  static const bool started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return started;
}

Transfer::Transfer(std::shared_ptr<Agents> agents) : agents_(std::move(agents)) {
  easy_.reset(curl_easy_init());
  if (easy_ != nullptr) set_up_once();
}

Transfer::~Transfer() {
  // The handle first, because it points to the lists.
  easy_.reset();
  curl_slist_free_all(headers_);
  curl_slist_free_all(connect_to_);
}

void Transfer::set_up_once() {
  CURL* const easy = easy_.get();
  const ConsulAddress& address = agents_->address();
  if (!address.token.empty()) {
    headers_ = curl_slist_append(headers_, ("X-Consul-Token: " + address.token).c_str());
  }
  headers_ = curl_slist_append(headers_, "Expect:");
  headers_ = curl_slist_append(headers_, "Content-Type: application/json");
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "holdfast");
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(address.connect_timeout.count()));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, &Transfer::on_request);
  curl_easy_setopt(easy, CURLOPT_PREREQDATA, this);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &open_socket);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why_.data());
  if (address.tls) set_up_tls();
}

void Transfer::set_up_tls() {
  CURL* const easy = easy_.get();
  const port::TlsPaths& paths = agents_->address().tls_paths;
  if (!paths.ca.empty()) {
    const bool folder = is_folder(paths.ca);
    // If the URL names a CA, the system's trusted certificates do not count.
    curl_easy_setopt(easy, CURLOPT_CAINFO, folder ? nullptr : paths.ca.c_str());
    curl_easy_setopt(easy, CURLOPT_CAPATH, folder ? paths.ca.c_str() : nullptr);
  }
  if (!paths.cert.empty()) {
    curl_easy_setopt(easy, CURLOPT_SSLCERT, paths.cert.c_str());
    curl_easy_setopt(easy, CURLOPT_SSLKEY, paths.key.c_str());
  }
}

bool Transfer::prepare(HttpRequest request) {
  CURL* const easy = easy_.get();
  if (easy == nullptr) return false;
  request_ = std::move(request);
  reply_ = {};
  memory_ = 0;
  sent_ = 0;
  why_[0] = '\0';
  agent_ = agents_->current();
  curl_easy_setopt(easy, CURLOPT_URL, agents_->url(agent_, request_.target).c_str());
  const std::string& connect_to = agents_->connect_to(agent_);
  curl_slist_free_all(std::exchange(connect_to_, nullptr));
  if (!connect_to.empty()) connect_to_ = curl_slist_append(nullptr, connect_to.c_str());
  curl_easy_setopt(easy, CURLOPT_CONNECT_TO, connect_to_);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS,
                   static_cast<long>(std::max<std::int64_t>(1, request_.limit.count())));
  switch (request_.method) {
    case HttpRequest::Method::kGet:
      curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
      curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, nullptr);
      return true;
    case HttpRequest::Method::kPut:
    case HttpRequest::Method::kDelete:
      curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(request_.body.size()));
      curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request_.body.c_str());
      curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST,
                       request_.method == HttpRequest::Method::kPut ? "PUT" : "DELETE");
      return true;
  }
  return false;
}

std::size_t Transfer::on_body(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::size_t bytes = size * count;
  transfer.memory_ += memory_to_read({data, bytes});
  if (transfer.memory_ > port::kMostAnswerMemory) return 0;
  transfer.reply_.body.append(data, bytes);
  return bytes;
}

std::size_t Transfer::on_header(char* data, std::size_t size, std::size_t count, void* self) {
  std::string_view line(data, size * count);
  if (line.size() <= kIndexHeader.size()) return line.size();
  const bool ours =
      std::equal(kIndexHeader.begin(), kIndexHeader.end(), line.begin(),
                 [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 32 : b); });
  if (!ours) return line.size();
  std::string_view value = line.substr(kIndexHeader.size());
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  std::uint64_t index = 0;
  std::from_chars(value.data(), value.data() + value.size(), index);
  static_cast<Transfer*>(self)->reply_.index = index;
  return line.size();
}

int Transfer::on_request(void* self, char*, char*, int, int) {
  auto& transfer = *static_cast<Transfer*>(self);
  // libcurl sends again where a connection it kept turns out dead, whatever was sent on it.
  const bool again = transfer.sent_++ > 0;
  return again && !transfer.request_.reads ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

Result<HttpReply> Transfer::outcome(CURLcode code) {
  if (code == CURLE_OK) {
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    reply_.status = static_cast<int>(status);
    return std::move(reply_);
  }
  agents_->leave(agent_);
  const std::string where = "Consul at " + agents_->address().hosts[agent_].text();
  if (memory_ > port::kMostAnswerMemory) {
    return Error(Errc::kCorruptState, where + port::kAnswerTooLarge);
  }
  std::string why = why_[0] != '\0' ? why_.data() : curl_easy_strerror(code);
  // libcurl only says "couldn't connect"; the errno has the reason.
  long system = 0;
  if (code == CURLE_COULDNT_CONNECT &&
      curl_easy_getinfo(easy_.get(), CURLINFO_OS_ERRNO, &system) == CURLE_OK && system != 0) {
    why = std::strerror(static_cast<int>(system));
  }
  // With TLS 1.3 a server refuses a client's certificate after the first request.
  if (is_trust(code) || why.find("alert") != std::string::npos) {
    return Error(Errc::kPermissionDenied, where + ": its certificate, or ours, is not accepted (" +
                                              why + "): see tls_ca, tls_cert and tls_name");
  }
  if (sent_ == 0) {
    return Error(Errc::kUnavailable, where + " cannot be reached (" + why +
                                         "); see that an agent listens there, and try again");
  }
  if (request_.reads) {
    return Error(Errc::kUnavailable,
                 where + " does not answer (" + why + "); see that its servers run, and try again");
  }
  return Error(Errc::kOutcomeUnknown,
               where + " did not answer (" + why +
                   "), so the request may have been carried out; look before you try again");
}

}  // namespace holdfast::stores::consul
