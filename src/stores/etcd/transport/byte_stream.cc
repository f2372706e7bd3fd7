#include "src/stores/etcd/transport/byte_stream.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <fstream>
#include <sstream>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/write.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "src/base/local_mutex.h"
#include "src/base/thread.h"
#include "src/stores/etcd/transport/errors.h"

namespace holdfast::stores::etcd {
namespace {

using asio::ip::tcp;

constexpr unsigned char kHttp2[] = {2, 'h', '2'};  // As ALPN writes it.
constexpr unsigned kUnackedMs = 15'000;            // Then the kernel gives a silent peer up.

Result<std::string> read_pem(const std::string& path, const char* option) {
  std::ostringstream file;
  file << std::ifstream(path, std::ios::binary).rdbuf();  // Throws nothing for a folder.
  std::string text = std::move(file).str();
  if (text.empty()) {
    return Error(Errc::kInvalidArgument,
                 "etcd URL: " + std::string(option) + ": cannot read '" + path + "'");
  }
  if (text.find("-----BEGIN ") == std::string::npos) {
    return Error(Errc::kInvalidArgument, "etcd URL: " + std::string(option) + ": '" + path +
                                             "' is no PEM file: it has no line '-----BEGIN ...'");
  }
  return text;
}

Error refused_pem(const std::string& path, const char* option, const std::error_code& why) {
  return {Errc::kInvalidArgument,
          "etcd URL: " + std::string(option) + ": '" + path + "' cannot be used: " + why.message()};
}

std::error_code last_ssl_error() {
  return {static_cast<int>(ERR_get_error()), asio::error::get_ssl_category()};
}

Result<void> load_trust(SSL_CTX* context, const std::string& path) {
  if (path.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) == 1) return {};
    return Error(Errc::kInvalidArgument,
                 "etcd URL: cannot read the system's trusted certificates: name some in tls_ca");
  }
  if (const auto trusted = read_pem(path, "tls_ca"); !trusted) return trusted.error();
  if (SSL_CTX_load_verify_locations(context, path.c_str(), nullptr) == 1) return {};
  return refused_pem(path, "tls_ca", last_ssl_error());
}

Result<void> load_identity(asio::ssl::context& context, const port::TlsPaths& paths) {
  const auto certificate = read_pem(paths.cert, "tls_cert");
  if (!certificate) return certificate.error();
  const auto key = read_pem(paths.key, "tls_key");
  if (!key) return key.error();
  std::error_code failed;
  // Without it OpenSSL would ask on the terminal.
  context.set_password_callback(
      [](std::size_t, asio::ssl::context::password_purpose) { return std::string(); }, failed);
  context.use_certificate_chain(asio::buffer(*certificate), failed);
  if (failed) return refused_pem(paths.cert, "tls_cert", failed);
  context.use_private_key(asio::buffer(*key), asio::ssl::context::pem, failed);
  if (failed && key->find("ENCRYPTED") != std::string::npos) {
    return Error(Errc::kInvalidArgument,
                 "etcd URL: tls_key: '" + paths.key + "' has a passphrase: name a key without one");
  }
  if (failed && key->find("PRIVATE KEY") == std::string::npos) {
    return Error(Errc::kInvalidArgument,
                 "etcd URL: tls_key: '" + paths.key + "' has no private key: name the key's file");
  }
  // OpenSSL compares it by itself only if both are of one kind.
  const bool foreign =
      failed ? ERR_GET_REASON(static_cast<unsigned long>(failed.value())) ==
                   X509_R_KEY_VALUES_MISMATCH
             : SSL_CTX_check_private_key(context.native_handle()) != 1;
  if (foreign) {
    return Error(Errc::kInvalidArgument, "etcd URL: tls_key: '" + paths.key +
                                             "' is not the key of the certificate in tls_cert");
  }
  if (failed) return refused_pem(paths.key, "tls_key", failed);
  return {};
}

// The certificate must carry this name or address.
bool expect_name(SSL* ssl, const std::string& name) {
  std::error_code no_number;
  asio::ip::make_address(name, no_number);
  if (!no_number) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.c_str()) == 1;
  return SSL_set_tlsext_host_name(ssl, name.c_str()) == 1 && SSL_set1_host(ssl, name.c_str()) == 1;
}

}  // namespace

Result<std::shared_ptr<TlsSettings>> TlsSettings::make(const EtcdAddress& address) {
  if (!address.tls) return std::shared_ptr<TlsSettings>();
  auto made = std::make_shared<TlsSettings>();
  const port::TlsPaths& paths = address.tls_paths;
  made->name = paths.name;
  std::error_code failed;
  made->context.set_verify_mode(asio::ssl::verify_peer, failed);
  SSL_CTX* const native = made->context.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_alpn_protos(native, kHttp2, sizeof kHttp2);
  if (auto loaded = load_trust(native, paths.ca); !loaded) return loaded.error();
  if (!paths.cert.empty()) {
    if (auto loaded = load_identity(made->context, paths); !loaded) return loaded.error();
  }
  return made;
}

struct ByteStream::Mailbox {
  base::LocalMutex mutex;
  asio::io_context* io HOLDFAST_GUARDED_BY(mutex) = nullptr;
};

