package netlab

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// cloneRefused explains why the kernel made no sandbox.
func cloneRefused(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err // "fork/exec" and the name of the binary say nothing here
	}
	if privileged() {
		return unavailable("namespaces", err)
	}
	return unavailable("user namespace", err)
}

func unavailable(what string, err error) *Unavailable {
	return &Unavailable{What: what, Err: err, Remedy: remedy(machineSettings{read: readSetting, unprivileged: !rootOutside()}, err)}
}

// machineSettings are what forbids namespaces.
type machineSettings struct {
	read         func(path string) string // a file's text without space around it; empty if there is none
	unprivileged bool                     // a user namespace is needed
}

func readSetting(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// rootOutside says whether this process's user namespace is the machine's own.
func rootOutside() bool {
	return strings.Join(strings.Fields(readSetting("/proc/self/uid_map")), " ") == "0 0 4294967295" && os.Geteuid() == 0
}

// remedy names the setting that is the likely cause, the most certain first.
func remedy(m machineSettings, err error) string {
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return "raise the limit of open files (ulimit -n)"
	}
	for _, kind := range []string{"user", "pid", "mnt", "net", "ipc"} {
		if kind == "user" && !m.unprivileged {
			continue
		}
		name := "user.max_" + kind + "_namespaces"
		if m.read("/proc/sys/user/max_"+kind+"_namespaces") == "0" {
			return name + " is 0: sysctl -w " + name + "=10000"
		}
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS) {
		return "a limit is used up: raise user.max_user_namespaces and user.max_net_namespaces with sysctl -w"
	}
	if m.unprivileged {
		for _, s := range []struct{ name, forbids, allows string }{
			{"kernel.unprivileged_userns_clone", "0", "1"},
			{"kernel.apparmor_restrict_unprivileged_userns", "1", "0"},
		} {
			if m.read("/proc/sys/"+strings.ReplaceAll(s.name, ".", "/")) == s.forbids {
				return s.name + " is " + s.forbids + ": sysctl -w " + s.name + "=" + s.allows + ", or run the lab as root"
			}
		}
	}
	if strings.Contains(m.read("/proc/self/status"), "Seccomp:\t2") {
		return "a seccomp filter is on, as in a container: give it --privileged, or --security-opt seccomp=unconfined, apparmor=unconfined and systempaths=unconfined"
	}
	if m.unprivileged {
		return "run the lab as root, or allow user namespaces (CONFIG_USER_NS, user.max_user_namespaces, a security module)"
	}
	return "root lacks CAP_SYS_ADMIN or CAP_NET_ADMIN here, as in a container: give it --privileged; the kernel needs CONFIG_NET_NS and CONFIG_PID_NS"
}
