#include <cstdio>
#include <new>

#include "app/program/commands.h"

int main(int argc, char** argv) try {
  return skald::run_program({argv + 1, argv + argc});
} catch (const std::bad_alloc&) {  // before, or in, the message of an error
  std::fputs("skald: error: the machine is out of memory\n", stderr);
  return 4;
}
