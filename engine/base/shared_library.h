// A shared library that is opened at run time, so that a program starts where it is missing.
#pragma once

#include <string>
#include <vector>

namespace skald {

// Opens the first library of a list that exists. The library stays open until the program ends: its
// functions may be in use by any thread.
class SharedLibrary {
 public:
  // A name without a slash is searched as the system's loader does: the paths that were linked into
  // the program, LD_LIBRARY_PATH, the system's folders.
  explicit SharedLibrary(const std::vector<std::string>& candidates);

  // Empty if the library is open and all functions were found; otherwise what went wrong first.
  const std::string& problem() const { return problem_; }

  // Returns the address of a function. Null: the library has no such function, and problem() says
  // so from then on.
  void* find(const char* function);

 private:
  void* handle_ = nullptr;
  std::string problem_;
};

}  // namespace skald
