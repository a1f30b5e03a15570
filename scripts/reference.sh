#!/usr/bin/env bash
# Makes results/reference/ anew: the committed comparison at full scale, with its
# recovery waited for. It takes about 20 minutes and wants a machine that does
# nothing else; an invalid run in it ends with exit code 3, and it should then be
# made again. The figures in the README are from its report.
set -euo pipefail
cd "$(dirname "$0")/.."

reference=results/reference
rm -rf "$reference"
make compare PROFILES=anti,fixed RUNS=3 RECOVERY_WAIT=150s RESULTS="$reference"
# Raw dumps shrink to a thirtieth; the reports link what they find.
gzip -9 -n "$reference"/*/dumps/*.txt
bin/lab report "$reference"/*/
du -sh "$reference"
