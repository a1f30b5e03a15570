#!/bin/bash
# Records the dumps of this folder's parent from real JVMs: bash record.sh [jdbc-url]
# It needs a JDK 17 and, from Debian: libtomcat10-embed-java libhikaricp-java
# libtomcat10-java libhttpclient-java libhttpclient5-java libpostgresql-jdbc-java
# libjackson2-databind-java. The mode hikari needs a PostgreSQL.
set -euo pipefail
cd "$(dirname "$0")"
jars=/usr/share/java
path=$(printf '%s:' "$jars"/{tomcat10-embed-core,tomcat10-annotations-api,HikariCP,httpclient,httpcore,httpclient5,httpcore5,httpcore5-h2,postgresql,slf4j-api,slf4j-nop,commons-logging,commons-codec,jackson-core,jackson-databind,jackson-annotations}.jar)
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
javac -cp "$path" -d "$classes" BlockedService.java

record() { # mode
	local mode=$1 out=..
	coproc JVM { exec java -Xmx256m -Djava.io.tmpdir="$classes" -cp "$path$classes" BlockedService "$mode" "$classes/actuator.json" "${2:-}" 2>"$classes/log"; }
	local pid=$JVM_PID in=${JVM[1]}
	read -r -t 60 word <&"${JVM[0]}" && [ "$word" = ready ] || { tail -5 "$classes/log"; return 1; }
	gzip -9n <"$classes/actuator.json" >"$out/actuator-$mode.json.gz"
	jcmd "$pid" Thread.print -l | gzip -9n >"$out/jcmd-$mode.txt.gz"
	if [ "$mode" = jdk ]; then
		jstack "$pid" | gzip -9n >"$out/jstack-$mode.txt.gz"
	fi
	exec {in}>&-
	wait "$pid" || true
}

for mode in jdk httpclient5 httpclient4 urlconnection bulkhead idle; do
	record "$mode"
done
if [ $# -gt 0 ]; then
	record hikari "$1"
fi
