// Reading certificates. Internal to inter.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "inter/openssl.h"

namespace causeway::inter {

CertificatePtr load_certificate(const std::filesystem::path& file);  // throws naming the file

std::vector<std::string> dns_names(const X509* certificate);

std::string subject_of(const X509* certificate);  // one line, printable

}  // namespace causeway::inter
