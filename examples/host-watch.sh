#!/bin/sh
# Keeps a record of this host: disk, memory and load, as host-watch.yaml looks at them.
#
#   CARILLON_SERVER=http://127.0.0.1:8080 CARILLON_KEY=car_… ./host-watch.sh [SECONDS]
#
# SECONDS between two reports, 10 where nothing is said; 0 reports once. The key needs the scope ingest.
set -u
export LC_ALL=C
every=${1:-10}
host=$(uname -n)

report() {
	disk=$(df -P / | awk 'NR == 2 { sub("%", "", $5); print $5 }') &&
		memory=$(awk '/^MemTotal:/ { total = $2 } /^MemAvailable:/ { free = $2 } END { printf "%.1f", 100 * (total - free) / total }' /proc/meminfo) &&
		read -r load _ </proc/loadavg &&
		carillon records put host "$host" name="$host" disk_used_percent:number="$disk" memory_used_percent:number="$memory" \
			load1:number="$load" cpus:number="$(getconf _NPROCESSORS_ONLN)" reported_at:time="$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}

if [ "$every" = 0 ]; then
	report
	exit
fi
while :; do
	report || echo "not reported; again in $every s" >&2
	sleep "$every"
done
