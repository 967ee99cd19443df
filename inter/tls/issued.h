// Which certificates a CA has issued: ca.issued beside its key, a line "NAME SERIAL" for each, the
// serial as `openssl x509 -serial` prints it. A region that was renewed has several that are valid,
// and to revoke it means all of them. Internal to inter.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "inter/base/openssl.h"

namespace causeway::inter {

using SerialPtr = std::unique_ptr<ASN1_INTEGER, OpensslDeleter<ASN1_INTEGER_free>>;

// Oldest first; none if there is no such file. Throws Errc::bad_credentials naming a line that
// cannot be read.
std::vector<SerialPtr> issued_to(const std::filesystem::path& directory, const std::string& name);

// Unless it is known. On disk when this returns.
void remember_issued(const std::filesystem::path& directory, const std::string& name,
                     const X509* certificate);

}  // namespace causeway::inter
