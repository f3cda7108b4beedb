# The CUDA backend where a toolkit is found, else the file that stands in for it.
if(SKALD_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
endif()

if(SKALD_CUDA AND CMAKE_CUDA_COMPILER)
  # PTX that every GPU from sm_75 on can compile at start, and code for those with special kernels.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 75-virtual 80-real 90a-real)
  endif()
  enable_language(CUDA)
  # This option of nvcc is for host code, which only launches kernels here. Kernels are optimized
  # without it.
  string(REPLACE -O3 -O1 CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
  # CMake 3.25.1, which Debian 12 has, fails without this library, which CUDA 13 no longer has.
  if(NOT TARGET CUDA::nvToolsExt)
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
  endif()
  find_package(CUDAToolkit REQUIRED)
  if(CUDAToolkit_VERSION VERSION_LESS 12.0)
    message(FATAL_ERROR "skald: CUDA ${CUDAToolkit_VERSION} found, 12.0 or newer needed; load a newer one or "
                        "configure with -DSKALD_CUDA=OFF")
  endif()
  file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS cuda/*.cpp cuda/*.cu)
  list(FILTER cuda_sources EXCLUDE REGEX "no_cuda.cpp$")
  # Kernels named *_sm90* run on sm_90a alone: their files are compiled once, not for each architecture.
  set(sm90_sources ${cuda_sources})
  list(FILTER sm90_sources INCLUDE REGEX "_sm90[^/]*[.]cu$")
  list(REMOVE_ITEM cuda_sources ${sm90_sources})
  add_library(skald_cuda_sm90 OBJECT ${sm90_sources})
  add_library(skald_cuda STATIC ${cuda_sources} $<TARGET_OBJECTS:skald_cuda_sm90>)
  if("${CMAKE_CUDA_ARCHITECTURES}" MATCHES "90a")
    set_target_properties(skald_cuda_sm90 PROPERTIES CUDA_ARCHITECTURES 90a-real)
  endif()
  option(SKALD_CUDA_DELAYS "For tests: random sleeps in kernels, so that races show" OFF)
  foreach(library IN ITEMS skald_cuda skald_cuda_sm90)
    # CMake 3.25 does not know that nvcc 13 takes C++20, so the option is given by hand.
    set_target_properties(${library} PROPERTIES CUDA_STANDARD_REQUIRED OFF)
    target_compile_options(${library} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>
                                              $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Werror=switch>)
    target_include_directories(${library} PUBLIC ${PROJECT_SOURCE_DIR})
    if("${CMAKE_CUDA_ARCHITECTURES}" MATCHES "90a")
      target_compile_definitions(${library} PRIVATE SKALD_HAS_SM90A)
    endif()
    if(SKALD_CUDA_DELAYS)
      target_compile_definitions(${library} PRIVATE SKALD_CUDA_DELAYS)
    endif()
  endforeach()
  # Embeddings are what decode() gives to the last bit, and blocks what encode() gives.
  set_source_files_properties(cuda/kernels/tiles/tiles.cu cuda/kernels/tiles/quantize.cu PROPERTIES COMPILE_OPTIONS
                              --fmad=false)
  # What the binary holds, for `skald doctor` and the choice of a device.
  set(held "${CMAKE_CUDA_ARCHITECTURES}")
  foreach(word IN ITEMS NATIVE ALL_MAJOR ALL)  # CMake's own names for lists
    string(TOLOWER "${word}" value)
    string(REPLACE "_" "-" value "${value}")
    if(held STREQUAL value)
      set(held "${CMAKE_CUDA_ARCHITECTURES_${word}}")
    endif()
  endforeach()
  list(JOIN held " " held)
  set(skald_build_kind "CUDA ${CUDAToolkit_VERSION} for ${held}")
  set_source_files_properties(cuda/gpu/device.cpp PROPERTIES COMPILE_DEFINITIONS
    "SKALD_CUDA_ARCHITECTURES=\"${held}\";SKALD_CUDA_TOOLKIT=\"${CUDAToolkit_VERSION}\"")
  target_link_libraries(skald_cuda PRIVATE CUDA::cudart_static)
  # cuBLASLt is opened at run time (cuda/gpu/cublas_library.h). A program in the build folder finds the
  # toolkit's, and so does one that is installed on this machine.
  find_path(CUBLAS_INCLUDE_DIR cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(NOT CUBLAS_INCLUDE_DIR)
    message(FATAL_ERROR "skald: the toolkit has no cublasLt.h; install its package libcublas-dev, or configure with "
                        "-DSKALD_CUDA=OFF")
  endif()
  if(CUDA_cublasLt_LIBRARY)
    get_filename_component(cublas_folder ${CUDA_cublasLt_LIBRARY} DIRECTORY)
    list(APPEND CMAKE_INSTALL_RPATH ${cublas_folder})
  endif()
  message(STATUS "skald: CUDA ${CUDAToolkit_VERSION} found, building for the GPU and the CPU")
else()
  # Steps and their memory can be planned for a GPU anywhere, as if for a build with all kernels.
  file(GLOB planning CONFIGURE_DEPENDS cuda/plan/*.cpp cuda/kernels/*/*_host.cpp)
  add_library(skald_cuda STATIC cuda/no_cuda.cpp cuda/gpu/faults.cpp ${planning})
  target_compile_definitions(skald_cuda PRIVATE SKALD_HAS_SM90A)
  set(skald_build_kind "CPU only")
  if(SKALD_CUDA)
    message(STATUS "skald: no CUDA toolkit (nvcc) found, building for the CPU alone")
  else()
    message(STATUS "skald: CUDA left out (SKALD_CUDA is off), building for the CPU alone")
  endif()
endif()
target_link_libraries(skald_cuda PUBLIC skald_engine)
# Host code plans and launches; what the CPU computes for a GPU is in the engine.
target_compile_options(skald_cuda PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
skald_join_rooms(skald_cuda)
