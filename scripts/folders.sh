# shellcheck shell=bash
# Sourced by setup.sh: the folder for what is fetched without root, and folders that can be written.

# can_make FOLDER: true if FOLDER can be written, or if it is missing and can be made.
can_make() {
  local folder=$1
  while [[ ! -e $folder && ! -L $folder ]]; do folder=$(dirname "$folder"); done
  [[ -d $folder && -w $folder && -x $folder ]]
}

# is_own FOLDER: true if FOLDER is a folder that this user alone can write, and not a link to one.
is_own() {
  [[ -d $1 && ! -L $1 && -O $1 ]] && (((8#$(stat -c %a "$1") & 8#022) == 0))
}

# choose_cache USUAL SPARE: sets $cache to one of the two folders. It is SPARE where USUAL cannot be written and
# nothing was installed there before. Programs are started from SPARE, and another user could make a folder of
# that name; so SPARE must belong to this user. app/doctor/toolkit.cpp chooses in the same way.
choose_cache() {
  cache=$1 spare_cache=$2
  cache_advice="set XDG_CACHE_HOME to a folder that you can write"
  [[ ! -d $1/cuda && ! -d $1/deps ]] || return 0
  if can_make "$1"; then return; fi
  if [[ ! -e $2 && ! -L $2 ]] || is_own "$2"; then
    cache=$2
  else
    cache_advice+=" ($2 is a $(stat -c '%F of %U, mode %a' "$2"): not a folder that you alone can write)"
  fi
}

# make_cache: makes the folder $cache. Call it before something is written there.
make_cache() {
  if [[ $cache != "$spare_cache" ]]; then
    make_folder "$cache" "$cache_advice"
    return
  fi
  mkdir -m 700 "$cache" 2>/dev/null || true # it may be there already, whoever made it
  make_folder "$cache" "$cache_advice"
  is_own "$cache" || { say "others can write to $cache; $cache_advice"; exit 1; }
  say "no home that can be written: using $cache (XDG_CACHE_HOME names another place)"
}

# make_folder FOLDER ADVICE: makes the folder if it is missing. Ends with a line that says why, and ADVICE, if it
# cannot be written.
make_folder() {
  local why=""
  if why=$(mkdir -p "$1" 2>&1) && [[ -w $1 && -x $1 ]]; then return; fi
  why=${why##*: }
  say "cannot write to $1: ${why:-Permission denied}; $2"
  exit 1
}
