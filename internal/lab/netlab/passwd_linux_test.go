package netlab

import "testing"

func TestWithUser(t *testing.T) {
	for _, tc := range []struct{ passwd, want string }{
		{"root:x:0:0::/root:/bin/sh\n", "root:x:0:0::/root:/bin/sh\nuser1234:x:1234:99::/:/bin/sh\n"},
		{"root:x:0:0::/root:/bin/sh", "root:x:0:0::/root:/bin/sh\nuser1234:x:1234:99::/:/bin/sh\n"},
		{"", "user1234:x:1234:99::/:/bin/sh\n"},
		// The number is that of the third field, as a whole.
		{"a:x:12345:1234::/:\n", "a:x:12345:1234::/:\nuser1234:x:1234:99::/:/bin/sh\n"},
		{"user1234:x:5:5::/:\n", "user1234:x:5:5::/:\nuser1234_:x:1234:99::/:/bin/sh\n"},
		{"root:x:0:0::/root:/bin/sh\nme:x:1234:1::/home/me:/bin/sh", ""},
	} {
		if got := string(withUser([]byte(tc.passwd), 1234, 99)); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.passwd, got, tc.want)
		}
	}
}
