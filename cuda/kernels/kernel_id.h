// How a kernel of the table (cuda/plan/kernel_table.h) is launched. Each kind of kernel has a
// launcher template. Each kernel's file specializes the template for the name of the kernel's row.
// cuda/run/launchers.cpp takes the address of every row's specialization, so a missing one does not
// link.
#pragma once

#include <cstdint>

namespace skald::cuda {

// A kernel's name as a number, for template arguments: FNV-1a.
enum class KernelId : uint64_t {};
constexpr KernelId kernel_id(const char* name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (; *name; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3;
  return static_cast<KernelId>(hash);
}

}  // namespace skald::cuda
