# CUDA: language, architectures and the numeric contract's flags for nvcc (no contraction, subnormals flushed,
# division and roots correctly rounded).
set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "GPU architectures to build for (80 and newer)")
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_FLAGS_RELEASE "-O2")
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(ARGON_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${ARGON_CCACHE})
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;--ftz=true;--prec-div=true;--prec-sqrt=true;--expt-relaxed-constexpr;-Xcompiler=-ffp-contract=off>")
