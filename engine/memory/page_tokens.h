// The size of a cache page, apart from the bookkeeping in kv_pages.h: kernels parse this header.
#pragma once

namespace skald {

inline constexpr int kPageTokens = 64;  // tokens of a page

}  // namespace skald
