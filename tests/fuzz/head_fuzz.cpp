// The input is an EAGLE-3 head: its config.json in one line, then its safetensors. The head's model
// has the width and the vocabulary of the seed.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "models/heads/heads.h"
#include "tests/fuzz/driver.h"
#include "tests/fuzz/memory_file.h"
#include "tests/gguf_writer.h"

namespace {

using namespace skald;
namespace fs = std::filesystem;

constexpr uint64_t kDim = 32, kVocab = 40, kLayers = 4;
constexpr uintmax_t kDataBytes = 27336;  // of the seed's tensors

// A folder in memory, where there is one.
const fs::path& folder() {
  static const fs::path made = [] {
    const fs::path place = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    const fs::path path = place / ("skald_head_fuzz_" + std::to_string(::getpid()));
    fs::create_directories(path);
    return path;
  }();
  return made;
}

void write(const std::string& name, std::string_view bytes) {
  std::ofstream(folder() / name, std::ios::binary | std::ios::trunc) << bytes;
}

// A Llama of four layers, whose weights are 0.
const OpenedModel& model_of_the_head() {
  static const OpenedModel opened = [] {
    test::GgufWriter w;
    w.text("general.architecture", "llama");
    w.u32("llama.block_count", kLayers);
    w.u32("llama.context_length", 64);
    w.u32("llama.embedding_length", kDim);
    w.u32("llama.feed_forward_length", kDim);
    w.u32("llama.attention.head_count", 1);
    w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    const auto tensor = [&](const std::string& name, std::vector<uint64_t> dims) {
      uint64_t bytes = 4;
      for (const uint64_t dim : dims) bytes *= dim;
      w.tensors.push_back({name + ".weight", std::move(dims), 0, std::string(bytes, '\0')});
    };
    tensor("token_embd", {kDim, kVocab}), tensor("output", {kDim, kVocab});
    tensor("output_norm", {kDim});
    for (uint64_t layer = 0; layer < kLayers; ++layer) {
      const std::string blk = "blk." + std::to_string(layer) + ".";
      for (const char* name :
           {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
        tensor(blk + name, {kDim, kDim});
      }
      tensor(blk + "attn_norm", {kDim}), tensor(blk + "ffn_norm", {kDim});
    }
    const std::string file = w.file();
    const MemoryFile memory(reinterpret_cast<const uint8_t*>(file.data()), file.size());
    return open_model(memory.path());
  }();
  return opened;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(text.find('\n'), text.size());
  const std::string_view tensors = text.substr(std::min(line + 1, text.size()));
  write("config.json", text.substr(0, line));
  write("model.safetensors", tensors);
  // The seed is a header alone; behind it come zeros.
  fs::resize_file(folder() / "model.safetensors", tensors.size() + kDataBytes);
  try {
    if (is_eagle3(folder())) open_eagle3(folder(), model_of_the_head());
  } catch (const Error&) {
  }
  return 0;
}
