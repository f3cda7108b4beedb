# Sourced by the other scripts: installs what is missing, configures, builds. Everything it says goes
# to stderr, so that stdout belongs to the program.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages="g++ cmake ninja-build pkg-config libcli11-dev nlohmann-json3-dev libsentencepiece-dev libpcre2-dev libutf8proc-dev libhwy-dev libedit-dev catch2"

# The CUDA toolkit's compiler decides what is built: with it, for the GPU and the CPU.
if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then PATH=/usr/local/cuda/bin:$PATH; fi
if command -v nvcc >/dev/null; then preset=cuda; else preset=cpu; fi

say() { echo "skald: $*" >&2; }

# ensure_packages NAME...: apt installs the missing ones, as root or through sudo.
ensure_packages() {
  command -v dpkg-query >/dev/null || return 0 # another system: CMake says what it lacks
  local missing=() package
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  local install="apt-get install -y ${missing[*]}"
  if ((EUID == 0)); then
    say "installing ${missing[*]}"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive $install -qq; } </dev/null >/dev/null ||
      { say "could not install; run: apt-get update && $install"; exit 1; }
  elif sudo -n true 2>/dev/null || { [[ -t 0 ]] && command -v sudo >/dev/null; }; then
    say "installing ${missing[*]} (through sudo)"
    { sudo apt-get update -qq && sudo env DEBIAN_FRONTEND=noninteractive $install -qq; } >/dev/null ||
      { say "could not install; run: sudo apt-get update && sudo $install"; exit 1; }
  else
    say "packages are missing; ask an administrator to run: apt-get update && $install"
    exit 1
  fi
}

# build PRESET TARGET...: into build/PRESET; quiet when there is nothing to do.
build() {
  local preset=$1 log
  shift
  if [[ ! -f build/$preset/build.ninja ]]; then
    mkdir -p build
    say "configuring and building in build/$preset; the first time takes a few minutes"
    log=build/$preset.log
    cmake --preset "$preset" -G Ninja >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
    if [[ $preset == cuda ]]; then
      sed -n 's/^-- skald: /skald: /p' "$log" >&2
    elif [[ $preset == cpu ]]; then
      say "no CUDA compiler (nvcc) found: building for the CPU alone"
    fi
  fi
  ninja -C "build/$preset" --quiet "$@" | { grep -v '^ninja: no work to do' || true; } >&2
}
