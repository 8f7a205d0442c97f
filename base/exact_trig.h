#pragma once
#include <cmath>
#include <cstdint>
namespace argon { inline double exact_cos(double a){return std::cos(a);} inline double exact_sin(double a){return std::sin(a);} inline float rope_theta(float base,int64_t i,int64_t rot){return (float)std::pow((double)base,-2.0*(double)i/(double)rot);} }
