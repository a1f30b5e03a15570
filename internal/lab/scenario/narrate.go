package scenario

import (
	"fmt"
	"time"

	"chokepoint/internal/evidence/live"
	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/profile"
)

// say tells in a sentence what is about to happen, and why, where a run is shown.
func (p *phases) say(name, sentence string) {
	if p.run.Live == nil {
		return
	}
	p.run.Live.Say(live.Phase{Name: name, Sentence: sentence})
	p.progress("%s", sentence)
}

// The sentences of a run, in the order of its phases. Their figures are the
// settings' and the model's, in real time, since that is how it goes by.

func startSentence(s *Settings) string {
	return fmt.Sprintf("A database, the victim with %s, and a stub as its upstream: each is a process of its own, so that no figure comes out of a shared one. In this run %s.",
		s.protections(), s.upstreamText())
}

func baselineSentence(s *Settings) string {
	return fmt.Sprintf("Baseline: /fast alone, which reads one row, at two rates for %v each, so that there is something to hold the load against.", s.baselineLength())
}

// loadSentence says what holds the workers, and for how long.
func loadSentence(s *Settings, prediction queueing.Prediction) string {
	begin := fmt.Sprintf("Load: %.4g/s to /fast and %.4g/s to /upstream for %v, and %s. ",
		s.realRate(s.FastRate).PerSecond(), s.realRate(s.UpstreamRate).PerSecond(), s.real(s.Duration), s.upstreamText())
	p, _ := s.Profile.Profile() // Validate has resolved it
	busy := int(prediction.Pool.MaxBusy.Nominal)
	switch {
	case p.Unbounded:
		return begin + fmt.Sprintf("There is no pool: each request has a goroutine of its own, and up to %d should pile up.", busy)
	case busy >= s.MaxWorkers:
		return begin + fmt.Sprintf("%s: the model has all %d workers busy, and /fast, which needs a worker for a millisecond, waits behind them.", holds(p), s.MaxWorkers)
	}
	return begin + fmt.Sprintf("%s: the model has at most %d of %d workers busy, and the others stay free for /fast.", holds(p), busy, s.MaxWorkers)
}

// holds says what bounds the workers that the upstream holds.
func holds(p profile.Profile) string {
	switch {
	case p.BreakerFailures > 0:
		return fmt.Sprintf("After %d failures in a row the breaker lets no call by", p.BreakerFailures)
	case p.Permits > 0 && p.Timeout > 0:
		return fmt.Sprintf("At most %d calls at a time hold a worker, and none for longer than its timeout", p.Permits)
	case p.Permits > 0:
		return fmt.Sprintf("At most %d calls at a time hold a worker, however long they take", p.Permits)
	case p.Timeout > 0:
		return "No call holds its worker for longer than its timeout, however many there are"
	case p.MaxQueue > 0:
		return fmt.Sprintf("Nothing bounds the calls, and what finds %d queued is refused", p.MaxQueue)
	}
	return "Nothing bounds the calls, and each holds its worker for as long as it takes"
}

func recoverySentence(s *Settings, prediction queueing.Prediction) string {
	wait := s.real(s.RecoveryWait)
	if prediction.NeverRecovers {
		return fmt.Sprintf("Load off. By the model some workers are held for ever; this is watched for at most %v.", wait)
	}
	seconds := prediction.RecoverySeconds.Nominal
	after := s.spanText(seconds)
	if seconds < 10 {
		return fmt.Sprintf("Load off. Nothing much is left to do: by the model the pool is idle after %s.", after)
	}
	return fmt.Sprintf("Load off, and the victim is as busy as before: it works on what is queued, though those clients have gone. By the model the pool is idle after %s; it is watched for at most %v.", after, wait)
}

// protections are the profile in words.
func (s *Settings) protections() string {
	p, _ := s.Profile.Profile() // Validate has resolved it
	return "profile " + p.Name + " (" + p.Summary + ")"
}

// upstreamText says what befalls a call to the upstream.
func (s *Settings) upstreamText() string {
	switch {
	case s.pathFault != nil && !s.pathFault.Slow:
		return s.pathFault.Does
	case s.Loses():
		return fmt.Sprintf("the upstream answers after %s, and %.4g %% of the packets to and from it are lost", s.delayText(), 100*s.Loss)
	case s.Fault != "":
		return fmt.Sprintf("the upstream answers after %s, and the fault %s befalls %.4g %% of the calls", s.delayText(), s.Fault, 100*s.FaultRate)
	}
	return "the upstream answers after " + s.delayText()
}

// delayText is the stub's delay as it is met: a constant one in real time.
func (s *Settings) delayText() string {
	d, err := time.ParseDuration(s.Delay)
	if err != nil || s.Scale == 1 {
		return s.Delay
	}
	return fmt.Sprintf("%v (%v at scale 1)", s.real(d), d)
}

// spanText is a time of so many scenario seconds as it passes, with what the
// reports call it: predicted and measured can then be told to be the same.
func (s *Settings) spanText(seconds float64) string {
	if s.Scale == 1 {
		return fmt.Sprintf("%.1f s", seconds)
	}
	real := s.real(time.Duration(seconds * float64(time.Second)))
	return fmt.Sprintf("%.1f s (%.1f s at scale 1)", real.Seconds(), seconds)
}
