package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"chokepoint/internal/evidence/sizing"
)

// printAdvice prints the choice first, then why, then what was weighed against it.
func printAdvice(w io.Writer, a sizing.Advice, _ string) {
	asked := a.Asked
	fmt.Fprintf(w, "\nupstream: %s; p50 %s, p99 %s, mean %s\n", asked.Latency, ms(asked.P50MS), ms(asked.P99MS), ms(asked.MeanMS))
	fmt.Fprintf(w, "load: %g/s to it and %g/s to the rest, %s; a pool of %d workers\n\n", asked.Rate, asked.OtherRate, asked.Arrivals, asked.Workers)
	if c := a.Recommended; c != nil {
		fmt.Fprintf(w, "recommended: -timeout %s -permits %d -permit-wait %s\n", ms(c.TimeoutMS), c.Permits, ms(asked.PermitWaitMS))
	} else {
		fmt.Fprintln(w, "no pair meets the goals:")
	}
	for _, reason := range append(a.Reasons, a.Unmet...) {
		fmt.Fprintf(w, "  - %s\n", reason)
	}
	fmt.Fprintln(w, "\ntimeouts, each with the chosen permits:")
	printCandidates(w, a, a.Timeouts)
	fmt.Fprintln(w, "\npermits, each with the chosen timeout:")
	printCandidates(w, a, a.Permits)
	fmt.Fprintln(w, "\nwhen the upstream hangs:")
	printOutage(w, a)
	if a.Validation != nil {
		printValidation(w, a)
	}
}

// printCandidates prints a row for each; a star is the recommended one. What clients
// abandon in the queue has columns where any candidate has such calls.
func printCandidates(w io.Writer, a sizing.Advice, candidates []sizing.Candidate) {
	anyAbandoned := slices.ContainsFunc(slices.Concat(a.Timeouts, a.Permits), func(c sizing.Candidate) bool { return c.AbandonedAtHeadroom.High > 0 })
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	headroom := fmt.Sprintf("at +%.0f %%", 100*a.Asked.Goals.Headroom)
	fmt.Fprintf(table, "  timeout\tpermits\tcut off\trefused\trefused %s\t", headroom)
	if anyAbandoned {
		fmt.Fprintf(table, "abandoned\tabandoned %s\t", headroom)
	}
	fmt.Fprintf(table, "held of %d\tgoals\twhy\n", a.Asked.Workers)
	for _, c := range candidates {
		mark := " "
		if a.Recommended != nil && c.Pair() == a.Recommended.Pair() {
			mark = "*"
		}
		goals := "missed"
		if c.Meets {
			goals = "met"
		}
		fmt.Fprintf(table, "%s %s\t%d\t%s\t%s\t%s\t", mark, ms(c.TimeoutMS), c.Permits, share(c.CutRatio), shares(c.Rejected), shares(c.RejectedAtHeadroom))
		if anyAbandoned {
			fmt.Fprintf(table, "%s\t%s\t", shares(c.Abandoned), shares(c.AbandonedAtHeadroom))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", counts(c.Held), goals, c.Why)
	}
	table.Flush()
}

func printOutage(w io.Writer, a sizing.Advice) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  protection\tworkers held at most\tLittle's law\tall held after")
	for _, c := range a.Outage {
		little, after := "-", "never"
		if c.LittlesLaw > 0 {
			little = fmt.Sprintf("%.0f", c.LittlesLaw)
		}
		if c.ExhaustedS != nil {
			after = fmt.Sprintf("%.2g s", c.ExhaustedS.Nominal)
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", c.Protection, counts(c.Held), little, after)
	}
	table.Flush()
}

// printValidation prints what the runs showed beside what the model had said.
func printValidation(w io.Writer, a sizing.Advice) {
	v := a.Validation
	fmt.Fprintln(w, "\nvalidation, predicted beside measured:")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  timeout\tpermits\tupstream\tfigure\tpredicted\tmeasured\tmodel\tgoal")
	for _, r := range v.Runs {
		for _, f := range r.Figures {
			predicted, measured, goal := shares(f.Predicted), share(f.Measured), ""
			if f.Unit == "count" {
				predicted, measured = counts(f.Predicted), fmt.Sprintf("%.0f", f.Measured)
			}
			if f.Goal != nil && r.Recommended {
				goal = "met"
				if f.Measured > *f.Goal {
					goal = "missed"
				}
			}
			model := "right"
			if !f.OK {
				model = "WRONG"
			}
			mark := " "
			if r.Recommended {
				mark = "*"
			}
			fmt.Fprintf(table, "%s %s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", mark, ms(r.TimeoutMS), r.Permits, r.Load, figureNames[f.Name], predicted, measured, model, goal)
		}
	}
	table.Flush()
	for _, r := range v.Runs {
		fmt.Fprintf(w, "  %s\n", r.Folder)
		for _, reason := range r.Reasons {
			fmt.Fprintf(w, "    INVALID: %s\n", reason)
		}
	}
	switch {
	case !v.Valid:
		fmt.Fprintln(w, "not validated: a run may not be believed")
	case v.ModelRight && v.GoalsMet:
		fmt.Fprintln(w, "validated: the model was right and the recommended pair meets its goals")
	case v.ModelRight:
		fmt.Fprintln(w, "the model was right, and the recommended pair misses a goal")
	default:
		fmt.Fprintln(w, "the model was wrong in the figures that are marked")
	}
}

var figureNames = map[string]string{
	sizing.FigureRejected: "calls refused", sizing.FigureCut: "calls cut off",
	sizing.FigureHeld: "workers held at most", sizing.FigureFastFailed: "other requests failed",
}

// ms spells milliseconds as a flag takes them.
func ms(v float64) string {
	return time.Duration(math.Round(v * float64(time.Millisecond))).String()
}

func share(v float64) string { return strconv.FormatFloat(100*v, 'g', 2, 64) + " %" }

func shares(r sizing.Range) string {
	if r.Low == r.High {
		return share(r.Nominal)
	}
	return fmt.Sprintf("%s (%s to %s)", share(r.Nominal), share(r.Low), share(r.High))
}

func counts(r sizing.Range) string {
	if r.Low == r.High {
		return fmt.Sprintf("%.0f", r.Nominal)
	}
	return fmt.Sprintf("%.0f (%.0f to %.0f)", r.Nominal, r.Low, r.High)
}
