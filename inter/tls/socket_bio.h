// OpenSSL over a socket that Asio owns. OpenSSL's own socket BIO would raise SIGPIPE when a peer is
// gone, and makes a system call of every record. Internal to inter.
#pragma once

#include "inter/base/openssl.h"

namespace causeway::inter {

// Reads and writes `socket`, which must be non-blocking, and does not close it. Counts what passes
// (BIO_number_read, BIO_number_written).
//
// BIO_set_write_buffer_size: from then on what is written waits until so many bytes are together,
// or until BIO_flush: a stream of records costs a third less by the quarter of a megabyte than one
// by one. 0: nothing waits. BIO_flush fails, and BIO_should_retry, while the socket takes no more.
BioPtr make_socket_bio(int socket);

}  // namespace causeway::inter
