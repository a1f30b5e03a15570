#!/bin/sh
# Builds a stand-in for the official PostgreSQL image out of the server that is
# installed on this machine (Debian's packages), where no image registry can be
# had. CI alone uses it, to prove docker-compose.yml against a real engine:
#
#   CHOKEPOINT_POSTGRES_IMAGE=$(scripts/postgres-standin.sh) make bench RUNTIME=compose
#
# The image honours what docker-compose.yml says of the official one:
# POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_HOST_AUTH_METHOD,
# POSTGRES_INITDB_ARGS and PGDATA, and only the database "postgres" as
# POSTGRES_DB. It runs as the user postgres.
#
# Prints the image's name, and nothing else, on stdout.
set -eu

fail() {
	echo "postgres-standin: $*" >&2
	exit 1
}

bindir=
for dir in /usr/lib/postgresql/*/bin; do
	# The shell sorts the names, so the newest of two digits comes last.
	if [ -x "$dir/postgres" ] && [ -x "$dir/initdb" ]; then bindir=$dir; fi
done
[ -n "$bindir" ] || fail "no server in /usr/lib/postgresql/*/bin; install one (apt-get install postgresql)"
command -v docker >/dev/null || fail "no docker; install Docker Engine"

home=${bindir%/bin}
version=${home##*/}
share=/usr/share/postgresql/$version
image=chokepoint-postgres-standin:$version

work=$(mktemp -d "${TMPDIR:-/tmp}/postgres-standin.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
root=$work/root
mkdir -p "$root/bin" "$root/etc" "$root/tmp" "$root/var/run/postgresql" "$root/var/lib/postgresql" \
	"$root$bindir" "$root$home/lib" "$root$share" "$root/usr/share/zoneinfo"

for program in postgres initdb pg_isready; do
	cp "$bindir/$program" "$root$bindir/"
done
# Modules that the server loads by itself: plpgsql, and what initdb runs.
for module in plpgsql dict_snowball euc2004_sjis2004 libpqwalreceiver; do
	if [ -e "$home/lib/$module.so" ]; then cp "$home/lib/$module.so" "$root$home/lib/"; fi
done
cp -R "$share/." "$root$share/"
cp -RL /usr/share/zoneinfo/Etc "$root/usr/share/zoneinfo/"
# initdb and the entrypoint run a shell.
cp -L /bin/sh "$root/bin/sh"

# Every shared library of what was copied, at the path where the loader looks.
find "$root/bin" "$root$bindir" "$root$home/lib" -type f -exec ldd {} + 2>/dev/null |
	sed -n -e 's/.* => \(\/[^ ]*\) .*/\1/p' -e 's/^[[:space:]]*\(\/[^ ]*\) (0x.*/\1/p' |
	sort -u |
	while read -r library; do
		mkdir -p "$root${library%/*}"
		cp -L "$library" "$root$library"
	done

cat >"$root/etc/passwd" <<'PASSWD'
root:x:0:0:root:/:/bin/sh
postgres:x:999:999:PostgreSQL:/var/lib/postgresql:/bin/sh
PASSWD
cat >"$root/etc/group" <<'GROUP'
root:x:0:
postgres:x:999:
GROUP

# Only the shell's own commands and the server's programs are there.
cat >"$root/entrypoint" <<'ENTRYPOINT'
#!/bin/sh
set -eu
if [ "$1" != postgres ]; then exec "$@"; fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	if [ "${POSTGRES_DB:-postgres}" != postgres ]; then
		echo "POSTGRES_DB is $POSTGRES_DB: this stand-in makes no database but postgres" >&2
		exit 1
	fi
	method=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
	if [ -n "${POSTGRES_PASSWORD:-}" ]; then
		password=--pwfile=/tmp/password
		echo "$POSTGRES_PASSWORD" >/tmp/password
	elif [ "$method" = trust ]; then
		password=
	else
		echo "set POSTGRES_PASSWORD, or POSTGRES_HOST_AUTH_METHOD=trust" >&2
		exit 1
	fi
	# Without quotes: arguments are split at blanks, as in the official entrypoint.
	initdb --pgdata="$PGDATA" --username="${POSTGRES_USER:-postgres}" \
		--auth-local=trust --auth-host="$method" $password ${POSTGRES_INITDB_ARGS:-}
	if [ -n "$password" ]; then : >/tmp/password; fi
	echo "host all all all $method" >>"$PGDATA/pg_hba.conf"
fi
exec "$@"
ENTRYPOINT
chmod 0755 "$root/entrypoint"

# The owners and modes of the official image: a tmpfs over a folder takes its mode.
chmod 1777 "$root/tmp"
chmod 3777 "$root/var/run/postgresql"
tar -C "$root" --owner=0 --group=0 --exclude=./var/lib/postgresql --exclude=./var/run/postgresql -cf "$work/root.tar" .
tar -C "$root" --owner=999 --group=999 -rf "$work/root.tar" ./var/lib/postgresql ./var/run/postgresql

former=$(docker image inspect --format '{{.Id}}' "$image" 2>/dev/null) || former=
docker import \
	--change "ENV PATH=$bindir:/bin PGDATA=/var/lib/postgresql/data TZ=Etc/UTC LC_ALL=C" \
	--change 'USER postgres' \
	--change 'ENTRYPOINT ["/entrypoint"]' \
	--change 'CMD ["postgres"]' \
	"$work/root.tar" "$image" >"$work/import.log" 2>&1 ||
	fail "docker import: $(tail -n 1 "$work/import.log")"
# The import has taken the name from it. In use, it stays.
if [ -n "$former" ]; then docker image rm "$former" >/dev/null 2>&1 || :; fi
echo "$image"
