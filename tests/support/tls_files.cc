#include "tests/support/tls_files.h"

#include "tests/support/child_process.h"
#include "tests/support/temp_folder.h"

namespace holdfast::support {
namespace {

using Words = std::vector<std::string>;

// One program makes the key and the certificate; `signer` is empty for an authority.
KeyPair make(const TempFolder& folder, const std::string& name, const std::string& common_name,
             const KeyPair& signer, const Words& extensions) {
  KeyPair made{folder.file(name + ".pem"), folder.file(name + ".key")};
  // A configuration of our own: the system's may be absent, or add extensions.
  Words words = {"openssl",  "req",
                 "-x509",    "-nodes",
                 "-newkey",  "ec",
                 "-pkeyopt", "ec_paramgen_curve:P-256",
                 "-config",  "/dev/null",
                 "-days",    "2",
                 "-subj",    "/CN=" + common_name,
                 "-keyout",  made.key,
                 "-out",     made.certificate};
  if (!signer.key.empty()) {
    words.insert(words.end(), {"-CA", signer.certificate, "-CAkey", signer.key});
  }
  for (const std::string& extension : extensions) {
    words.insert(words.end(), {"-addext", extension});
  }
  run(words);
  return made;
}

class Authority {
 public:
  Authority(const TempFolder& folder, const std::string& name)
      : folder_(folder),
        name_(name),
        pair_(make(folder, name, name, {},
                   {"basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"})) {}

  const std::string& certificate() const { return pair_.certificate; }

  KeyPair server(const std::string& name, const std::string& host, const std::string& names) const {
    return make(folder_, name_ + "-" + name, host, pair_,
                {"basicConstraints=CA:FALSE", "extendedKeyUsage=serverAuth,clientAuth",
                 "subjectAltName=" + names});
  }
  KeyPair client(const std::string& name) const {
    return make(folder_, name_ + "-" + name, name, pair_,
                {"basicConstraints=CA:FALSE", "extendedKeyUsage=clientAuth"});
  }

 private:
  const TempFolder& folder_;
  std::string name_;
  KeyPair pair_;
};

constexpr char kHere[] = "DNS:localhost,IP:127.0.0.1,IP:::1";

TlsFiles make_all(const TempFolder& folder) {
  const Authority ours(folder, "ca");
  const Authority foreign(folder, "foreign");
  TlsFiles files;
  files.ca = ours.certificate();
  files.server = ours.server("server", "localhost", kHere);
  files.wrong_host = ours.server("wrong", "elsewhere.invalid", "DNS:elsewhere.invalid");
  files.client = ours.client("client");
  files.foreign_ca = foreign.certificate();
  files.foreign_server = foreign.server("server", "localhost", kHere);
  files.foreign_client = foreign.client("client");
  return files;
}

}  // namespace

const TlsFiles& tls_files() {
  static const TempFolder folder("tls");
  static const TlsFiles files = make_all(folder);
  return files;
}

}  // namespace holdfast::support
