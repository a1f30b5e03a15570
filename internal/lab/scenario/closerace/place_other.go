//go:build !linux

package closerace

import (
	"errors"
	"time"
)

// distant is for Linux only.
func distant(time.Duration) (place, error) {
	return place{}, errors.New("a round trip is made with network namespaces, which only Linux has")
}
