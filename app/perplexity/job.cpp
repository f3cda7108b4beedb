#include "app/perplexity/job.h"

#include <algorithm>
#include <map>

#include "app/files/signals.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/sha256.h"
#include "models/convert/quant_mix.h"
#include "models/files/gguf.h"
#include "models/fingerprint.h"
#include "models/text/tokenizer_hash.h"

namespace skald {
namespace {

// The format that most of the weights' bytes have.
std::string_view main_type(const WeightFile& weights) {
  std::map<DType, int64_t> bytes;
  for (const Tensor& tensor : weights.tensors()) bytes[tensor.view.type] += tensor.view.bytes();
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return name(std::max_element(bytes.begin(), bytes.end(), less)->first);
}

// The name of the type that users of GGUF files know ("Q4_K_M"), if the file or --type names it.
// The format of most bytes would mislead: in a small model it differs from the type's name.
std::string type_of(const OpenedModel& opened, const std::string& asked) {
  std::string type;
  if (!asked.empty()) {
    type = quant_mix_of(find_quant_mix(asked).file_type);
  } else if (opened.gguf && opened.gguf->metadata().find("general.file_type")) {
    type = quant_mix_of(static_cast<int64_t>(opened.gguf->metadata().uint("general.file_type")));
  }
  return type.empty() ? std::string(main_type(*opened.model.weights)) : type;
}

ModelIdentity identity(const OpenedModel& opened, const std::string& asked_type,
                       const std::vector<std::unique_ptr<Executor>>& executors) {
  const Executor& executor = *executors.front();
  std::string device = executor.description();
  if (executors.size() > 1) device += concat(" and ", executors.size() - 1, " more");
  return {opened.path.string(), model_hash(opened), type_of(opened, asked_type),
          to_text(executor.cache_types()), device};
}

// Throws unless both models have the same pieces under the same ids.
void check_vocabularies(const OpenedModel& model, const Tokenizer& tokenizer,
                        const OpenedModel& base) {
  if (model.model.config.vocab != base.model.config.vocab) {
    fail(Exit::Failed, "--base: the models' vocabularies differ: ", model.model.config.vocab,
         " and ", base.model.config.vocab, " tokens");
  }
  const std::unique_ptr<Tokenizer> other = open_tokenizer(base).tokenizer;
  const int32_t count = std::max(tokenizer.vocab_size(), other->vocab_size());
  for (int32_t id = 0; id < count; ++id) {
    if (tokenizer.piece_bytes(id) == other->piece_bytes(id)) continue;
    fail(Exit::Failed, "--base: the models' vocabularies differ: token ", id, " is '",
         printable(tokenizer.piece(id)), "' in one and '", printable(other->piece(id)),
         "' in the other");
  }
}

std::optional<int32_t> bos_of(const Tokenizer& tokenizer) {
  if (!tokenizer.special().add_bos) return {};
  return tokenizer.special().bos;
}

}  // namespace

PplJob::PplJob(const PplFlags& flags, Progress& progress) : opened_(open_model(flags.model)) {
  parse_devices(flags.model.device);  // reports a wrong name before the text is read
  heading_.settings = resolve_protocol(flags, opened_.model.config);
  tokenizer_ = open_tokenizer(opened_).tokenizer;
  heading_.tokenizer_hash = tokenizer_hash(*tokenizer_);
  open_base(flags);
  open_text(flags, progress);
  heading_.chunks = chunks_->count();
  range_ = parse_chunk_range(flags.chunks, chunks_->count());
  if (flags.files.size() > 0 && base_file_ && !base_file_->ids().empty()) check_base_ids();
  executors_ = prepare(opened_.model, flags);
  heading_.model = identity(opened_, flags.model.type, executors_);
  if (opened_base_) {
    bases_ = prepare(opened_base_->model, flags);
    heading_.base = identity(*opened_base_, "", bases_);
  } else if (base_file_) {
    check_base_file();
    const auto heading = base_file_->heading();
    heading_.base = heading ? heading->model : ModelIdentity{};
    heading_.base->path = base_file_->description();
  }
}

void PplJob::open_base(const PplFlags& flags) {
  if (flags.base.empty()) return;
  base_file_ = open_base_file(flags.base);
  if (base_file_ && parse_devices(flags.model.device).size() > 1) {
    fail(Exit::Usage, "--devices: a base file is read in order by one device; name one device, ",
         "or give a model as --base");
  }
  if (!base_file_) {
    if (asked_ranks(flags.model.device) > 1 && !flags.model.device.rank.empty()) {
      fail(Exit::Usage, "--base: the ranks of --rank compute one model; run the base alone with ",
           "--save-base, and give that file");
    }
    opened_base_ = open_model(std::filesystem::path(flags.base));
    check_head(*opened_base_);
    opened_base_->model.shard = opened_.model.shard;
    check_vocabularies(opened_, *tokenizer_, *opened_base_);
    if (heading_.settings.context > opened_base_->model.config.context) {
      fail(Exit::Usage, "--base: a context of ", heading_.settings.context,
           ": the base model was trained for ", opened_base_->model.config.context,
           " tokens; choose a protocol with a smaller context");
    }
    return;
  }
  if (base_file_->vocab() != opened_.model.config.vocab) {
    fail(Exit::Failed, "--base: the vocabularies differ: the model has ",
         opened_.model.config.vocab, " tokens, ", base_file_->description(), " has ",
         base_file_->vocab());
  }
  const int64_t context = base_file_->context();
  if (context == 0) return;
  const bool llama = heading_.settings.protocol == PplProtocol::LlamaCpp;
  const bool asked = flags.protocol != PplFlags{}.protocol || flags.model.run.context > 0;
  if (!llama || (asked && context != heading_.settings.context)) {
    fail(Exit::Failed, "--base: ", base_file_->description(),
         " was made with --protocol llama.cpp:", context, ", this run has --protocol ",
         heading_.settings.name());
  }
  heading_.settings.context = context;
}

void PplJob::open_text(const PplFlags& flags, Progress& progress) {
  const PplSettings& settings = heading_.settings;
  if (flags.files.empty()) {
    if (!base_file_ || base_file_->ids().empty()) {
      fail(Exit::Usage,
           "no text given; give a file with -f (only llama.cpp's base files hold their text)");
    }
    const std::span<const int32_t> ids = base_file_->ids();
    heading_.text = base_file_->description();
    heading_.text_tokens = std::ssize(ids);
    heading_.corpus_hash = Sha256().add(std::as_bytes(ids)).hex();
    chunks_ = id_chunks(settings, {ids.begin(), ids.end()}, bos_of(*tokenizer_));
    return;
  }
  heading_.text = flags.files.front();
  if (settings.protocol == PplProtocol::Documents) {
    documents_ = std::make_unique<Documents>(flags.files);
    if (flags.files.size() > 1) heading_.text += concat(" and ", flags.files.size() - 1, " more");
    heading_.text_bytes = documents_->bytes();
    heading_.corpus_hash = documents_->sha256();
    chunks_ = document_chunks(settings, *documents_, *tokenizer_);
    return;
  }
  file_ = std::make_unique<TextFile>(flags.files.front());
  TokenStreamOptions options;
  options.drop_last_newline = settings.protocol == PplProtocol::LlamaCpp;
  text_ = std::make_unique<TokenStream>(*file_, *tokenizer_, options, [&](int64_t bytes) {
    progress.show(concat("reading the text: ", 100 * bytes / file_->size(), " %"));
    return !interrupted_by();
  });
  progress.clear();
  heading_.text_bytes = text_->bytes();
  heading_.text_tokens = text_->count();
  heading_.corpus_hash = text_->sha256();
  chunks_ = text_chunks(settings, *text_, bos_of(*tokenizer_));
}

void PplJob::check_base_file() const {
  const int64_t first = base_file_->first_chunk(), last = first + base_file_->chunks();
  if (range_.first < first || range_.last > last) {
    fail(Exit::Failed, "--base: ", base_file_->description(), " has the chunks ", first, ":", last,
         ", this run needs ", range_.first, ":", range_.last, "; choose them with --chunks");
  }
  const auto heading = base_file_->heading();
  if (!heading) return;
  PplHeading same = heading_;
  same.model = heading->model;
  const std::string difference = heading_difference(*heading, same);
  if (!difference.empty()) {
    fail(Exit::Failed, "--base: ", base_file_->description(),
         " was made by a different run: ", difference);
  }
}

void PplJob::check_base_ids() const {
  const auto ids = base_file_->ids();
  const int64_t count = std::min(std::ssize(ids), text_->count());
  std::vector<int32_t> own(static_cast<size_t>(count));
  text_->read(0, own);
  const auto [mine, theirs] = std::mismatch(own.begin(), own.end(), ids.begin());
  if (mine == own.end()) return;
  fail(Exit::Failed, "--base: ", base_file_->description(), " was made with another text: token ",
       mine - own.begin(), " is ", *theirs, " in the file and ", *mine, " in this run");
}

// Makes the executors. Steps hold many windows, because GEMMs on a GPU are faster with many rows.
PplJob::Executors PplJob::prepare(const Model& model, const PplFlags& flags) const {
  constexpr int64_t kLongStep = 8192;
  constexpr int64_t kDocuments = 64;  // per step
  RunOptions options = flags.model.run;
  const int64_t context = options.context = heading_.settings.context;
  const int64_t most = std::min(range_.last - range_.first, kMostSequences);
  options.scores = true;
  std::vector<Device> devices = parse_devices(flags.model.device);
  devices.front() = choose_device(devices.front(), model, options);
  if (options.rows == 0) {
    const auto gpu =
        devices.front().cuda ? std::optional(describe_gpu(devices.front())) : std::nullopt;
    options.sequences = static_cast<int>(std::clamp<int64_t>(kLongStep / context, 1, most));
    options.rows = default_rows(model, options, gpu ? &*gpu : nullptr);
  }
  const bool documents = heading_.settings.protocol == PplProtocol::Documents;
  const int64_t together = documents ? std::min(kDocuments, options.rows) : options.rows / context;
  options.sequences = static_cast<int>(std::clamp<int64_t>(together, 1, most));
  // Documents that share a step are short: the cache need not hold a whole context for each.
  if (documents) {
    options.cache_tokens = std::max(context, options.rows + options.sequences * kPageTokens);
  }
  return make_executors(model, options, devices);
}

std::vector<PplDevice> PplJob::devices() const {
  std::vector<PplDevice> devices;
  for (size_t i = 0; i < executors_.size(); ++i) {
    devices.push_back({executors_[i].get(), bases_.empty() ? nullptr : bases_[i].get()});
  }
  return devices;
}

int64_t PplJob::base_row(int64_t chunk) const {
  int64_t row = 0;
  for (int64_t c = base_file_->first_chunk(); c < chunk; ++c) row += chunks_->scored(c);
  return row;
}

std::vector<int32_t> PplJob::ids() const {
  std::vector<int32_t> ids(static_cast<size_t>(range_.last * heading_.settings.context));
  if (text_) {
    text_->read(0, ids);
  } else {
    std::copy_n(base_file_->ids().begin(), ids.size(), ids.begin());
  }
  return ids;
}

}  // namespace skald
