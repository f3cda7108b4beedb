# Run by cpack over the files of a package: the path to the build machine's toolkit means nothing elsewhere.
file(GLOB_RECURSE program ${CPACK_TEMPORARY_DIRECTORY}/skald)
list(FILTER program INCLUDE REGEX "/bin/skald$")
file(RPATH_CHANGE FILE ${program} OLD_RPATH "${CPACK_SKALD_RPATH}" NEW_RPATH "$ORIGIN/../lib/skald")
