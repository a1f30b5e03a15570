package deadconn

import (
	"slices"
	"strings"
	"time"

	"chokepoint/internal/profile"
)

// defence is what the caller does about dead connections: a name of package profile,
// or one of it with a value that the case is about.
type defence struct {
	name string
	// settings are for a device that remembers for 3 s. What has to be shorter than
	// its memory scales with it, unless fixed says that the case is about the numbers
	// themselves.
	settings profile.Connections
	fixed    bool
}

// referenceIdle is the device's memory that the defences' times are for.
const referenceIdle = 3 * time.Second

// forADeviceOf are the settings for a device that remembers for so long.
func (d defence) forADeviceOf(idle time.Duration) profile.Connections {
	if d.fixed {
		return d.settings
	}
	return scaled(d.settings, float64(idle)/float64(referenceIdle))
}

// flags are the victim's that the defence stands for, of those that are not zero.
func (d defence) flags(s Settings) string {
	zero := profile.Connections{}.Settings()
	var flags []string
	for name, value := range d.forADeviceOf(s.DeviceIdle).Settings() {
		if value != zero[name] {
			flags = append(flags, "-"+name+"="+value)
		}
	}
	slices.Sort(flags)
	return strings.Join(flags, " ")
}

func scaled(c profile.Connections, scale float64) profile.Connections {
	return profile.Profile{Connections: c}.Scaled(scale).Connections
}

var quickProbes = profile.KeepAlive{Idle: time.Second, Interval: time.Second, Count: 3}

// The defences of the matrix. That of nothing, none, makes one attempt on whatever
// connection the pool has; libraryRetry leaves retries to the client, as it comes.
var (
	none         = defence{name: "none"}
	libraryRetry = defence{name: "library_retry", settings: profile.Connections{Retry: profile.RetryLibrary}}

	staleCheck       = defence{name: "stale_check", settings: profile.Connections{StaleCheck: profile.StalePeek}}
	staleCheckWindow = defence{name: "stale_check_after=2s", fixed: true, // Apache HttpClient's default
		settings: profile.Connections{StaleCheck: profile.StalePeek, StaleCheckAfter: 2 * time.Second}}
	ageCheck         = defence{name: "age_check", settings: profile.Connections{MaxIdleAge: 2500 * time.Millisecond}}
	evict            = defence{name: "evict", settings: profile.Connections{EvictIdle: 1400 * time.Millisecond}}
	evictNotRunning  = defence{name: "evict_not_running", settings: profile.Connections{EvictIdle: 1400 * time.Millisecond, EvictNotRunning: true}}
	keepAliveDefault = defence{name: "keepalive_default", fixed: true,
		settings: profile.Connections{KeepAlive: profile.KeepAlive{Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 9}}}
	keepAlive = defence{name: "keepalive", fixed: true, settings: profile.Connections{KeepAlive: quickProbes}}

	retryIdempotent = defence{name: "retry_idempotent", settings: profile.Connections{Retry: profile.RetryIdempotent}}
	retryFresh      = defence{name: "retry_idempotent,fresh", settings: profile.Connections{Retry: profile.RetryIdempotent, RetryFresh: true}}
	retryKey        = defence{name: "retry_idempotency_key", settings: profile.Connections{Retry: profile.RetryIdempotencyKey, RetryFresh: true}}
	retryStale      = defence{name: "retry_stale", settings: profile.Connections{Retry: profile.RetryStale}}
	retryAll        = defence{name: "retry_all", settings: profile.Connections{Retry: profile.RetryAll}}
	retryAll5       = defence{name: "retry_all,attempts=5", settings: profile.Connections{Retry: profile.RetryAll, RetryAttempts: 5}}
	retryAll64      = defence{name: "retry_all,attempts=64", settings: profile.Connections{Retry: profile.RetryAll, RetryAttempts: 64}}
	library64       = defence{name: "library_retry,attempts=64", settings: profile.Connections{Retry: profile.RetryLibrary, RetryAttempts: 64}}

	// These are for an entry that is lost while the server works.
	userTimeoutAlone     = defence{name: "user_timeout=2.5s", fixed: true, settings: profile.Connections{UserTimeout: 2500 * time.Millisecond}}
	keepAliveUserTimeout = defence{name: "keepalive,user_timeout=2.5s", fixed: true,
		settings: profile.Connections{KeepAlive: quickProbes, UserTimeout: 2500 * time.Millisecond}}
	keepAliveRetries = defence{name: "keepalive,library_retry", fixed: true,
		settings: profile.Connections{KeepAlive: quickProbes, Retry: profile.RetryLibrary}}
)

// userTimeout ends a connection whose data has not been acknowledged for so long, and
// leaves retries to the client.
func userTimeout(d time.Duration) defence {
	return defence{name: "user_timeout=" + d.String() + ",library_retry", fixed: true,
		settings: profile.Connections{UserTimeout: d, Retry: profile.RetryLibrary}}
}

// recommended is profile's own set of what holds. Its times are for a device that
// remembers for a minute.
func recommended() defence {
	const name, remembers = "recommended", time.Minute
	settings, err := profile.Connections{}.Defend(name)
	if err != nil {
		panic(err) // the name is one of package profile
	}
	return defence{name: name, settings: scaled(settings, float64(referenceIdle)/float64(remembers))}
}
