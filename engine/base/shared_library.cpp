#include "engine/base/shared_library.h"

#include <dlfcn.h>

#include "engine/base/error.h"

namespace skald {

SharedLibrary::SharedLibrary(const std::vector<std::string>& candidates) {
  for (const std::string& candidate : candidates) {
    handle_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) {
      problem_.clear();
      return;
    }
    // The first candidate is the usual one: its error says what is wrong with it.
    const char* const error = dlerror();
    if (problem_.empty()) problem_ = error ? error : concat(candidate, " cannot be opened");
  }
}

void* SharedLibrary::find(const char* function) {
  if (!handle_) return nullptr;
  void* const address = dlsym(handle_, function);
  if (!address && problem_.empty()) problem_ = concat("the library has no function ", function);
  return address;
}

}  // namespace skald
