package rolling

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"chokepoint/internal/lab/balancer"
)

// ownConfig is the balancer's configuration if the reader gives none.
//
//go:embed nginx.conf
var ownConfig string

// The placeholders of a configuration. A server's is replaced by its address, and, where
// it is taken out before it ends, by its address and "down".
const (
	holdsListen = "@LISTEN@"
	holdsWAS1   = "@WAS1@"
	holdsWAS2   = "@WAS2@"
)

var logsAccess = regexp.MustCompile(`(?m)^[^#]*\baccess_log\s`)

// checkText refuses a reader's configuration with which the cases would mean nothing.
func checkText(text string) error {
	for _, holds := range []string{holdsListen, holdsWAS1, holdsWAS2} {
		if !strings.Contains(text, holds) {
			return fmt.Errorf("it has no %s; write %s for the address on which nginx listens, and %s and %s for those of its servers", holds, holdsListen, holdsWAS1, holdsWAS2)
		}
	}
	if logsAccess.MatchString(text) {
		return fmt.Errorf("it has an access_log of its own, and the lab reads the one that it sets; take it out")
	}
	return nil
}

// config is the balancer's configuration with so many addresses. out takes the first
// server out.
func (s Settings) config(listen, was1, was2, directives string, out bool) balancer.Config {
	if out {
		was1 += " down"
	}
	values := map[string]string{"LISTEN": listen, "WAS1": was1, "WAS2": was2}
	if s.ConfigFile == "" {
		values["DIRECTIVES"] = directives // the place in the lab's own
	}
	return balancer.Config{Body: s.Config, Values: values}
}

// ForCheck is the configuration with addresses that every machine has, for nginx -t
// outside of the lab.
func (s Settings) ForCheck() balancer.Config {
	return s.config("127.0.0.1:18080", "127.0.0.1:18081", "127.0.0.1:18082", "", false)
}
