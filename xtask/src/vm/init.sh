#!/usr/bin/bash
# The first process of a test machine: makes it look like a host, runs what
# /tests/list names, a program with its arguments on each line, and turns the
# machine off. Lines that begin with "vm:" are for whoever reads the console.
export PATH=/usr/sbin:/usr/bin:/busybox HOME=/root TERM=dumb WAD_BIN=/usr/sbin/wad
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
# Terminals of tests.
mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /run
# A repository may be below it, which then has files already.
[ -n "$(ls -A /tmp)" ] || mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
# As systemd has it.
ulimit -Sn 1024 && ulimit -Hn 524288
# Parameters that the kernel does not know are variables here.
if [ -n "$TCP_MEM" ]; then echo "${TCP_MEM//,/ }" >/proc/sys/net/ipv4/tcp_mem; fi
modprobe tun
# Of its own time, which passes at once where nothing goes on any more.
(sleep 6h; echo "vm: six hours are over"; poweroff -f) &

while read -r program arguments; do
    echo "vm: begin $program"
    # Word by word, as they are written.
    # shellcheck disable=SC2086
    "/tests/$program" $arguments </dev/null 2>&1
    echo "vm: end $program $?"
done </tests/list
for file in /tmp/results/*.json; do
    [ -e "$file" ] || continue
    stty -F /dev/ttyS1 raw -echo
    cat "$file" >/dev/ttyS1
done
echo "vm: done"
poweroff -f
