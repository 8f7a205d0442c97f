# The compiler's part of the numeric contract (NUMERICS.md), applied to every target: no contraction, no reassociation,
# no fast math. Instruction sets are chosen per file (argon_isa) and at run time, never for the whole build.
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off;-fno-fast-math;-fno-math-errno;-fno-trapping-math>")

# The target's processor family, which decides what levels there are (ops/route.h): x86, arm or other.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(ARGON_FAMILY x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(ARGON_FAMILY arm)
else()
  set(ARGON_FAMILY other)
endif()

# argon_isa(ISA file.cpp ...): compile files for one instruction set level; for a level of another family, as they are.
function(argon_isa isa)
  if(ARGON_FAMILY STREQUAL x86)
    set(flags_avx2 -O3 -mavx2 -mfma -mf16c -mbmi2 -mtune=haswell)
    set(flags_avx512 -O3 -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
      -mtune=icelake-server -mprefer-vector-width=512
      -Wno-uninitialized -Wno-maybe-uninitialized)  # GCC 12 finds its own intrinsics' undefined operands
    set(flags_amx ${flags_avx512} -mamx-tile -mamx-int8)
  elseif(ARGON_FAMILY STREQUAL arm)
    set(flags_neon -O3 -march=armv8.2-a+dotprod)
  endif()
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${flags_${isa}}")
endfunction()
