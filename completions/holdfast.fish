# Completion of holdfast(1) for fish. The program lists its commands and their options itself.

function __holdfast_first
    test (count (commandline -opc)) -eq 1
end
function __holdfast_in
    set -l words (commandline -opc)
    test (count $words) -gt 1; and contains -- $words[2] $argv; and not contains -- -- $words
end

complete -c holdfast -f
for pair in (holdfast help --commands 2>/dev/null)
    set -l parts (string split -m 1 : $pair)
    complete -c holdfast -n "__holdfast_first; or __holdfast_in help" -a $parts[1] -d $parts[2]
end
for line in (holdfast help --options 2>/dev/null)
    set -l row (string split \t $line)
    set -l spec -n "__holdfast_in $row[1]" -d $row[5]
    switch $row[3]
        case flag
        case file
            set -a spec -r -F
        case folder
            set -a spec -x -a '(__fish_complete_directories)'
        case store
            set -a spec -x -a '(holdfast help --stores)'
        case duration
            set -a spec -x -a '1s 10s 30s 1m 5m 1h'
        case text lock token command
            set -a spec -x
        case '*'
            set -a spec -x -a (string replace -a '|' ' ' $row[3])
    end
    for name in (string split -- ' ' $row[2])
        switch $name
            case '--?*'
                set -a spec -l (string sub -s 3 -- $name)
            case '-?'
                set -a spec -s (string sub -s 2 -- $name)
        end
    end
    test $row[2] = --; or complete -c holdfast $spec
end
