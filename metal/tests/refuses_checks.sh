#!/bin/sh
# refuses_checks.sh PROGRAM: `PROGRAM --checks --backend cuda` ends with 2 and one line that says why.
said=$("$1" --checks --backend cuda 2>&1)
code=$?
echo "$said"
[ "$code" = 2 ] && [ "$(echo "$said" | wc -l)" = 1 ] && echo "$said" | grep -q -e '--checks is for Metal kernels'
