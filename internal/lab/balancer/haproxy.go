package balancer

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// haproxyFrame is the configuration around the caller's text. The log of those who
// say "log global" goes to standard output, and so to NAME.log; the runtime API has
// the relative name that fits into a socket's address however long the folder's is.
func haproxyFrame(name, global string) string {
	return fmt.Sprintf(`global
    log stdout format raw local0 info
    stats socket unix@%s.sock mode 600 level admin
%s
`, name, global)
}

const (
	commandWait = 3 * time.Second
	// longestAnswer bounds what the runtime API says, in bytes.
	longestAnswer = 4 << 20
	// longestSocket is how long the name of a Unix socket may be (sockaddr_un).
	longestSocket = 100
)

// Command says a line to HAProxy's runtime API, such as "set server app/a state
// drain", and returns the answer, without the white space around it. HAProxy answers
// a command that it refuses with words too, so those are the caller's to judge; most
// of those that change something answer nothing.
func (r *Balancer) Command(ctx context.Context, line string) (string, error) {
	if r.Binary.Kind != HAProxy {
		return "", fmt.Errorf("%s: only HAProxy has a runtime API", r.options.Name)
	}
	path := r.options.path(".sock")
	if len(path) > longestSocket {
		folder, err := os.Open(r.options.Folder)
		if err != nil {
			return "", err
		}
		defer folder.Close()
		path = fmt.Sprintf("/proc/self/fd/%d/%s.sock", folder.Fd(), r.options.Name)
	}
	answer, err := ask(ctx, path, line)
	if err != nil {
		return "", fmt.Errorf("%s: runtime API: %q: %w", r.options.Name, line, err)
	}
	return strings.TrimSpace(answer), nil
}

func ask(ctx context.Context, path, line string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, longestAnswer))
	return string(answer), err
}
