# Run by cpack over the files of a package: paths to libraries on the build machine mean nothing elsewhere.
file(GLOB_RECURSE program ${CPACK_TEMPORARY_DIRECTORY}/skald)
list(FILTER program INCLUDE REGEX "/bin/skald$")
file(RPATH_SET FILE ${program} NEW_RPATH [[$ORIGIN/../lib/skald]])
