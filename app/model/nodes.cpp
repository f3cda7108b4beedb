#include "app/model/nodes.h"

#include <algorithm>
#include <charconv>

#include "app/files/signals.h"
#include "app/model/device.h"
#include "app/model/loading.h"
#include "app/model/open.h"
#include "app/program/version.h"
#include "engine/base/printable.h"
#include "engine/base/sha256.h"
#include "engine/cpu/executor.h"
#include "engine/nodes/group.h"
#include "models/fingerprint.h"

namespace skald {
namespace {

constexpr const char* kForms = "expected auto, auto@HOST:PORT or I/N@HOST:PORT";

[[noreturn]] void fail_rank(const std::string& text, std::string_view why) {
  fail(Exit::Usage, "--rank ", printable(text, 80), ": ", why);
}

// A number of digits alone; else -1.
int number_in(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? number : -1;
}

// "10.0.0.1:29500", "[::1]:29500"
nodes::Address parse_address(const std::string& text, std::string_view address) {
  const size_t colon = address.rfind(':');
  const int port = colon == address.npos ? -1 : number_in(address.substr(colon + 1));
  std::string_view host = address.substr(0, std::min(colon, address.size()));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host.empty() || port < 1 || port > 65535) {
    fail_rank(text, concat("the address '", printable(address, 80),
                           "' is none; expected HOST:PORT, as in node1:29500"));
  }
  return {std::string(host), port};
}

// The first host of a list as Slurm writes it: "node[01-04,07],login1" has node01.
std::string first_host(std::string_view list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == list.npos || (comma != list.npos && comma < bracket)) {
    return std::string(list.substr(0, comma));
  }
  const std::string_view rest = list.substr(bracket + 1);
  const std::string_view number = rest.substr(0, rest.find_first_of(",-]"));
  const size_t close = rest.find(']');
  std::string_view after = close == rest.npos ? "" : rest.substr(close + 1);
  after = after.substr(0, after.find(','));
  return concat(list.substr(0, bracket), number, after);
}

// What a program that starts processes says in the environment.
class Launched {
 public:
  Launched(const std::string& text, const Environment& environment)
      : text_(text), environment_(environment) {}

  // Address and secret may be missing.
  RankPlace find() {
    if (environment_("RANK") && environment_("WORLD_SIZE")) return by_torchrun();
    if (environment_("OMPI_COMM_WORLD_RANK")) return by_mpirun();
    if (environment_("SLURM_PROCID")) return by_srun();
    fail_rank(
        text_,
        "RANK, OMPI_COMM_WORLD_RANK and SLURM_PROCID are missing, so neither torchrun, mpirun "
        "nor srun started this process; give I/N@HOST:PORT");
  }

 private:
  RankPlace by_torchrun() {
    RankPlace place = ranks("RANK", "WORLD_SIZE");
    const std::string run = environment_("TORCHELASTIC_RUN_ID").value_or("none");
    if (run != "none") place.secret = "torchrun " + run;
    const auto host = environment_("MASTER_ADDR"), port = environment_("MASTER_PORT");
    if (host && port) {
      place.address = parse_address(text_, concat(*host, ":", *port));
      ++place.address.port;  // torchrun itself listens at MASTER_PORT
    }
    return place;
  }

  RankPlace by_mpirun() {
    RankPlace place = ranks("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    for (const char* const name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
      const auto job = environment_(name);
      if (job && place.secret.empty()) place.secret = "mpirun " + *job;
    }
    const bool one_machine =
        environment_("OMPI_COMM_WORLD_LOCAL_SIZE") == environment_("OMPI_COMM_WORLD_SIZE");
    if (one_machine) place.address.host = "127.0.0.1";
    return place;
  }

  RankPlace by_srun() {
    RankPlace place = ranks("SLURM_PROCID", "SLURM_NTASKS");
    const auto job = environment_("SLURM_JOB_ID");
    if (job) place.secret = concat("srun ", *job, ".", environment_("SLURM_STEP_ID").value_or(""));
    for (const char* const name :
         {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_LAUNCH_NODE_IPADDR"}) {
      const auto list = environment_(name);
      if (list && place.address.host.empty()) place.address.host = first_host(*list);
    }
    return place;
  }

  RankPlace ranks(const char* rank_name, const char* size_name) {
    RankPlace place;
    place.rank = value(rank_name);
    place.of = value(size_name);
    if (place.rank >= place.of) {
      fail_rank(text_, concat(rank_name, " is ", place.rank, " and ", size_name, " is ", place.of,
                              "; expected a rank below the size"));
    }
    return place;
  }

  int value(const char* name) {
    const auto text = environment_(name);
    if (!text) fail_rank(text_, concat(name, " is missing; give I/N@HOST:PORT"));
    const int number = number_in(*text);
    if (number < 0) {
      fail_rank(text_, concat(name, " is '", printable(*text, 40), "'; expected a number"));
    }
    return number;
  }

  const std::string& text_;
  const Environment& environment_;
};

RankPlace parse_ranks(const std::string& text, std::string_view ranks) {
  const size_t slash = ranks.find('/');
  RankPlace place;
  place.rank = number_in(ranks.substr(0, slash));
  place.of = slash == ranks.npos ? -1 : number_in(ranks.substr(slash + 1));
  if (place.rank < 0 || place.of < 0) fail_rank(text, kForms);
  if (place.rank >= place.of) {
    fail_rank(text,
              concat("there is no rank ", place.rank, " of ", place.of, "; ranks count from 0"));
  }
  return place;
}

// For jobs whose launcher names no port: one that another job hardly has.
int port_of(const std::string& secret) {
  const Sha256::Digest hash = Sha256().add(secret).digest();
  return 20000 + (hash[0] * 256 + hash[1]) % 10000;
}

double timeout_of(const Environment& environment) {
  constexpr double kLeast = 0.1, kMost = 86400;
  const auto text = environment("SKALD_RANK_TIMEOUT");
  if (!text) return RankPlace().timeout;
  double seconds = 0;
  const char* const end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, seconds);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(seconds >= kLeast && seconds <= kMost)) {
    fail(Exit::Usage, "SKALD_RANK_TIMEOUT is '", printable(*text, 40),
         "'; expected seconds, from 0.1 to 86400");
  }
  return seconds;
}

