// How a kernel of the table (cuda/plan/kernel_table.h) is launched. Each kind of kernel has a
// launcher template. Each kernel's file specializes the template for the name of the kernel's row.
// cuda/run/launchers.cpp takes the address of every row's specialization, so a missing one does not
// link.
#pragma once

#include <cstdint>
#include <string_view>

namespace skald::cuda {

// A kernel's name as a number, for template arguments: FNV-1a.
enum class KernelId : uint64_t {};
constexpr KernelId kernel_id(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return static_cast<KernelId>(hash);
}

}  // namespace skald::cuda
