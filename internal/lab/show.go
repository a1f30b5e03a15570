package lab

import (
	"context"
	"fmt"
	"strings"
	"time"

	"chokepoint/internal/evidence/live"
	"chokepoint/internal/result"
)

// reportWait is how long the end waits for the pages that watch to fetch the report.
const reportWait = 5 * time.Second

// Show is a live view of what a lab does, at an address of the loopback. A nil Show
// is for nobody.
type Show struct {
	live   *live.View
	server *live.Server
	last   live.Report // of the newest run
}

// OpenShow serves the view of so many runs at address.
func OpenShow(ctx context.Context, address string, runs int) (*Show, error) {
	view := live.NewView(runs)
	server, err := live.Listen(ctx, address, view)
	if err != nil {
		return nil, fmt.Errorf("-live-addr: %w", err)
	}
	return &Show{live: view, server: server}, nil
}

// URL is where the page is.
func (s *Show) URL() string { return s.server.URL() }

// View is what the page shows, for another kind of viewer.
func (s *Show) View() *live.View { return s.live }

// Close says that all is over, and why if failure is not nil, and stops serving once
// the pages have the report.
func (s *Show) Close(failure error) {
	switch {
	case s.last.Title != "":
	case failure != nil:
		s.last = live.Report{Title: "No result", Outcome: failure.Error()}
	default:
		s.last = live.Report{Title: "No result", Outcome: "nothing was run"}
	}
	s.live.End(s.last)
	s.server.Close(reportWait)
}

// Watch has the lab's runs shown.
func (l *Lab) Watch(s *Show) { l.show = s }

func (s *Show) view() *live.View {
	if s == nil {
		return nil
	}
	return s.live
}

// ran shows what came of a run.
func (s *Show) ran(dir string, summary result.Summary) {
	if s == nil {
		return
	}
	s.report(dir, live.Report{Title: "Profile " + summary.Run.Profile, Outcome: string(summary.Verdict.Outcome)})
}

// compared shows what came of a comparison.
func (s *Show) compared(dir string, c result.Comparison) {
	if s == nil {
		return
	}
	s.report(dir, live.Report{Title: "Comparison of " + strings.Join(c.Profiles, ", "), Outcome: fmt.Sprintf("%d runs", len(c.Runs))})
}

func (s *Show) report(dir string, r live.Report) {
	var err error
	if r.Path, err = s.server.Publish(dir); err != nil {
		r.Outcome += "; its report cannot be shown: " + err.Error()
	}
	s.last = r
	s.live.Report(r)
}