// The hash of what the model computes: its weights, as model_hash() samples them, and its shape.
std::string hash_of(const Model& model) {
  const ModelConfig& config = model.config;
  Sha256 hash;
  hash.add_field(config.architecture).add_field(weights_hash(*model.weights));
  Model whole = model;
  whole.shard = {};
  for (const RopeSpec& rope : whole.program().ropes) {
    hash.add(std::as_bytes(std::span(rope.inv_freq)));
  }
  return hash.hex().substr(0, 16);
}

nodes::Party party_of(const RankPlace& place, const Model& model) {
  nodes::Party party;
  party.rank = place.rank;
  party.of = place.of;
  party.address = place.address;
  party.secret = place.secret;
  party.timeout = place.timeout;
  party.join_timeout = 6 * place.timeout;
  party.facts = {{"version", std::string(version())},
                 {"architecture", model.config.architecture},
                 {"number of layers", concat(model.config.layers)},
                 {"model (a hash of its weights and settings)", hash_of(model)}};
  return party;
}

RunOptions with_rows(const Model& model, RunOptions options) {
  if (options.rows == 0) options.rows = default_rows(model, options, nullptr);
  return options;
}

// How this process makes its rank, on the CPU.
nodes::RankMaker cpu_maker() {
  nodes::RankMaker maker;
  maker.plan = [](const Model& shard, const RunOptions& options) {
    RunOptions planned = with_rows(shard, options);
    const MemoryPlan plan = cpu::plan_memory(shard, planned);
    check_fits(plan, "this machine");
    planned.context = plan.context;
    return planned;
  };
  maker.make = [](const Model& shard, const RunOptions& options,
                  std::shared_ptr<nodes::NodeExchange> exchange) {
    return cpu::make_rank(make_weights(shard, options.threads), options, cpu::KernelSet::Fast,
                          std::move(exchange));
  };
  return maker;
}

}  // namespace

std::optional<RankPlace> find_rank(const std::string& text, const Environment& environment) {
  if (text.empty()) return {};
  const size_t at = text.find('@');
  const std::string_view ranks = std::string_view(text).substr(0, at);
  const bool automatic = ranks == "auto";
  RankPlace place = automatic ? Launched(text, environment).find() : parse_ranks(text, ranks);
  if (place.of == 1) return {};
  if (place.of > kMostRanks) {
    fail_rank(text, concat("at most ", kMostRanks, " ranks compute a model together"));
  }
  if (const auto secret = environment("SKALD_SECRET")) place.secret = *secret;
  if (place.secret.empty()) {
    fail_rank(text,
              "the ranks need a secret that keeps strangers out; set SKALD_SECRET to the same "
              "random text for all of them");
  }
  if (at != text.npos) place.address = parse_address(text, std::string_view(text).substr(at + 1));
  if (place.address.host.empty()) {
    fail_rank(text,
              automatic ? "the address of the first rank is missing; give auto@HOST:PORT" : kForms);
  }
  if (place.address.port == 0) place.address.port = port_of(place.secret);
  place.timeout = timeout_of(environment);
  return place;
}

std::unique_ptr<Executor> lead_ranks(const Model& model, const RunOptions& options,
                                     const RankPlace& place) {
  return nodes::lead_group(party_of(place, model), model, options, cpu_maker());
}

bool is_other_rank(const DeviceFlags& flags) {
  const auto place = find_rank(flags.rank, process_environment);
  return place && place->rank > 0;
}

int serve_rank(const ModelFlags& flags, const Model& model) {
  const Device device = parse_device(flags.device);
  check_divisible(model);
  // The first rank knows when the command ends, also by a signal that all ranks get.
  take_time_to_end();
  nodes::serve_rank(party_of(*device.place, model), model, flags.run, cpu_maker());
  return static_cast<int>(Exit::Done);
}

std::optional<int> serve_other_rank(const ModelFlags& flags) {
  if (!is_other_rank(flags.device)) return {};
  ModelFlags own = flags;
  own.headless = true;  // the first rank's command says whether it can do without a head
  return serve_rank(own, open_model(own).model);
}

}  // namespace skald
