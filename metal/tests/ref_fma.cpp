#include "metal/tests/ref_fma.h"

#define gdn_pre_ref gdn_pre_ref_fma
#define gdn_scan_ref gdn_scan_ref_fma
#define gdn_post_ref gdn_post_ref_fma
#include "ops/gdn/gdn_ref.cpp"  // NOLINT: on purpose, see ref_fma.h
