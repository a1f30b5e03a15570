package netlab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	passwdFile = "/etc/passwd"
	// passwdCopy is where the longer copy is written: memory of the sandbox's own. It
	// has no name any more once it is mounted.
	passwdCopy = "/dev/shm/passwd"
)

// nameUser gives the sandbox's user a line in passwd(5) where it has none, as in a
// container that runs as a bare number: PostgreSQL's initdb asks for the name and ends
// without one. The line is in a copy that only the sandbox sees. Where there is
// no such file, or no /dev/shm to copy it to, all stays as it is.
func nameUser() error {
	passwd, err := os.ReadFile(passwdFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unavailable("user's name", err)
	}
	longer := withUser(passwd, os.Geteuid(), os.Getegid())
	if longer == nil {
		return nil
	}
	err = os.WriteFile(passwdCopy, longer, 0o644)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = errors.Join(unix.Mount(passwdCopy, passwdFile, "", unix.MS_BIND, ""), os.Remove(passwdCopy))
	}
	if err != nil {
		return unavailable("user's name", err)
	}
	return nil
}

// withUser is a passwd file with a line for the user behind the others; nil if the user
// has one already.
func withUser(passwd []byte, uid, gid int) []byte {
	names := map[string]bool{}
	for line := range bytes.Lines(passwd) {
		// name:password:uid:gid:comment:home:shell
		fields := bytes.Split(bytes.TrimSpace(line), []byte{':'})
		if len(fields) >= 4 && string(fields[2]) == strconv.Itoa(uid) {
			return nil
		}
		names[string(fields[0])] = true
	}
	name := fmt.Sprintf("user%d", uid)
	for names[name] {
		name += "_"
	}
	longer := bytes.Clone(passwd)
	if len(longer) > 0 && longer[len(longer)-1] != '\n' {
		longer = append(longer, '\n')
	}
	return fmt.Appendf(longer, "%s:x:%d:%d::/:/bin/sh\n", name, uid, gid)
}
