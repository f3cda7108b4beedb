# shellcheck shell=bash
# Sourced by setup.sh: libraries, compilers and CUDA from an active conda (mamba, micromamba) environment.
# scripts/packages/conda/environment.yml lists what such an environment must hold.
conda_list=scripts/packages/conda/environment.yml

# conda_lacks: the packages of the list that the active environment lacks. Without CUDA it serves too, for
# the CPU alone.
conda_lacks() {
  local name
  while IFS= read -r name; do
    compgen -G "$CONDA_PREFIX/conda-meta/$name-[0-9]*.json" >/dev/null || echo "$name"
  done < <(sed '1,/^dependencies:/d; s/^ *- *//; s/[^a-z0-9_-].*//; /^cuda-\|^libcublas\|^$/d' "$conda_list")
}

conda_is_complete() { [[ -n ${CONDA_PREFIX-} && -z $(conda_lacks) ]]; }

# The environment "base" is active for many who never asked for it.
conda_is_active() { [[ -n ${CONDA_PREFIX-} && ${CONDA_DEFAULT_ENV-} != base ]]; }

use_conda() {
  export PATH=$CONDA_PREFIX/bin:$PATH
  export CXX=${CXX:-$CONDA_PREFIX/bin/g++}
  export CMAKE_PREFIX_PATH=$CONDA_PREFIX${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export PKG_CONFIG_PATH=$CONDA_PREFIX/lib/pkgconfig:$CONDA_PREFIX/share/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
  export LDFLAGS="-Wl,-rpath,$CONDA_PREFIX/lib ${LDFLAGS-}"
}

# leave_conda: the system's compilers and libraries come before those of an environment that is incomplete:
# a few libraries of conda beside the system's do not go together.
leave_conda() {
  [[ -n ${CONDA_PREFIX-} ]] || return 0
  local folder name first="" last=""
  while IFS= read -r -d : folder; do
    if [[ $folder == "$CONDA_PREFIX"/* ]]; then last+=:$folder; else first+=:$folder; fi
  done <<<"$PATH:"
  PATH=${first#:}$last
  for name in CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CMAKE_PREFIX_PATH PKG_CONFIG_PATH; do
    if [[ ${!name-} == *"$CONDA_PREFIX"* ]]; then unset "$name"; fi
  done
}

# advise_conda: the one command that brings what is missing.
advise_conda() {
  if conda_is_active; then
    say "the conda environment ${CONDA_DEFAULT_ENV:-$CONDA_PREFIX} lacks $(conda_lacks | paste -sd ' '); to build with it:" \
      "conda env update --prefix $CONDA_PREFIX --file $PWD/$conda_list"
  else
    say "with conda or mamba, this brings all that is needed, without root:" \
      "conda env create --file $PWD/$conda_list && conda activate skald"
  fi
}

# require_old_glibc VERSION: exits unless the active environment is complete, and its compiler builds for this
# version of the C library or an older one.
require_old_glibc() {
  local wanted=$1 sysroot file found=""
  sysroot=sysroot_linux-$(uname -m | sed 's/x86_64/64/')
  if ! conda_is_complete; then
    advise_conda
    exit 1
  fi
  for file in "$CONDA_PREFIX/conda-meta/$sysroot"-[0-9]*.json; do
    [[ $(basename "$file") =~ ^$sysroot-2\.([0-9]+)- ]] && found=${BASH_REMATCH[1]}
  done
  [[ -n $found ]] && ((found <= ${wanted#2.})) && return
  say "the conda environment ${CONDA_DEFAULT_ENV:-$CONDA_PREFIX} builds for glibc ${found:+2.}${found:-unknown}; run:" \
    "conda install --prefix $CONDA_PREFIX --channel conda-forge $sysroot=$wanted"
  exit 1
}
