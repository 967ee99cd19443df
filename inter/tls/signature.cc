#include "inter/tls/signature.h"

#include <cstddef>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <openssl/pem.h>
#include <openssl/x509_vfy.h>

#include "inter/base/error.h"
#include "inter/base/hash.h"
#include "inter/base/openssl.h"
#include "inter/base/text.h"
#include "inter/tls/certificate.h"

namespace causeway::inter {
namespace {

const unsigned char* bytes_of(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Ed25519 brings its own hash.
const EVP_MD* hash_for(const EVP_PKEY* key) {
  return EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
}

void free_openssl_bytes(unsigned char* bytes) {
  OPENSSL_free(bytes);
}

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(std::make_error_code(std::errc::io_error),
                          what + ": " + take_openssl_error());
}

}  // namespace

struct SigningKey::Implementation {
  KeyPtr key;
};

SigningKey::SigningKey(const std::filesystem::path& key)
    : implementation_(std::make_unique<Implementation>()) {
  const BioPtr pem(BIO_new_file(key.c_str(), "r"));
  if (pem)
    implementation_->key.reset(PEM_read_bio_PrivateKey(pem.get(), nullptr, nullptr, nullptr));
  if (!implementation_->key) throw_bad_credentials("cannot read the private key " + key.string());
}

SigningKey::~SigningKey() = default;

std::string SigningKey::sign(const std::string& content) const {
  EVP_PKEY* key = implementation_->key.get();
  const DigestPtr context(EVP_MD_CTX_new());
  std::size_t size = 0;
  const bool sized =
      EVP_DigestSignInit(context.get(), nullptr, hash_for(key), nullptr, key) == 1 &&
      EVP_DigestSign(context.get(), nullptr, &size, bytes_of(content), content.size()) == 1;
  std::string signature(size, '\0');
  if (!sized || EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()),
                               &size, bytes_of(content), content.size()) != 1) {
    fail("cannot sign");
  }
  signature.resize(size);
  return signature;
}

struct VerifyingKey::Implementation {
  CertificatePtr certificate;
};

VerifyingKey::VerifyingKey(const std::filesystem::path& certificate)
    : implementation_(std::make_unique<Implementation>()) {
  implementation_->certificate = load_certificate(certificate);
}

VerifyingKey::VerifyingKey(const std::string& pem, const std::string& region,
                           const TlsContext& trusted)
    : implementation_(std::make_unique<Implementation>()) {
  const BioPtr text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  CertificatePtr certificate(text ? PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)
                                  : nullptr);
  const std::unique_ptr<X509_STORE_CTX, OpensslDeleter<X509_STORE_CTX_free>> check(
      X509_STORE_CTX_new());
  const bool accepted = certificate && check &&
                        X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(trusted.get()),
                                            certificate.get(), nullptr) == 1 &&
                        X509_verify_cert(check.get()) == 1 &&
                        dns_names(certificate.get()) == std::vector<std::string>{region};
  take_openssl_error();
  if (!accepted) {
    throw LinkError(Errc::refused, "a certificate that is said to be that of " + region +
                                       " is not: it is for another name, of another authority, "
                                       "expired or revoked");
  }
  implementation_->certificate = std::move(certificate);
}

VerifyingKey::~VerifyingKey() = default;

bool VerifyingKey::verify(const std::string& content, const std::string& signature) const {
  EVP_PKEY* key = X509_get0_pubkey(implementation_->certificate.get());
  const DigestPtr context(EVP_MD_CTX_new());
  const bool valid =
      EVP_DigestVerifyInit(context.get(), nullptr, hash_for(key), nullptr, key) == 1 &&
      EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(content),
                       content.size()) == 1;
  take_openssl_error();
  return valid;
}

std::string VerifyingKey::sha256() const {
  unsigned char* bytes = nullptr;
  const int size =
      i2d_X509_PUBKEY(X509_get_X509_PUBKEY(implementation_->certificate.get()), &bytes);
  if (size <= 0) fail("cannot write a public key");
  const std::unique_ptr<unsigned char, OpensslDeleter<free_openssl_bytes>> owned(bytes);
  Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes, static_cast<std::size_t>(size))));
  return hex(hash.finish());
}

std::string objection_to_signer(const Credentials& files, const std::string& region) {
  const CertificatePtr certificate = load_certificate(files.certificate);
  std::string problem = name_problem(certificate.get(), files.certificate, region);
  if (!problem.empty() || !std::filesystem::exists(files.ca_certificate)) return problem;
  const std::unique_ptr<X509_STORE, OpensslDeleter<X509_STORE_free>> authorities(X509_STORE_new());
  if (!authorities || X509_STORE_load_file(authorities.get(), files.ca_certificate.c_str()) != 1)
    throw_bad_credentials("cannot read " + files.ca_certificate.string());
  return issuer_problem(certificate.get(), authorities.get(), files);
}

}  // namespace causeway::inter
