# Completion of holdfast(1) for bash.

_holdfast() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
  local command="${COMP_WORDS[1]}" i
  local common="--store --config --log-format --json -v --verbose -q --quiet -h --help"
  local lock="--wait --no-wait --ttl --shared --exclusive --permits --reason --trace-id"
  COMPREPLY=()

  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "run elect hold acquire renew release ls status inspect watch top break \
      doctor bench fence help version" -- "$current")
    return
  fi
  if [ "$command" = fence ] && [ "$COMP_CWORD" -eq 2 ]; then
    mapfile -t COMPREPLY < <(compgen -W "check --help" -- "$current")
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
    --state) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
    --config | --file | --metrics-textfile) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    --store) mapfile -t COMPREPLY < <(compgen -W "sqlite:/// redis:// rediss:// \
      redis+unix:/// zookeeper:// etcd:// etcds:// consul:// consuls:// memory:" -- "$current"); return ;;
    --require) mapfile -t COMPREPLY < <(compgen -W "fenced fair shared permits upgrade \
      list watch-every-change values multi survives-restart survives-failover" -- "$current"); return ;;
    -w | --wait | --ttl | --max-hold | --min-hold | --kill-after | --duration | --interval)
      mapfile -t COMPREPLY < <(compgen -W "1s 10s 30s 1m 5m 1h" -- "$current"); return ;;
  esac

  case "$command" in
    run) common="$common $lock --reenter --metrics-textfile --max-hold --min-hold --on-lost --kill-after --contain --leftover --json-fd --exit-max-hold --exit-lost \
      --exit-timeout --exit-error --" ;;
    elect) common="$common --wait --no-wait --ttl --reason --trace-id --max-hold --min-hold --on-lost --kill-after \
      --contain --leftover --json-fd --exit-max-hold --exit-lost --exit-timeout --exit-error --value --again --observe --count --" ;;
    hold) common="$common $lock --max-hold" ;;
    acquire) common="$common $lock" ;;
    renew) common="$common --ttl" ;;
    watch) common="$common --count" ;;
    top) common="$common --interval --sort --once --plain" ;;
    break) common="$common --token --reason" ;;
    doctor) common="$common --require" ;;
    bench) common="$common --in-flight --threads --names --duration --ttl" ;;
    fence) common="--token --mode --file --state --wait --json -q --quiet -h --help --" ;;
    help) common="run elect hold acquire renew release ls status inspect watch top break doctor bench fence version" ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$common" -- "$current")
}
complete -F _holdfast holdfast
