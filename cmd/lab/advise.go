package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/draining"
)

const adviseSynopsis = `Usage: lab advise drain -response p50=80ms,p99=4s[,max=30s] -propagation 60s [flags]
       lab advise drain -from results/RUN -propagation 60s [flags]

How long a gateway should serve on when it is told to end (preStop), and how long it
should then drain, so that no request is refused and none fails that was executed: the
smallest setting, the one to use with the reason for each number, and what to paste
for HAProxy, nginx, Envoy under Istio, and Kubernetes.
Exit codes: 0 done, 1 failure, 2 usage.`

// adviseFlags are the flags of lab advise drain.
type adviseFlags struct {
	question                 draining.Question
	response, from, endpoint string
	maxCut                   float64
	asJSON                   bool
}

func (f *adviseFlags) bind(fs *flag.FlagSet) {
	q := &f.question
	fs.StringVar(&f.response, "response", "", "how long requests take at the gateway: p50=80ms,p99=4s,max=30s, where max is a bound that somebody keeps and may be left out, or any `distribution` of -delay")
	cli.FileVar(fs, &f.from, "from", "instead: a .hlog of loadgen, or the `folder` of a run")
	fs.StringVar(&f.endpoint, "endpoint", "", "`name` of the endpoint in the .hlog (default: the only one, or upstream)")
	fs.DurationVar(&q.Propagation, "propagation", 0, "how long the balancer gives new connections to a gateway that it was told to leave")
	fs.DurationVar(&q.DeregistrationDelay, "deregistration-delay", 0, "how long the balancer calls it draining; 0 is not known")
	fs.BoolVar(&q.Terminate, "terminate", false, "the balancer terminates connections when -deregistration-delay is over")
	fs.DurationVar(&q.KeepaliveIdle, "keepalive-idle", 0, "how long a connection to the gateway may rest before the client, or the edge, closes it; 0 if each request has a connection of its own")
	fs.Float64Var(&q.Rate, "rate", 10, "requests a second that reach one gateway, for what a setting loses")
	fs.Float64Var(&q.Margin, "margin", 0.2, "`share` that is added to what was measured")
	fs.Float64Var(&f.maxCut, "max-cut", 0.0001, "`share` of the responses that may take longer than the drain covers, where they have no bound")
	fs.BoolVar(&f.asJSON, "json", false, "print the advice as JSON")
}

// complete reads what the flags name, and refuses what makes no sense.
func (f *adviseFlags) complete(fs *flag.FlagSet) (err error) {
	rest, propagation := fs.Args(), false
	fs.Visit(func(given *flag.Flag) { propagation = propagation || given.Name == "propagation" })
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case f.response == "" && f.from == "":
		return errors.New("-response or -from is missing: how long requests take, such as -response p50=80ms,p99=4s,max=30s")
	case f.response != "" && f.from != "":
		return errors.New("-response and -from both say how long requests take; give one of them")
	case f.endpoint != "" && f.from == "":
		return errors.New("-endpoint is one of -from, which is not given")
	case !propagation:
		return errors.New("-propagation is missing: how long new connections still come, such as 60s; lab run drain shows one")
	}
	if f.from != "" {
		f.question.Response, err = draining.ReadMeasured(f.from, f.endpoint)
		if err != nil {
			return fmt.Errorf("-from: %w", err)
		}
		return nil
	}
	if f.question.Response, err = draining.ReadResponse(f.response, f.maxCut); err != nil {
		return fmt.Errorf("-response: %w", err)
	}
	return nil
}

func advise(args []string, stdout io.Writer) (int, error) {
	if len(args) == 0 || args[0] != "drain" {
		asked := ""
		if len(args) > 0 {
			switch strings.TrimLeft(args[0], "-") {
			case "h", "help":
				fmt.Fprintln(stdout, adviseSynopsis)
				return cli.ExitOK, nil
			}
			asked = fmt.Sprintf("; there is no %q", args[0])
		}
		return cli.ExitUsage, fmt.Errorf("name what to advise on: lab advise drain [flags]%s", asked)
	}
	var f adviseFlags
	fs := flag.NewFlagSet("lab advise drain", flag.ContinueOnError)
	f.bind(fs)
	err := cli.Parse(fs, args[1:], adviseSynopsis, stdout)
	if errors.Is(err, cli.ErrDone) {
		return cli.ExitUsage, err
	}
	if err == nil {
		err = f.complete(fs)
	}
	var advice draining.Advice
	if err == nil {
		advice, err = draining.Advise(f.question)
	}
	if err != nil {
		return cli.ExitUsage, fmt.Errorf("%w (%s -h lists the flags)", err, fs.Name())
	}
	if err := printResult(stdout, f.asJSON, advice, "", printDrainAdvice); err != nil {
		return cli.ExitFailure, err
	}
	return cli.ExitOK, nil
}

// printDrainAdvice prints the numbers first, then why, then what to paste.
func printDrainAdvice(w io.Writer, a draining.Advice, _ string) {
	asked := a.Asked
	fmt.Fprintf(w, "\nresponses: %s; p50 %s, p99 %s, the slowest that counts %s\n", asked.Response, secs(asked.P50S), secs(asked.P99S), secs(asked.SlowestS))
	fmt.Fprintf(w, "new connections come for %s; ", secs(asked.PropagationS))
	if asked.KeepaliveIdleS > 0 {
		fmt.Fprintf(w, "kept ones rest for %s at most; ", secs(asked.KeepaliveIdleS))
	}
	fmt.Fprintf(w, "%g requests a second at each gateway\n\n", asked.Rate)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tsetting\tpre-stop\tdrain\tresting connections\trefused\tfailed but executed\tkilled after")
	for _, p := range a.Products {
		for _, o := range []struct {
			name  string
			of    draining.Option
			grace string
		}{{"as it comes", p.Default, "30s"}, {"smallest", p.Smallest, ""}, {"recommended", p.Recommended, secs(p.GraceS)}} {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, o.name, secs(o.of.PreStopS), secs(o.of.DrainS), o.of.Idle, expected(o.of.Lost.NeverReached), expected(o.of.Lost.FailedButExecuted), o.grace)
		}
	}
	table.Flush()
	fmt.Fprintln(w, "\nrefused and failed are of the requests to one gateway that ends, on average.\n\nwhy:")
	for _, reason := range a.Reasons {
		fmt.Fprintf(w, "  - %s\n", reason)
	}
	fmt.Fprintln(w, "\nbalancer:")
	printSettings(w, a.Balancer)
	for _, p := range a.Products {
		fmt.Fprintf(w, "\n%s, as it comes: %s\n", p.Name, p.Comes)
		printSettings(w, p.Settings)
		fmt.Fprintf(w, "\n    %s\n", strings.ReplaceAll(strings.TrimRight(p.Snippet, "\n"), "\n", "\n    "))
	}
}

func printSettings(w io.Writer, settings []draining.Setting) {
	for _, s := range settings {
		fmt.Fprintf(w, "  %s: %s\n    %s\n    %s\n", s.Name, s.Value, s.Reason, s.Page)
	}
}

// secs spells seconds as a flag takes them.
func secs(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// expected spells a mean of counts.
func expected(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 0.05:
		return "under 0.1"
	}
	return fmt.Sprintf("%.1f", n)
}
