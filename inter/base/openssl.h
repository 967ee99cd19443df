// Ownership of OpenSSL objects, and its errors in words. Internal to inter.
#pragma once

#include <memory>
#include <string>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

namespace causeway::inter {

template <auto Free>
struct OpensslDeleter {
  template <typename Object>
  void operator()(Object* object) const {
    Free(object);
  }
};

using BioPtr = std::unique_ptr<BIO, OpensslDeleter<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslDeleter<EVP_PKEY_free>>;
using AlgorithmPtr = std::unique_ptr<EVP_MD, OpensslDeleter<EVP_MD_free>>;
using DigestPtr = std::unique_ptr<EVP_MD_CTX, OpensslDeleter<EVP_MD_CTX_free>>;
using CertificatePtr = std::unique_ptr<X509, OpensslDeleter<X509_free>>;
using SslPtr = std::unique_ptr<SSL, OpensslDeleter<SSL_free>>;
using CrlPtr = std::unique_ptr<X509_CRL, OpensslDeleter<X509_CRL_free>>;

// The oldest queued OpenSSL error as text; empties the queue.
std::string take_openssl_error();

// Throws Errc::bad_credentials: what could not be read, OpenSSL's reason, and what to do. The
// kernel's error instead, if it fails_for_now(): nothing is wrong with the file.
[[noreturn]] void throw_bad_credentials(const std::string& what);

}  // namespace causeway::inter
