package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// externalWait bounds the connection to the server of DATABASE_URL, all its
// hosts together.
const externalWait = 10 * time.Second

// openExternal uses the server of DATABASE_URL. Its errors name the server and
// never hold the password.
func openExternal(ctx context.Context, databaseURL string) (*Server, error) {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %s", parseCause(databaseURL, err))
	}
	limit := fmt.Errorf("no answer within %s", externalWait)
	limited, cancel := context.WithTimeoutCause(ctx, externalWait, limit)
	defer cancel()
	version, err := ask(limited, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("DATABASE_URL: %w", context.Cause(ctx))
		}
		if limited.Err() != nil {
			err = limit
		}
		return nil, fmt.Errorf("DATABASE_URL: %s as user %q, database %q: %s; start that server or correct DATABASE_URL, or unset it to use a throwaway cluster",
			hosts(cfg), cfg.User, cfg.Database, connectCause(err))
	}
	return &Server{url: databaseURL, source: "DATABASE_URL", version: version}, nil
}

// hosts names every server of a configuration.
func hosts(cfg *pgx.ConnConfig) string {
	names := []string{address(cfg.Host, cfg.Port)}
	for _, fallback := range cfg.Fallbacks {
		if name := address(fallback.Host, fallback.Port); name != names[len(names)-1] {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func address(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// connectCause is the reason of a failed connection in one line. PostgreSQL and
// pgx put no password into one.
func connectCause(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return fmt.Sprintf("%s: %s (SQLSTATE %s)", refused.Severity, refused.Message, refused.Code)
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		err = connect.Unwrap()
	}
	return oneLine(err.Error())
}

// parseCause is the reason why a connection string cannot be read. In a string
// that is no URL nobody knows where the password begins or ends, so nothing of
// it is repeated.
func parseCause(databaseURL string, err error) string {
	const remedy = "want postgres://user:password@host:port/database or key=value pairs"
	if strings.HasPrefix(databaseURL, "postgres://") || strings.HasPrefix(databaseURL, "postgresql://") {
		u, urlErr := url.Parse(databaseURL)
		if urlErr != nil {
			return "not a URL; percent-encode the special characters of user and password (%23 for #, %2F for /); " + remedy
		}
		password, _ := u.User.Password()
		cause := errors.Unwrap(err)
		if cause != nil && (password == "" || !strings.Contains(cause.Error(), password)) {
			return fmt.Sprintf("host %s: %s; %s", u.Host, oneLine(cause.Error()), remedy)
		}
	}
	return "not a connection string; " + remedy
}
