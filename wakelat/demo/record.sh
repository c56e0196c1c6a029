#!/bin/sh
# Records `demo.wakelat`, which `wakelat demo` shows: PostgreSQL under a CPU quota, with pgbench at a fixed rate, beside
# a build. Run it as root on a quiet machine with two CPUs, with Debian's `postgresql`, `make` and `gcc`, whenever the
# format of recordings changes:
#
#     PATH=target/release:$PATH wakelat/demo/record.sh wakelat
set -eu

wakelat=$1
demo=$(dirname "$0")/demo.wakelat
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
directory=$(mktemp -d)
chmod 755 "$directory"

# Names come from cgroup v2; the quota from whichever hierarchy has the controller `cpu`.
v2=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
v1=$(awk '$3 == "cgroup" && $4 ~ /(^|,)cpu(,|$)/ { print $2; exit }' /proc/mounts)
database=system.slice/postgresql.service
build=user.slice/build.scope
client=user.slice/pgbench.scope

join() { # CGROUP
    mkdir -p "$v2/$1"
    echo 0 > "$v2/$1/cgroup.procs"
    if [ -n "$v1" ]; then
        mkdir -p "$v1/$1"
        echo 0 > "$v1/$1/cgroup.procs"
    fi
}

limit() { # CGROUP QUOTA_US PERIOD_US
    if [ -n "$v1" ]; then
        echo "$3" > "$v1/$1/cpu.cfs_period_us"
        echo "$2" > "$v1/$1/cpu.cfs_quota_us"
    else
        echo +cpu > "$v2/cgroup.subtree_control"
        echo +cpu > "$v2/system.slice/cgroup.subtree_control"
        echo "$2 $3" > "$v2/$1/cpu.max"
    fi
}

as_postgres() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }

clean_up() {
    kill "${builder:-}" "${bench:-}" 2>/dev/null || true
    as_postgres "$bin/pg_ctl" -D "$directory/data" -m immediate stop >/dev/null 2>&1 || true
    wait
    for mount in $v2 $v1; do
        for cgroup in $database $build $client system.slice user.slice; do
            # Its last tasks may still be exiting.
            for _ in $(seq 50); do
                rmdir "$mount/$cgroup" 2>/dev/null && break
                [ -d "$mount/$cgroup" ] && sleep 0.1
            done
        done
    done
    rm -rf "$directory"
}
trap clean_up EXIT

mkdir "$directory/data" "$directory/build"
chown postgres "$directory/data"
as_postgres "$bin/initdb" -D "$directory/data" >/dev/null
(
    join $database
    exec setpriv --reuid postgres --regid postgres --clear-groups "$bin/pg_ctl" -D "$directory/data" -w -l "$directory/data/log" \
        -o "-c listen_addresses= -c unix_socket_directories=$directory/data -c fsync=off" start >/dev/null
)
as_postgres "$bin/createdb" -h "$directory/data" bench
as_postgres "$bin/pgbench" -h "$directory/data" -i -q bench 2>/dev/null
limit $database 5000 100000

# A program of 200 files, each of which takes gcc a while.
for n in $(seq 200); do
    {
        echo '#include <stdio.h>'
        for f in $(seq 120); do echo "int f${n}_$f(int x) { for (int i = 0; i < x; i++) x += x * i % $f; return printf(\"%d\", x); }"; done
    } > "$directory/build/$n.c"
done
(
    join $build
    cd "$directory/build"
    exec make -s -j3 CFLAGS=-O2 $(seq -f %g.o 200)
) &
builder=$!
(
    join $client
    exec setpriv --reuid postgres --regid postgres --clear-groups \
        "$bin/pgbench" -h "$directory/data" -n -c 4 -R 60 -T 20 bench >/dev/null 2>&1
) &
bench=$!
"$wakelat" record --quiet --warm-up 2s --duration 2s -M example=demo -o "$demo"
chmod 644 "$demo"
ls -l "$demo"
