# CUDA: language, architectures and the numeric contract's flags for nvcc (no contraction, subnormals flushed,
# division and roots correctly rounded).
# Compute capability 9.0 has kernels of its own; for 8.x, 10.x and newer the driver compiles the portable ones when they
# are first used.
set(CMAKE_CUDA_ARCHITECTURES "80-virtual;90a-real" CACHE STRING "GPU architectures to build for (80 and newer)")
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
# CMake 3.25 does not know that this nvcc speaks C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_FLAGS_RELEASE "-O2")
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(ARGON_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${ARGON_CCACHE})
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;--ftz=true;--prec-div=true;--prec-sqrt=true;--expt-relaxed-constexpr;-Xcompiler=-ffp-contract=off>")
