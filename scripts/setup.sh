# shellcheck shell=bash
# Sourced by the other scripts: installs what is missing, configures, builds. Everything it says goes
# to stderr, so that stdout belongs to the program.
set -euo pipefail
unset CDPATH
# shellcheck disable=SC2034 # for the scripts that take paths
user_folder=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages="g++ cmake ninja-build pkg-config libcli11-dev nlohmann-json3-dev libsentencepiece-dev libpcre2-dev libutf8proc-dev libhwy-dev libedit-dev libcurl4-openssl-dev catch2"

say() { echo "skald: $*" >&2; }

# shellcheck source=folders.sh
source scripts/folders.sh
# shellcheck source=conda.sh
source scripts/conda.sh

# What is fetched without root lies here: packages (scripts/deps) and a CUDA toolkit (scripts/toolkit).
choose_cache "${XDG_CACHE_HOME:-${HOME-}/.cache}/skald" "/var/tmp/skald-$UID"
toolkit=$cache/cuda/$(uname -m)/nvidia/cu13

# prepare [PACKAGE...]: makes a build possible, with $packages and others. Sets $preset.
prepare() {
  # Before anything is downloaded.
  compgen -G 'build/*/build.ninja' >/dev/null || make_build_folder
  # shellcheck disable=SC2086
  ensure_packages $packages "$@"
  choose_preset
}

# ensure_packages NAME...: an active conda environment that has all libraries serves. Else the missing ones
# come by apt: as root, through sudo, or without either into $cache.
ensure_packages() {
  if conda_is_complete; then use_conda; return; fi
  command -v dpkg-query >/dev/null || return 0 # another system: CMake says what it lacks
  local missing=() package
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if is_root; then
    install_packages "" "${missing[@]}"
  elif may_sudo "${missing[@]}"; then
    install_packages sudo "${missing[@]}"
  else
    if conda_is_active && [[ ! -f $(scripts/deps --folder)/env ]]; then advise_conda; fi
    leave_conda
    scripts/deps "${missing[@]}" || exit 1
    # shellcheck source=/dev/null
    source "$(scripts/deps --folder)/env"
  fi
}

# install_packages sudo|"" NAME...
install_packages() {
  local sudo=$1
  shift
  say "installing $*${sudo:+ (through sudo)}"
  { $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"; } \
    </dev/null >/dev/null ||
    { say "could not install; run: ${sudo:+sudo }apt-get update && ${sudo:+sudo }apt-get install -y $*"; exit 1; }
}

is_root() { ((EUID == 0)); }

# may_sudo NAME...: on a terminal, sudo asks for the password. SKALD_SUDO=0: no.
may_sudo() {
  case ${SKALD_SUDO:-1} in
    0) return 1 ;;
    1) ;;
    *) say "expected SKALD_SUDO=0 (never use sudo) or SKALD_SUDO=1, found '$SKALD_SUDO'"; exit 2 ;;
  esac
  command -v sudo >/dev/null || return 1
  sudo -n true 2>/dev/null && return
  [[ -t 0 && -t 2 ]] || return 1
  say "sudo asks for your password, to install by apt: $*. With SKALD_SUDO=0 nothing needs root"
  sudo -v
}

# choose_preset: the CUDA compiler (nvcc) decides what is built: with it, for the GPU and the CPU. The one of
# scripts/toolkit is preferred. Where there is a GPU and no nvcc that works, the first build gets that one.
# SKALD_CPU=1 builds for the CPU alone.
choose_preset() {
  preset=cpu
  [[ -z ${SKALD_CPU-} ]] || return 0
  local why
  if [[ -x $toolkit/bin/nvcc ]]; then
    PATH=$toolkit/bin:$PATH
  elif ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
    PATH=/usr/local/cuda/bin:$PATH
  fi
  if command -v nvcc >/dev/null; then
    preset=cuda
    [[ ! -f build/cuda/build.ninja ]] || return 0
    if why=$(nvcc_problem); then
      say "$(command -v nvcc) does not work with this g++: $why"
      preset=cpu
    fi
  fi
  [[ $preset == cpu && ! -f build/cpu/build.ninja ]] || return 0
  if nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    if scripts/toolkit; then
      PATH=$toolkit/bin:$PATH preset=cuda
    else
      say "building for the CPU alone"
    fi
  elif [[ -n ${why-} ]]; then
    say "building for the CPU alone; scripts/toolkit gets a CUDA toolkit that works"
  fi
}

# nvcc_problem: false where nvcc compiles an empty C++20 file; otherwise prints why not.
nvcc_problem() {
  local folder log code=0
  folder=$(mktemp -d)
  : >"$folder/empty.cu"
  log=$(nvcc ${CXX:+-ccbin "$CXX"} -std=c++20 -c "$folder/empty.cu" -o "$folder/empty.o" 2>&1) || code=$?
  rm -r "$folder"
  ((code)) || return 1
  grep -m 1 -i 'error' <<<"$log" || tail -n 1 <<<"$log"
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

build_advice="copy skald's source folder to a place of your own, and build there"
make_build_folder() { make_folder "$PWD/build" "$build_advice"; }

# configure PRESET: creates build/PRESET, once. $configure_flags may hold further options for CMake.
configure() {
  local preset=$1 log=build/$1.log flags=() architectures
  [[ -f build/$preset/build.ninja ]] && return
  make_build_folder
  say "configuring and building in build/$preset; the first time takes a few minutes"
  if [[ $preset == cuda && -z ${CUDAARCHS-} ]]; then
    architectures=$(gpu_architectures)
    if [[ -n $architectures ]]; then flags+=("-DCMAKE_CUDA_ARCHITECTURES=$architectures"); fi
  fi
  # shellcheck disable=SC2086
  if ! cmake --preset "$preset" -G Ninja "${flags[@]}" ${configure_flags-} >"$log" 2>&1; then
    cat "$log" >&2
    command -v dpkg-query >/dev/null || conda_is_complete || advise_conda # no apt here
    exit 1
  fi
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
  # Of another user's build folder, what is up to date can be run.
  if [[ ! -w build/$preset ]] && ! ninja -C "build/$preset" -n "$@" 2>/dev/null | grep -q '^ninja: no work to do'; then
    make_folder "$PWD/build/$preset" "$build_advice"
  fi
  NINJA_STATUS=$'skald: built %f of %t, %e s\t' ninja -C "build/$preset" "$@" 2>&1 |
    sed -u '/^ninja: Entering directory/d' | show_progress
}
