# For Spack 1.0 or newer: spack repo add scripts/packages/spack/spack_repo/skald && spack install skald
# Behind # stands the Debian package of the same thing.
from pathlib import Path

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Skald(CMakePackage, CudaPackage):
    """Runs LLaMA-style language models from the terminal, on CPUs and NVIDIA GPUs."""

    # The checkout that this file is in.
    git = Path(__file__).resolve().parents[7].as_uri()

    license("MIT")

    version("main", branch="main")

    depends_on("cxx", type="build")  # g++
    depends_on("cmake@3.25:", type="build")  # cmake
    depends_on("ninja", type="build")  # ninja-build
    depends_on("pkgconfig", type="build")  # pkg-config
    depends_on("cli11")  # libcli11-dev
    depends_on("nlohmann-json")  # nlohmann-json3-dev
    depends_on("sentencepiece")  # libsentencepiece-dev
    depends_on("pcre2")  # libpcre2-dev
    depends_on("utf8proc")  # libutf8proc-dev
    depends_on("highway")  # libhwy-dev
    depends_on("libedit")  # libedit-dev
    depends_on("curl")  # libcurl4-openssl-dev
    depends_on("catch2", type="test")  # catch2
    depends_on("cuda@12:", when="+cuda")

    conflicts("%gcc@:11", msg="skald is written in C++20: use gcc 12 or newer")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define_from_variant("SKALD_CUDA", "cuda"),
            self.define("BUILD_TESTING", self.run_tests),
        ]
        architectures = self.spec.variants.get("cuda_arch")
        if self.spec.satisfies("+cuda") and architectures and architectures.value != ("none",):
            # The kernels for Hopper use instructions of sm_90a.
            names = ["90a" if name == "90" else name for name in architectures.value]
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", [f"{name}-real" for name in names]))
        return args

    def check(self):
        with working_dir(self.build_directory):
            ctest("--output-on-failure")
