#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "app/program/commands.h"

namespace {

// Libraries allocate also where they have promised not to throw: nlohmann::json in destructors.
[[noreturn]] void end_by_terminate() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    std::fputs("skald: error: the machine is out of memory\n", stderr);
    ::_exit(4);
  } catch (...) {
  }
  std::abort();
}

}  // namespace

int main(int argc, char** argv) try {
  std::set_terminate(end_by_terminate);
  return skald::run_program({argv + 1, argv + argc});
} catch (const std::bad_alloc&) {  // before, or in, the message of an error
  std::fputs("skald: error: the machine is out of memory\n", stderr);
  return 4;
}
