// Loops that do one thing as fast as an instruction set can; what they return only keeps the compiler from
// leaving them out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace argon {

// Reads n bytes (a multiple of 256) once, in order.
uint64_t read_memory(const uint8_t* p, size_t n);
uint64_t read_memory_avx2(const uint8_t* p, size_t n);

// `turns` turns of kInt8PerTurn* multiply-adds of int8 pairs into int32 sums.
inline constexpr int64_t kInt8PerTurn = 64, kInt8PerTurnAvx2 = 256, kInt8PerTurnAvx512 = 768,
                         kInt8PerTurnAmx = 65536;
uint64_t multiply_int8(int64_t turns);
uint64_t multiply_int8_avx2(int64_t turns);
uint64_t multiply_int8_avx512(int64_t turns);
uint64_t multiply_int8_amx(int64_t turns);

}  // namespace argon
