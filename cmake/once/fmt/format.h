// Stands before fmt 9's <fmt/format.h>. That one lets every file that formats anything compile all
// of fmt's formatting again, 80 KB in each, although fmt's library has it: it does not say so of
// vformat_to(). This says so, to GCC alone: Clang 14 gives that function another symbol.
#pragma GCC system_header
#include_next <fmt/format.h>

#if !defined(CAUSEWAY_FMT_ONCE) && FMT_VERSION >= 90000 && FMT_VERSION < 100000 && \
    !defined(FMT_HEADER_ONLY) && !defined(__clang__)
#define CAUSEWAY_FMT_ONCE
FMT_BEGIN_NAMESPACE
namespace detail {
extern template FMT_API void vformat_to<char>(
    buffer<char>&, basic_string_view<char>,
    basic_format_args<FMT_BUFFER_CONTEXT(type_identity_t<char>)>, locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
#endif
