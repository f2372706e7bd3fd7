# Completion of holdfast(1) for bash. The program lists its commands and their options itself.

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
  _holdfast_ask ls "" | LC_ALL=C grep -oE '"name":"[A-Za-z0-9_./:@%+=,-]+"' | cut -d '"' -f 4 | sort -u
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
  _holdfast_ask inspect "$name" | grep -oE '"holders":\[.*\],"waiters"' \
    | grep -oE '"token":"[^"]*"' | cut -d '"' -f 4
}

# Offers what an option or word takes, by the words of `holdfast help --options`.
_holdfast_value() {
  case "$1" in
    lock) _holdfast_offer < <(_holdfast_names) ;;
    token) _holdfast_offer < <(_holdfast_tokens) ;;
    store) _holdfast_offer < <("${COMP_WORDS[0]}" help --stores 2> /dev/null) ;;
    file) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
    folder) mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
    duration) _holdfast_offer < <(printf '%s\n' 1s 10s 30s 1m 5m 1h) ;;
    text) ;;
    *) _holdfast_offer < <(tr '|' '\n' <<< "$1") ;;
  esac
}

_holdfast() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_LINE:0:COMP_POINT}"
  # The word before the one that is typed; COMP_WORDS has parts of words.
  previous="${previous%"${previous##*[[:space:]]}"}"
  previous="${previous%"${previous##*[^[:space:]]}"}"
  previous="${previous##*[[:space:]]}"
  local command="${COMP_WORDS[1]}" name names takes word= i
  local -a options=()
  COMPREPLY=()

  if [ "$COMP_CWORD" -eq 1 ] || [ "$command" = help ]; then
    _holdfast_offer < <("${COMP_WORDS[0]}" help --commands 2> /dev/null | cut -d : -f 1)
    return
  fi
  while IFS=$'\t' read -r name names takes _; do
    [ "$name" = "$command" ] || continue
    if [ "$takes" = command ]; then
      for ((i = 2; i < COMP_CWORD; i++)); do
        [ "${COMP_WORDS[i]}" = -- ] || continue
        # What follows is a command line of its own.
        if declare -F _command_offset > /dev/null; then
          _command_offset $((i + 1))
        else
          mapfile -t COMPREPLY < <(compgen -c -- "$current")
        fi
        return
      done
    fi
    if [ "$takes" != flag ] && [[ " $names " = *" $previous "* ]]; then
      _holdfast_value "$takes" "$current"
      return
    fi
    case "$names" in
      -*) options+=(${names}) ;;
      VERB) [ "$COMP_CWORD" -eq 2 ] && word=$takes ;;
      *) word=${word:-$takes} ;;
    esac
  done < <("${COMP_WORDS[0]}" help --options 2> /dev/null)
  if [ -z "$word" ] || [ "$word" = text ] || [[ $current = -* ]]; then
    _holdfast_offer < <(printf '%s\n' "${options[@]}")
  else
    _holdfast_value "$word" "$current"
  fi
}
complete -F _holdfast holdfast
