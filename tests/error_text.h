// The message of a thrown Error, for tests that check messages.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/base/error.h"

namespace skald::test {

// The message of the Error that `action` throws with this code; "" when it throws none.
inline std::string error_text(const std::function<void()>& action, Exit code = Exit::Model) {
  try {
    action();
  } catch (const Error& error) {
    return error.code() == code ? error.what() : concat("wrong exit code: ", error.what());
  }
  return "";
}

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace skald::test
