#!/bin/bash
# compute-sanitizer over cuda_ops_parity, one test a process, several at a time: memcheck and racecheck
# (shared-memory hazards) of every kernel at the tests' sizes. Racecheck over the whole model test
# did not end in 100 seconds; cut like this, tests that do not end within LIMIT seconds are named.
#
#   cuda/tools/sanitize.sh build/cuda-static/bin/cuda_ops_parity ['memcheck racecheck'] [FILTER]
#
# LIMIT: seconds for one test (100); JOBS: tests at a time (8); EVERY=n: one case in n where a test has that many.
# Exit status 1 if anything was found.
binary=$1 tools=${2:-memcheck racecheck} filter=${3:-*}
export LIMIT=${LIMIT:-100} ARGON_PARITY_EVERY=${EVERY:-1} binary
logs=$(mktemp -d)
export logs
one() {
  local tool=$1 test=$2 start=$SECONDS log=$logs/$1.$2
  timeout "$LIMIT" compute-sanitizer --tool "$tool" --error-exitcode 9 "$binary" --gtest_filter="$test" >"$log" 2>&1
  local status=$? verdict=clean
  [ $status = 124 ] && verdict="not finished"
  [ $status != 0 ] && [ $status != 124 ] && verdict="FAILED ($status)"
  echo "$tool $test: $verdict, $((SECONDS - start)) s, $(grep -h 'SUMMARY' "$log" | tail -1 | sed 's/=* *//')"
  if [ $status != 0 ] && [ $status != 124 ]; then
    grep -m 6 'Error\|Race\|hazard\|FAILED\|Invalid' "$log" | cut -c1-200
  fi
}
export -f one
tests=$("$binary" --gtest_list_tests --gtest_filter="$filter" | awk '/^[^ ]/ {suite = $1} /^ / {print suite $1}')
for tool in $tools; do
  for test in $tests; do echo "$tool $test"; done
done | xargs -P "${JOBS:-8}" -L 1 bash -c 'one $0 $1' | tee "$logs/all"
! grep -q 'FAILED' "$logs/all"
