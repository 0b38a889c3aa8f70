#!/usr/bin/env bash
# Runs parts of the test suite, which are make targets, and goes on after a failure. Usage:
#
#   conformance/test.sh WAVE …     WAVE = '[busy:]JOBS:TARGET …'
#
# A wave runs its targets, at most JOBS at a time; the next wave begins when all have ended. "busy:" runs LOOPS (4) loops
# that do nothing but compute beside the wave, and its targets with GOMAXPROCS=1, since no test's verdict may depend
# on the speed of the machine. What a target prints is in bin/test/TARGET.log, too. The end names what failed and how
# long each took. The exit code is 0 if all passed.
set -u -o pipefail
export logs=bin/test
rm -rf "$logs" && mkdir -p "$logs"
loops=()
trap '[ ${#loops[@]} -eq 0 ] || kill "${loops[@]}" 2>/dev/null' EXIT
trap 'exit 130' INT TERM

# run TARGET writes its seconds and its exit code beside its log.
run() {
  local from=$EPOCHSECONDS code=0
  make --no-print-directory "$1" </dev/null 2>&1 | tee "$logs/$1.log" || code=$?
  echo "$((EPOCHSECONDS - from)) $1 $code" >"$logs/$1.result"
}
export -f run
minutes() { printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); }

for wave in "$@"; do
  procs=()
  if [[ $wave == busy:* ]]; then
    wave=${wave#busy:} procs=(env GOMAXPROCS=1)
    echo "beside ${LOOPS:-4} busy loops, with GOMAXPROCS=1: ${wave#*:}"
    for _ in $(seq "${LOOPS:-4}"); do timeout 3h bash -c 'while :; do :; done' & loops+=($!); done
  fi
  tr ' ' '\n' <<<"${wave#*:}" | "${procs[@]}" xargs -P "${wave%%:*}" -I TARGET bash -o pipefail -c 'run TARGET'
  [ ${#loops[@]} -eq 0 ] || { kill "${loops[@]}"; wait "${loops[@]}" 2>/dev/null; loops=(); }
done

results=$(sort -rn "$logs"/*.result)
printf '\ntime of each part, the longest first:\n'
while read -r seconds part code; do
  printf '  %-30s %8s  %s\n' "$part" "$(minutes "$seconds")" "$([ "$code" = 0 ] && echo passed || echo FAILED)"
done <<<"$results"
failed=$(awk '$3 != 0 {print $2}' <<<"$results")
[ -z "$failed" ] || printf '\nfailures:\n'
for part in $failed; do
  # Failed tests, then packages that failed otherwise; with neither, the end of the output.
  what=$(grep -E '^ *--- FAIL: |^FAIL[[:space:]]+[a-z]|^(panic|fatal error): ' "$logs/$part.log" | awk '!seen[$0]++' | head -n 40)
  printf '%s (%s)\n%s\n' "$part" "$logs/$part.log" "$(sed 's/^/    /' <<<"${what:-$(tail -n 15 "$logs/$part.log")}")"
done
count=$(wc -w <<<"$failed")
printf '\nall parts together: %s\nparts: %d passed, %d failed\n' "$(minutes $SECONDS)" $(($(wc -l <<<"$results") - count)) "$count"
[ "$count" -eq 0 ]
