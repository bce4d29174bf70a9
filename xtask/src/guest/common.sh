# What the scripts have in common.

# Load a module and all that it needs.
load() {
    while read -r module; do
        insmod "/modules/$module.ko" 2>/dev/null || grep -q "^$module " /proc/modules
    done < "/modules/$1.order"
}

fail() {
    echo "FAILED: $*"
    exit 1
}

# Must fail, and say this.
refused() {
    words=$1
    shift
    if said=$("$@" 2>&1); then fail "not refused: $*"; fi
    echo "$said" | grep -q "$words" || fail "$*: $said"
}

# Wait up to a minute until something holds.
until_holds() {
    n=0
    until "$@"; do
        n=$((n + 1))
        [ $n -lt 600 ] || fail "never: $*"
        sleep 0.1
    done
}

# Serve a pool and wait until it is asked for: serve POOL ARGUMENT...
serve() {
    onefold serve "$@" > serve.log 2>&1 &
    server=$!
    until_holds is_served
}

is_served() {
    grep -q 'nbd' serve.log || { kill -0 $server 2>/dev/null || fail "$(cat serve.log)"; false; }
}

equal() {
    [ "$1" = "$2" ] || fail "$1 is not $2"
}

sum() {
    md5sum "$@" | cut -d' ' -f1
}
