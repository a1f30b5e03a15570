package engine

// refill lets every free worker of a closed model send its next request.
func (l *loop) refill() {
	if l.next.leaves == forever {
		return
	}
	now := l.now()
	l.next.leaves = forever
	sent := 0
	for i := range l.lanes {
		lane := &l.lanes[i]
		for lane.free > 0 && lane.from <= now && now < lane.until && sent < maxBurst {
			slot := l.take(lane, now)
			l.launch(slot, int32(i), job{index: lane.tally.next(), due: now}, now)
			sent++
			now = l.now()
		}
		switch {
		case now < lane.from:
			l.next.leaves = min(l.next.leaves, lane.from)
		case now < lane.until:
			// Until then a worker may become free: that is an event, or a deadline.
			l.next.leaves = min(l.next.leaves, lane.until)
			if lane.free > 0 {
				l.next.leaves = now
			}
		}
	}
}
