#include "engine/base/buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "engine/base/error.h"

namespace skald {

Buffer::Buffer(int64_t bytes, const char* purpose) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = MAP_FAILED;
  if (bytes > 0) {
    memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (memory == MAP_FAILED) {
    fail(Exit::Memory, "no memory for ", purpose, ": ", bytes,
         " bytes: ", std::strerror(bytes > 0 ? errno : EOVERFLOW), "; try a smaller context (-c)");
  }
  data_ = static_cast<std::byte*>(memory);
}

Buffer::~Buffer() {
  if (data_) munmap(data_, static_cast<size_t>(bytes_));
}

}  // namespace skald
