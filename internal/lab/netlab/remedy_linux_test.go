package netlab

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemedy(t *testing.T) {
	for _, tc := range []struct {
		path, text   string
		unprivileged bool
		err          error
		want         string
	}{
		{"/proc/sys/user/max_user_namespaces", "0", true, unix.ENOSPC, "user.max_user_namespaces is 0: sysctl -w user.max_user_namespaces=10000"},
		{"/proc/sys/user/max_user_namespaces", "0", false, unix.ENOSPC, "a limit is used up"}, // root needs none
		{"/proc/sys/user/max_pid_namespaces", "0", false, unix.ENOSPC, "user.max_pid_namespaces is 0"},
		{"/proc/sys/user/max_net_namespaces", "5", true, unix.ENOSPC, "a limit is used up"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", true, unix.EPERM, "kernel.unprivileged_userns_clone is 0: sysctl -w kernel.unprivileged_userns_clone=1, or run the lab as root"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "1", true, unix.EPERM, "run the lab as root, or allow"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", true, unix.EACCES, "kernel.apparmor_restrict_unprivileged_userns is 1: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", false, unix.EPERM, "root lacks CAP_SYS_ADMIN"},
		{"/proc/self/status", "Name:\tlab\nSeccomp:\t2\n", false, unix.EPERM, "a seccomp filter is on"},
		{"/proc/self/status", "Name:\tlab\nSeccomp:\t0\n", true, unix.EPERM, "run the lab as root"},
		{"", "", false, unix.EMFILE, "raise the limit of open files"},
	} {
		m := machineSettings{unprivileged: tc.unprivileged, read: func(path string) string {
			if path == tc.path {
				return tc.text
			}
			return ""
		}}
		if got := remedy(m, tc.err); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s = %q, unprivileged %v, %v: %q, want %q", tc.path, tc.text, tc.unprivileged, tc.err, got, tc.want)
		}
	}
}
