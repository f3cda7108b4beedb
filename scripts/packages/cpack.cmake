# Packages of a build folder, for scripts/package:
#   DEB  for Debian and Ubuntu, of the release that it is built on, or newer
#   TGZ  a folder that runs anywhere with a C library as new as the one that the build needs: all other
#        libraries are inside, in lib/skald
set(CPACK_PACKAGE_VENDOR "the skald developers")
set(CPACK_PACKAGE_CONTACT "the skald developers <skald@skald.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "runs LLaMA-style language models from the terminal")
set(CPACK_PACKAGE_DESCRIPTION "skald reads Hugging Face folders and GGUF files, in 16 bit and quantized,
and runs them on CPUs and NVIDIA GPUs. A small model is bundled.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_FILE_NAME skald-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # Depends: the packages of the libraries that the program needs
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)  # skald pull checks the hub's certificate
if(CUDAToolkit_FOUND)  # opened at run time, and not needed without a GPU
  string(REGEX MATCH "^[0-9]+[.][0-9]+" cuda_minor ${CUDAToolkit_VERSION})
  string(REPLACE . - cuda_minor ${cuda_minor})
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS libcublas-${cuda_minor})
endif()

# The libraries of the tarball: all but the C library's own parts, which belong to the system's loader.
install(RUNTIME_DEPENDENCY_SET skald_libraries COMPONENT libraries EXCLUDE_FROM_ALL
        PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|mvec|dl|rt|pthread|resolv|anl|util)[.]so"
        DESTINATION lib/skald)

set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/cpack_generator.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/cpack_rpath.cmake)
set(CPACK_SKALD_BUILD ${PROJECT_BINARY_DIR})
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
