# shellcheck shell=sh
# shellcheck disable=SC2034,SC2086,SC2154 # the words are numbers; others set ports and gid, and read address
# In a probe's pod with source-based routes: the IPv4 address in the GID, as $address. POSIX sh.
words=$(sed 's/.*ffff:\(..\)\(..\):\(..\)\(..\).*/0x\1 0x\2 0x\3 0x\4/' "$ports/gids/$gid")
address=$(printf '%d.%d.%d.%d' $words)
