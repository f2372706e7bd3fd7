# Completion of holdfast(1) for fish.

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
    complete -c holdfast -n __holdfast_first -a $parts[1] -d $parts[2]
end

set -l all run elect hold acquire renew release ls status inspect watch top break doctor store failover bench
complete -c holdfast -n "__holdfast_in $all" -l store -x -a '(holdfast help --stores)' -d 'the store'
complete -c holdfast -n "__holdfast_in $all" -l config -r -F -d 'configuration file'
complete -c holdfast -n "__holdfast_in $all" -l log-format -x -a 'text json logfmt' -d 'format of messages on stderr'
complete -c holdfast -n "__holdfast_in $all" -l json -d 'print JSON'
complete -c holdfast -n "__holdfast_in $all" -s v -l verbose -d 'also print store and token'
complete -c holdfast -n "__holdfast_in $all" -s q -l quiet -d 'print failures only'
complete -c holdfast -n "__holdfast_in $all" -s h -l help -d 'explain the command'
complete -c holdfast -n '__holdfast_in run elect hold acquire' -s w -l wait -x -d 'longest wait'
complete -c holdfast -n '__holdfast_in run elect hold acquire' -s n -l no-wait -d 'do not wait'
complete -c holdfast -n '__holdfast_in run elect hold acquire renew bench' -l ttl -x -d 'length of the lease'
complete -c holdfast -n '__holdfast_in run hold acquire' -s s -l shared -d 'hold it together with other shared holders'
complete -c holdfast -n '__holdfast_in run hold acquire' -s x -l exclusive -d 'hold it alone, the default'
complete -c holdfast -n '__holdfast_in run hold acquire' -l permits -x -d 'n/N permits'
complete -c holdfast -n '__holdfast_in run elect hold' -l max-hold -x -d 'longest time to hold it'
complete -c holdfast -n '__holdfast_in run elect hold acquire break' -l reason -x -d 'text that ls, inspect and top show'
complete -c holdfast -n '__holdfast_in run elect hold acquire' -l trace-id -x -d 'id of your tracing'
complete -c holdfast -n '__holdfast_in run elect' -l min-hold -x -d 'shortest time to hold it'
complete -c holdfast -n '__holdfast_in run elect' -l on-lost -x -a 'term kill ignore' -d 'action when the lock is lost'
complete -c holdfast -n '__holdfast_in run elect' -l kill-after -x -d 'time between SIGTERM and SIGKILL'
complete -c holdfast -n '__holdfast_in run elect' -l contain -x -a 'tree pidns cgroup' -d 'way to keep its processes together'
complete -c holdfast -n '__holdfast_in run elect' -l leftover -x -a 'end wait leave' -d 'processes that outlive the command'
complete -c holdfast -n '__holdfast_in run' -l metrics-textfile -r -F -d 'metrics for Prometheus'
complete -c holdfast -n '__holdfast_in run' -l reenter -d 'under the lease of a run around this one'
complete -c holdfast -n '__holdfast_in run elect' -l json-fd -x -d 'events as JSON on a descriptor'
complete -c holdfast -n '__holdfast_in run elect' -l exit-max-hold -x -d 'instead of 122'
complete -c holdfast -n '__holdfast_in run elect' -l exit-lost -x -d 'instead of 123'
complete -c holdfast -n '__holdfast_in run elect' -s E -l exit-timeout -x -d 'instead of 124'
complete -c holdfast -n '__holdfast_in run elect' -l exit-error -x -d 'instead of 125'
complete -c holdfast -n '__holdfast_in elect watch' -l count -x -d 'end after N events'
complete -c holdfast -n '__holdfast_in elect' -l value -x -d 'text that the leader proclaims'
complete -c holdfast -n '__holdfast_in elect' -l again -d 'after a loss, campaign again'
complete -c holdfast -n '__holdfast_in elect' -l observe -d 'print who leads, and each change'
complete -c holdfast -n '__holdfast_in top' -l interval -x -d 'time between two looks'
complete -c holdfast -n '__holdfast_in top' -l sort -x -a 'name queue age left' -d 'order'
complete -c holdfast -n '__holdfast_in top' -l once -d 'print one table, and end'
complete -c holdfast -n '__holdfast_in top' -l plain -d 'tables instead of a screen'
complete -c holdfast -n '__holdfast_in break' -l token -x -d 'the grant to break'
complete -c holdfast -n '__holdfast_in doctor' -l require -x -a 'fenced fair shared permits upgrade list watch-every-change values multi survives-restart survives-failover' -d 'guarantees that it must give'
complete -c holdfast -n '__holdfast_in ls' -l outcomes -d 'also list finished once-guards'
complete -c holdfast -n '__holdfast_in bench' -l in-flight -x -d 'at a time'
complete -c holdfast -n '__holdfast_in bench' -l threads -x -d 'at a time, a thread each'
complete -c holdfast -n '__holdfast_in bench' -l names -x -d 'number of names'
complete -c holdfast -n '__holdfast_in bench' -l duration -x -d 'of each part'
complete -c holdfast -n '__holdfast_in serve' -l listen -x -d 'address and port'
complete -c holdfast -n '__holdfast_in serve' -l data -x -a '(__fish_complete_directories)' -d 'folder of the journal'
complete -c holdfast -n '__holdfast_in serve' -l clients-stopped -d 'no client of a restored journal runs any more'
complete -c holdfast -n '__holdfast_in serve' -l journal -x -a 'sqlite: memory:' -d 'kind and place of the journal'
complete -c holdfast -n '__holdfast_in serve' -l log-format -x -a 'text json logfmt' -d 'format of messages on stderr'
complete -c holdfast -n '__holdfast_in serve' -l json -d 'print JSON'
complete -c holdfast -n '__holdfast_in serve' -s q -l quiet -d 'print failures only'
complete -c holdfast -n '__holdfast_in serve' -s h -l help -d 'explain the command'
complete -c holdfast -n '__holdfast_in server' -a 'verify backup restore' -d 'the journal of a lock service'
complete -c holdfast -n '__holdfast_in server' -l log-format -x -a 'text json logfmt' -d 'format of messages on stderr'
complete -c holdfast -n '__holdfast_in server' -l json -d 'print JSON'
complete -c holdfast -n '__holdfast_in server' -s q -l quiet -d 'print failures only'
complete -c holdfast -n '__holdfast_in server' -s h -l help -d 'explain the command'
complete -c holdfast -n '__holdfast_in failover' -a 'status switch return' -d 'the stores of a chain'
complete -c holdfast -n '__holdfast_in store' -a init -d 'make the tables'
complete -c holdfast -n '__holdfast_in store' -l print-sql -d 'print the SQL that makes the tables'
complete -c holdfast -n '__holdfast_in fence' -a check -d 'check a token for a resource'
complete -c holdfast -n '__holdfast_in fence' -l token -x -d 'the token'
complete -c holdfast -n '__holdfast_in fence' -l mode -x -a 'exclusive shared' -d 'how the lock is held'
complete -c holdfast -n '__holdfast_in fence' -l file -r -F -d 'the record of this resource'
complete -c holdfast -n '__holdfast_in fence' -l state -r -F -d 'a folder of records'
complete -c holdfast -n '__holdfast_in fence' -l wait -x -d 'longest wait'
complete -c holdfast -n '__holdfast_in fence' -l json -d 'print JSON'
complete -c holdfast -n '__holdfast_in fence' -s q -l quiet -d 'print failures only'
