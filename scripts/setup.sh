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

# gpu_architectures: what CMAKE_CUDA_ARCHITECTURES must hold for the GPUs of this machine alone, such as
# 90a-real. Nothing where there is no GPU, or one that this nvcc cannot compile for: then the build
# holds code for all GPUs (cuda/cuda.cmake).
gpu_architectures() {
  local known capability list=""
  known=$(nvcc --list-gpu-code 2>/dev/null) || return 0
  while IFS= read -r capability; do
    [[ $capability =~ ^([0-9]+)\.([0-9])$ ]] || return 0
    capability=${BASH_REMATCH[1]}${BASH_REMATCH[2]}
    grep -qx "sm_$capability" <<<"$known" || return 0
    [[ $capability == 90 ]] && capability=90a # the kernels named *_sm90* use instructions of sm_90a
    list+=${list:+;}$capability-real
  done < <(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u)
  echo "$list"
}

# configure PRESET: creates build/PRESET, once. $configure_flags may hold further options for CMake.
configure() {
  local preset=$1 log=build/$1.log flags=() architectures
  [[ -f build/$preset/build.ninja ]] && return
  mkdir -p build
  say "configuring and building in build/$preset; the first time takes a few minutes"
  if [[ $preset == cuda && -z ${CUDAARCHS-} ]]; then
    architectures=$(gpu_architectures)
    if [[ -n $architectures ]]; then flags+=("-DCMAKE_CUDA_ARCHITECTURES=$architectures"); fi
  fi
  # shellcheck disable=SC2086
  cmake --preset "$preset" -G Ninja "${flags[@]}" ${configure_flags-} >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  if [[ $preset == cuda ]]; then
    sed -n 's/^-- skald: /skald: /p' "$log" >&2
  elif [[ $preset == cpu ]]; then
    say "no CUDA compiler (nvcc) found: building for the CPU alone"
  fi
}

# show_progress: copies Ninja's output to stderr, but its status lines only as one line that changes, or
# where stderr is no terminal as a line every 15 seconds.
show_progress() {
  local line part="" status="" shown=$SECONDS code
  while true; do
    IFS= read -r -t 5 line && code=0 || code=$?
    ((code == 0 || code > 128)) || break # the end of the output; above 128: no whole line within 5 seconds
    part+=$line
    if ((code == 0)); then
      line=$part part=""
      case $line in
        "skald: built "*) status=${line%%$'\t'*} status=${status/.* s/ s} ;;
        "ninja: no work to do."*) continue ;;
        *) if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi; printf '%s\n' "$line" >&2; continue ;;
      esac
    fi
    [[ -n $status ]] || continue
    if [[ -t 2 ]]; then
      printf '\r\033[K%s' "$status" >&2
    elif ((SECONDS - shown >= 15)); then
      printf '%s\n' "$status" >&2
      shown=$SECONDS
    fi
  done
  if [[ -t 2 && -n $status ]]; then printf '\r\033[K' >&2; fi
}

# build PRESET TARGET...: into build/PRESET; silent when there is nothing to do.
build() {
  local preset=$1
  shift
  configure "$preset"
  NINJA_STATUS=$'skald: built %f of %t, %e s\t' ninja -C "build/$preset" "$@" 2>&1 |
    sed -u '/^ninja: Entering directory/d' | show_progress
}
