# Completion of holdfast(1) for bash.

# Reads the locks from the store that the line names, for two seconds: a store that is away
# must not hang the shell. Prints `holdfast ls` or `holdfast inspect` as JSON.
_holdfast_ask() {
  local -a line store=()
  local i
  read -ra line <<< "${COMP_LINE:0:COMP_POINT}"
  for ((i = 2; i < ${#line[@]}; i++)); do
    case "${line[i]}" in
      --) break ;;
      --store | --config) store+=("${line[i]}=${line[i + 1]}") ;;
      --store=* | --config=*) store+=("${line[i]}") ;;
    esac
  done
  timeout -k 1 2 "${COMP_WORDS[0]}" "$1" --json -q "${store[@]}" -- "$2" < /dev/null 2> /dev/null
}

# Offers the words of the standard input, one a line, that begin with what was typed. The shell
# splits a word at ':', '=' and '@': only what follows the last of them is put in its place.
_holdfast_offer() {
  local typed="${COMP_LINE:0:COMP_POINT}" word
  typed="${typed##*[[:space:]]}"
  local before="${typed%"${typed##*[:=@]}"}"
  while IFS= read -r word; do
    [[ $word = "$typed"* ]] && COMPREPLY+=("${word#"$before"}")
  done
}

# Names that JSON or the shell would escape are left out.
_holdfast_names() {
  _holdfast_offer < <(_holdfast_ask ls "" | LC_ALL=C grep -oE '"name":"[A-Za-z0-9_./:@%+=,-]+"' | cut -d '"' -f 4 | sort -u)
}

_holdfast_commands() {
  "${COMP_WORDS[0]}" help --commands 2> /dev/null | cut -d : -f 1
}

# The tokens of those who hold the lock that the line names.
_holdfast_tokens() {
  local -a line
  local i name=
  read -ra line <<< "${COMP_LINE:0:COMP_POINT}"
  for ((i = 2; i < ${#line[@]}; i++)); do
    case "${line[i]}" in
      --store | --config | --token | --reason | --log-format) ((++i)) ;;
      -*) ;;
      *) name="${line[i]}"; break ;;
    esac
  done
  [ -n "$name" ] || return
  _holdfast_offer < <(_holdfast_ask inspect "$name" | grep -oE '"holders":\[.*\],"waiters"' \
    | grep -oE '"token":"[^"]*"' | cut -d '"' -f 4)
}

_holdfast() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_LINE:0:COMP_POINT}"
  # The word before the one that is typed; COMP_WORDS has parts of words.
  previous="${previous%"${previous##*[[:space:]]}"}"
  previous="${previous%"${previous##*[^[:space:]]}"}"
  previous="${previous##*[[:space:]]}"
  local command="${COMP_WORDS[1]}" i
  local common="--store --config --log-format --json -v --verbose -q --quiet -h --help"
  local lock="--wait --no-wait --ttl --shared --exclusive --permits --reason --trace-id"
  COMPREPLY=()

  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_holdfast_commands)" -- "$current")
    return
  fi
  if [ "$command" = fence ] && [ "$COMP_CWORD" -eq 2 ]; then
    mapfile -t COMPREPLY < <(compgen -W "check --help" -- "$current")
    return
  fi
  if [ "$command" = failover ] && [ "$COMP_CWORD" -eq 2 ]; then
    mapfile -t COMPREPLY < <(compgen -W "status switch return --help" -- "$current")
    return
  fi
  if [ "$command" = id ] && [ "$COMP_CWORD" -eq 2 ]; then
    mapfile -t COMPREPLY < <(compgen -W "init next decode workers status floor --help" -- "$current")
    return
  fi
  if [ "$command" = server ] && [ "$COMP_CWORD" -eq 2 ]; then
    mapfile -t COMPREPLY < <(compgen -W "status members step-down drain verify backup restore password --help" -- "$current")
    return
  fi
  if [ "$command" = store ] && [ "$COMP_CWORD" -eq 2 ]; then
    mapfile -t COMPREPLY < <(compgen -W "init --help" -- "$current")
    return
  fi
  if [ "$command" = run ] || [ "$command" = elect ] || [ "$command" = fence ]; then
    for ((i = 2; i < COMP_CWORD; i++)); do
      if [ "${COMP_WORDS[i]}" = -- ]; then
        # What follows is a command line of its own.
        if declare -F _command_offset > /dev/null; then
          _command_offset $((i + 1))
        else
          mapfile -t COMPREPLY < <(compgen -c -- "$current")
        fi
        return
      fi
    done
  fi

  case "$previous" in
    --on-lost) mapfile -t COMPREPLY < <(compgen -W "term kill ignore" -- "$current"); return ;;
    --sort) mapfile -t COMPREPLY < <(compgen -W "name queue age left" -- "$current"); return ;;
    --log-format) mapfile -t COMPREPLY < <(compgen -W "text json logfmt" -- "$current"); return ;;
    --contain) mapfile -t COMPREPLY < <(compgen -W "tree pidns cgroup" -- "$current"); return ;;
    --leftover) mapfile -t COMPREPLY < <(compgen -W "end wait leave" -- "$current"); return ;;
    --mode) mapfile -t COMPREPLY < <(compgen -W "exclusive shared" -- "$current"); return ;;
    --state | --data) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
    --config | --file | --metrics-textfile) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    --store) _holdfast_offer < <("${COMP_WORDS[0]}" help --stores 2> /dev/null); return ;;
    --token)
      [ "$command" = break ] && _holdfast_tokens
      return ;;
    --layout) mapfile -t COMPREPLY < <(compgen -W "twitter twitter-machine-first leaf uidgenerator sonyflake javascript" -- "$current"); return ;;
    --policy) mapfile -t COMPREPLY < <(compgen -W "logical refuse wait:5ms step:1024 extension:2:5ms" -- "$current"); return ;;
    --journal) mapfile -t COMPREPLY < <(compgen -W "sqlite: memory:" -- "$current"); return ;;
    --listen | --reason | --trace-id | --permits | --json-fd | --exit-* | -E | --value | --count | --workers | --in-flight | --names) return ;;
    --require) mapfile -t COMPREPLY < <(compgen -W "fenced fair shared permits upgrade \
      list watch-every-change values multi survives-restart survives-failover" -- "$current"); return ;;
    -w | --wait | --ttl | --max-hold | --lock-delay | --min-hold | --kill-after | --duration | --interval)
      mapfile -t COMPREPLY < <(compgen -W "1s 10s 30s 1m 5m 1h" -- "$current"); return ;;
  esac

  case "$command" in
    run) common="$common $lock --reenter --metrics-textfile --max-hold --lock-delay --min-hold --on-lost --kill-after --contain --leftover --json-fd --exit-max-hold --exit-lost \
      --exit-timeout --exit-error --" ;;
    elect) common="$common --wait --no-wait --ttl --reason --trace-id --max-hold --lock-delay --min-hold --on-lost --kill-after \
      --contain --leftover --json-fd --exit-max-hold --exit-lost --exit-timeout --exit-error --value --again --observe --count --" ;;
    hold) common="$common $lock --max-hold --lock-delay" ;;
    acquire) common="$common $lock" ;;
    renew) common="$common --ttl" ;;
    ls) common="$common --outcomes" ;;
    watch) common="$common --count" ;;
    top) common="$common --interval --sort --once --plain" ;;
    break) common="$common --token --reason" ;;
    doctor) common="$common --require" ;;
    store) common="$common --print-sql" ;;
    serve) common="--config --listen --http --http-host --data --journal --shards --advertise --users --tls-cert --tls-key --plaintext --clients-stopped --log-format --json -q --quiet -h --help" ;;
    server) common="--store --config --address --log-format --json -q --quiet -h --help" ;;
    bench) common="$common --in-flight --threads --names --duration --ttl" ;;
    id) common="--file --layout --policy --workers --count --uuid --ulid --store --segments --counter --require --floor --reason --json -q --quiet -h --help" ;;
    fence) common="--token --mode --file --state --wait --store --json -q --quiet -h --help --" ;;
    help) common=$(_holdfast_commands) ;;
  esac
  case "$command:$current" in
    *:-*) ;;
    run:* | elect:* | hold:* | acquire:* | ls:* | status:* | inspect:* | watch:* | top:* | break:*)
      _holdfast_names
      return ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$common" -- "$current")
}
complete -F _holdfast holdfast
