// Signatures with a region's TLS key, so that what a region wrote can be shown to be its own.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "inter/tls/tls.h"

namespace causeway::inter {

class SigningKey {
 public:
  // A PEM private key (Ed25519 or P-256). Throws std::system_error naming the file.
  explicit SigningKey(const std::filesystem::path& key);
  ~SigningKey();

  std::string sign(const std::string& content) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

class VerifyingKey {
 public:
  // The public key of a PEM certificate. Throws std::system_error naming the file.
  explicit VerifyingKey(const std::filesystem::path& certificate);
  // Of a certificate that somebody sent, in PEM. Throws LinkError (Errc::refused) unless it is for
  // `region`, and one that a connection made with `trusted` would accept.
  VerifyingKey(const std::string& pem, const std::string& region, const TlsContext& trusted);
  ~VerifyingKey();

  bool verify(const std::string& content, const std::string& signature) const;
  // Hex digits, of the key alone: a certificate that is renewed keeps it.
  std::string sha256() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Why nothing that is said to be the region's can be checked with these files: the certificate is
// for another name, or the authority of ca.crt, if that is there, did not issue it. Empty: all is
// well. Dates are not looked at. Throws Errc::bad_credentials naming a file that cannot be read.
std::string objection_to_signer(const Credentials& files, const std::string& region);

}  // namespace causeway::inter
