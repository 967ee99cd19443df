// Asio's own code (ASIO_SEPARATE_COMPILATION), once for all of our libraries.
#include <asio/impl/src.hpp>
