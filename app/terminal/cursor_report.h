// Asks a terminal for the position of its cursor. After a change of the window's width, some
// terminals have wrapped their lines anew and others have not; the cursor's column tells which.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace skald {

inline constexpr std::string_view kAskForCursor = "\x1b[6n";

// Removes the first answer to kAskForCursor, "ESC [ row ; column R", from what was read. Returns
// the column, counted from 0; nothing if there is no whole answer.
std::optional<int> take_cursor_column(std::string& bytes);

// Rows of the screen between the beginning of a text and its end, where the cursor is.
// `before` and `now`: the window's columns when the text was drawn, and now. Where the column fits
// neither way of wrapping, or both, the smaller number: rows above belong to somebody else.
int rows_above(std::wstring_view text, int before, int now, int column);

}  // namespace skald