void ByteStream::connect(const port::Endpoint& server, base::BootInstant by, Connected done) {
  std::error_code no_number;
  const auto address = asio::ip::make_address(server.host, no_number);
  if (!no_number) {
    const tcp::endpoint only(address, server.port);
    return connect(server, Addresses::create(only, server.host, ""), by, std::move(done));
  }
  server_ = server;
  by_ = by;
  done_ = std::move(done);
  look_up();
}

void ByteStream::connect(const port::Endpoint& server, Addresses addresses, base::BootInstant by,
                         Connected done) {
  server_ = server;
  by_ = by;
  done_ = std::move(done);
  found(std::move(addresses));
}

// Asio's own thread for this would make the loop's end wait for the name service.
void ByteStream::look_up() {
  mailbox_ = std::make_shared<Mailbox>();
  {
    const base::LocalLock lock(mailbox_->mutex);
    mailbox_->io = &io_;
  }
  const auto ask = [weak = weak_from_this(), mailbox = mailbox_, server = server_] {
    std::error_code error;
    asio::io_context own;
    Addresses addresses =
        tcp::resolver(own).resolve(server.host, std::to_string(server.port), error);
    const base::LocalLock lock(mailbox->mutex);
    if (mailbox->io == nullptr) return;
    asio::post(*mailbox->io, [weak, addresses = std::move(addresses), error] {
      const auto self = weak.lock();
      if (self == nullptr || self->closed_) return;
      if (!error) return self->found(addresses);
      self->finish(kCannotLookUp + (": '" + self->server_.host + "': ") + error.message());
    });
  };
  try {
    base::start_thread("hf-etcd-dns", ask).detach();
  } catch (const std::system_error& error) {
    asio::post(io_, [self = shared_from_this(), why = std::string(error.what())] {
      if (!self->closed_) self->finish(kCannotLookUp + (": no thread for it: " + why));
    });
  }
}

void ByteStream::found(Addresses addresses) {
  addresses_ = std::move(addresses);
  next_ = addresses_.begin();
  untried_ = addresses_.size();
  try_next("the host has no address");
}

void ByteStream::try_next(const std::string& why) {
  if (untried_ == 0) return finish(why);
  std::error_code ignored;
  secure_.reset();
  socket_.close(ignored);
  start_share();
  socket_.async_connect(*next_++, [self = shared_from_this()](const std::error_code& error) {
    if (self->closed_) return;
    if (!error && !self->late_) return self->on_socket();
    self->try_next(std::string(kCannotConnect) + ": " + error.message());
  });
}

void ByteStream::start_share() {
  late_ = false;
  timer_->stop();
  const auto now = base::BootClock::now();
  const auto share = (by_ - now) / static_cast<std::int64_t>(untried_--);
  if (untried_ == 0) return;
  timer_->arm_at(now + share, [this] {
    late_ = true;
    std::error_code ignored;
    socket_.close(ignored);  // That ends what is under way on it.
  });
}

void ByteStream::on_socket() {
  std::error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnackedMs,
               sizeof kUnackedMs);
  if (tls_ == nullptr) return finish({});
  const std::string& name = tls_->name.empty() ? server_.host : tls_->name;
  secure_ = std::make_unique<asio::ssl::stream<tcp::socket&>>(socket_, tls_->context);
  if (!expect_name(secure_->native_handle(), name)) {
    return try_next(kNoTls + (": no certificate can carry the name '" + name + "'"));
  }
  secure_->async_handshake(
      asio::ssl::stream_base::client, [self = shared_from_this()](const std::error_code& error) {
        if (self->closed_) return;
        if (!error && !self->late_) return self->finish({});
        const long verdict = SSL_get_verify_result(self->secure_->native_handle());
        self->try_next(
            std::string(kNoTls) + ": " +
            (verdict == X509_V_OK ? error.message() : X509_verify_cert_error_string(verdict)));
      });
}

void ByteStream::finish(const std::string& why) {
  timer_.reset();
  std::exchange(done_, nullptr)(why);
}

void ByteStream::read(char* into, std::size_t size, Moved done) {
  auto moved = [self = shared_from_this(), done = std::move(done)](const std::error_code& error,
                                                                   std::size_t bytes) {
    if (!self->closed_) done(error, bytes);
  };
  if (secure_ != nullptr) return secure_->async_read_some(asio::buffer(into, size), moved);
  socket_.async_read_some(asio::buffer(into, size), moved);
}

bool ByteStream::write(const char* from, std::size_t size, Moved done) {
  std::size_t sent = 0;
  if (secure_ == nullptr) {
    // Mostly the kernel has room, which spares a turn of the loop.
    std::error_code no_room;
    sent = socket_.write_some(asio::buffer(from, size), no_room);
    if (sent == size) return true;
  }
  const auto rest = asio::buffer(from + sent, size - sent);
  auto moved = [self = shared_from_this(), done = std::move(done)](const std::error_code& error,
                                                                   std::size_t bytes) {
    if (!self->closed_) done(error, bytes);
  };
  if (secure_ != nullptr) {
    asio::async_write(*secure_, rest, moved);
  } else {
    asio::async_write(socket_, rest, moved);
  }
  return false;
}

void ByteStream::close() {
  closed_ = true;
  done_ = nullptr;
  timer_.reset();
  if (mailbox_ != nullptr) {
    const base::LocalLock lock(mailbox_->mutex);
    mailbox_->io = nullptr;
  }
  std::error_code ignored;
  socket_.close(ignored);
}

}  // namespace holdfast::stores::etcd
