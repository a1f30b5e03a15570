//go:build linux

package spinref

import (
	"os"
	"testing"
	"time"

	"chokepoint/test/peers/refserver"
)

func TestItSendsWhatItIsAskedFor(t *testing.T) {
	s, err := refserver.Listen(refserver.Config{Capacity: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stdin, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	done := make(chan refserver.Report, 1)
	go func() {
		r, err := s.Serve(stdin)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	c := Config{Addr: s.Addr(), Rate: 200, Duration: 250 * time.Millisecond, Connections: 5}
	got, err := Run(c)
	end.Close()
	seen := <-done
	if err != nil || got != (Report{Sent: 50, Answered: 50}) || seen.Requests != 50 || seen.Connections != 5 {
		t.Errorf("error %v, sent %+v, seen %+v; want 50 on 5 connections", err, got, seen)
	}
	arrivals := s.Arrivals()
	if took := arrivals[49] - arrivals[0]; took < 245*time.Millisecond-50*time.Millisecond {
		t.Errorf("all arrived within %v", took)
	}
}
