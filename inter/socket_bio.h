// OpenSSL over a socket that Asio owns. OpenSSL's own socket BIO would raise SIGPIPE when a peer is
// gone. Internal to inter.
#pragma once

#include "inter/openssl.h"

namespace causeway::inter {

// Reads and writes `socket`, which must be non-blocking, and does not close it. Counts what passes
// (BIO_number_read, BIO_number_written).
BioPtr make_socket_bio(int socket);

// What is written next is followed by more at once: TCP need not send it yet. Spares half of the
// cost of a stream of TLS records.
void set_more_follows(BIO* bio, bool more);

}  // namespace causeway::inter
