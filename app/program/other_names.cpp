#include "app/program/other_names.h"

#include <algorithm>

namespace skald {

std::span<const OtherName> other_flags() {
  static const std::vector<OtherName> kFlags = {
      {{"--n-gpu-layers"}, "use --gpu-layers N"},
      {{"-fa", "--flash-attn"}, "leave it out: attention is always computed like that"},
      {{"-cnv", "--conversation", "-i", "--interactive", "-if", "--interactive-first"},
       "use 'skald chat' to talk, or 'skald run --chat' for one answer"},
      {{"-no-cnv", "--no-conversation"},
       "leave it out: without --chat, 'skald run' continues the prompt as text"},
      {{"-st", "--single-turn"}, "use 'skald run --chat', which answers one prompt"},
      {{"-ub", "--ubatch-size", "-b", "--batch-size"},
       "use --rows N, the most prompt tokens in a step"},
      {{"-np", "--parallel"}, "use 'skald batch --max-seqs N'"},
      {{"-cb", "--cont-batching"}, "leave it out: 'skald batch' always computes texts together"},
      {{"-tb", "--threads-batch"}, "use -t N, which counts for prompts too"},
      {{"-ctkd", "-ctvd", "--cache-type-k-draft", "--cache-type-v-draft"},
       "leave it out: a draft model's KV cache has 16 bits"},
      {{"-mg", "--main-gpu", "-dev"}, "use --device cuda:N"},
      {{"-sm", "-ts", "--split-mode", "--tensor-split"},
       "use --tp N, which cuts the model over N GPUs; 'skald batch --devices 0,1' has a copy on "
       "each"},
      {{"--mlock", "--mmap", "--no-mmap"},
       "leave it out: weights are mapped from their file and read ahead"},
      {{"--list-devices"}, "use 'skald doctor'"},
      {{"-r", "--reverse-prompt"}, "use --stop TEXT"},
      {{"-v", "--verbose"}, "use --stats of 'skald run' and 'skald chat'"},
      {{"-cml", "--chatml"}, "use --chat-template chatml"},
      {{"--jinja", "--no-jinja"}, "leave it out: chat templates are always run as Jinja"},
      {{"-jf", "--json-schema-file"}, "use -j FILE"},
      {{"-sysf", "--system-prompt-file"}, "use -sys \"$(cat FILE)\""},
      {{"--no-display-prompt"}, "leave it out: a pipe gets the new text alone"},
      {{"-co", "--color"}, "leave it out: a terminal gets colours, unless NO_COLOR is set"},
      {{"-hfr", "-hff", "--hf-file"}, "use -hf NAME:FILE"},
      {{"-mu", "--model-url"}, "download the file, or use -hf NAME"},
      {{"--draft-max", "--draft", "--draft-n"}, "use --spec-max N"},
      {{"--draft-min", "--draft-p-min", "--draft-n-min"},
       "leave it out: --spec measures how many guesses pay"},
      {{"-ngld", "--gpu-layers-draft", "-cd", "--ctx-size-draft"},
       "leave it out: a draft model is on its device as a whole, with the context that it needs"},
      {{"-hfd", "--hf-repo-draft"}, "use -md NAME after 'skald pull NAME'"},
      {{"--rope-scaling", "--rope-scale", "--rope-freq-base", "--rope-freq-scale",
        "--yarn-orig-ctx"},
       "leave it out: the rope is that of the model's file"},
      {{"-kvu", "--kv-unified", "--no-warmup", "--warmup", "--no-kv-offload", "-nkvo",
        "--swa-full"},
       "leave it out: the cache is placed by itself; see 'skald plan'"},
      {{"-lv", "--log-verbosity", "--log-disable", "--log-file"},
       "leave it out: messages go to stderr; --stats of 'skald run' says more"},
      {{"--simple-io", "--multiline-input", "--nowordwrap"},
       "leave it out: 'skald chat' asks the terminal what it can do"},
      {{"--insecure"}, "leave it out: certificates are always checked; SSL_CERT_FILE names others"},
      {{"--port", "--host", "--api-key"}, "leave it out: skald is no server; see 'skald batch'"},
      {{"--numa", "--poll", "--prio", "--cpu-mask"}, "leave it out; numactl or taskset do it"},
      {{"--in-prefix", "--in-suffix"}, "use a template: --chat-template FILE"},
      {{"--think", "--reasoning-format"}, "see 'skald chat --help': the model's template decides"},
      {{"--keepalive"}, "leave it out: no model stays loaded after a command"},
  };
  return kFlags;
}

std::span<const OtherName> other_commands() {
  static const std::vector<OtherName> kCommands = {
      {{"serve", "server", "llama-server"},
       "skald is no server; 'skald chat' talks, 'skald batch' answers a file of requests"},
      {{"ps", "stop"},
       "no model stays loaded after a command; 'skald doctor' shows the GPUs and their memory"},
      {{"list"}, "use 'skald ls'"},
      {{"remove", "delete"}, "use 'skald rm'"},
      {{"download"}, "use 'skald pull NAME'"},
      {{"search"}, "skald does not search the hub; 'skald pull NAME' needs a name"},
      {{"version"}, "use 'skald --version'"},
      {{"update", "upgrade"}, "update the way that skald was installed"},
      {{"launch"}, "use 'skald chat', or 'skald run' for one answer"},
      {{"show"}, "use 'skald inspect MODEL'"},
      {{"create", "convert"}, "use 'skald quantize' to write a GGUF in another type"},
      {{"cp", "push"}, "models are plain files: copy them; -m takes a path"},
      {{"cli", "llama-cli", "generate", "complete"}, "use 'skald run'"},
      {{"ppl", "eval"}, "use 'skald perplexity'"},
  };
  return kCommands;
}

std::string_view advice_for(std::string_view typed, std::span<const OtherName> names) {
  for (const OtherName& one : names) {
    if (std::find(one.typed.begin(), one.typed.end(), typed) != one.typed.end()) return one.advice;
  }
  return "";
}

}  // namespace skald
