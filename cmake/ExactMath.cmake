# The compiler's part of the numeric contract (NUMERICS.md), applied to every target: no contraction, no reassociation,
# no fast math. Instruction sets are chosen per file (argon_isa) and at run time, never for the whole build.
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off;-fno-fast-math;-fno-math-errno;-fno-trapping-math>")

# argon_isa(ISA file.cpp ...): compile files for one instruction set level.
function(argon_isa isa)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    return()
  endif()
  set(flags_avx2 -O3 -mavx2 -mfma -mf16c -mbmi2 -mtune=haswell)
  set(flags_avx512 -O3 -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mtune=icelake-server)
  set(flags_amx ${flags_avx512} -mamx-tile -mamx-int8)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${flags_${isa}}")
endfunction()
