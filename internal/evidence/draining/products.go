package draining

import (
	"fmt"
	"time"
)

// kubernetesGrace is terminationGracePeriodSeconds where nobody sets it.
const kubernetesGrace = 30 * time.Second

// Pages of the products' documentation from which names and meanings are taken.
const (
	pageHAProxy    = "https://docs.haproxy.org/2.6/configuration.html"
	pageNginxCore  = "https://nginx.org/en/docs/ngx_core_module.html#worker_shutdown_timeout"
	pageNginxHTTP  = "https://nginx.org/en/docs/http/ngx_http_core_module.html#keepalive_min_timeout"
	pageNginxStop  = "https://nginx.org/en/docs/control.html"
	pageIstio      = "https://istio.io/latest/docs/reference/config/istio.mesh.v1alpha1/#ProxyConfig"
	pageKubernetes = "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination"
	pageHooks      = "https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/"
	pageShutdown   = "https://pkg.go.dev/net/http#Server.Shutdown"
)

// kind is a product: what it does as it comes, and how an advice is written for it.
type kind struct {
	name  string
	comes string
	// drain is how long it drains as it comes, under kubernetesGrace.
	drain time.Duration
	// asItComes and advised are what it does to resting connections; advised is of
	// clients that keep connections.
	asItComes, advised Idle
	settings           func(q Question, s Stop) []Setting
	snippet            func(q Question, s Stop, grace time.Duration) string
}

var kinds = []kind{
	{
		name: "haproxy", drain: kubernetesGrace, asItComes: CloseIdle, advised: KeepIdle,
		comes:    "no pre-stop; SIGUSR1 drains without a bound, so until the SIGKILL of Kubernetes after 30 s",
		settings: haproxySettings, snippet: haproxySnippet,
	},
	{
		name: "nginx", drain: kubernetesGrace, asItComes: CloseIdle, advised: KeepIdle,
		comes:    "no pre-stop; SIGQUIT drains without a bound, so until the SIGKILL of Kubernetes after 30 s; SIGTERM would not drain at all",
		settings: nginxSettings, snippet: nginxSnippet,
	},
	{
		name: "envoy-istio", drain: 5 * time.Second, asItComes: KeepIdle, advised: KeepIdle,
		comes:    "no pre-stop; terminationDrainDuration 5 s",
		settings: istioSettings, snippet: istioSnippet,
	},
	{
		name: "kubernetes", drain: kubernetesGrace, asItComes: CloseIdle, advised: CloseIdle,
		comes:    "a server that drains by itself on SIGTERM, as with net/http's Shutdown: no pre-stop, SIGKILL after 30 s",
		settings: podOnlySettings, snippet: podOnlySnippet,
	},
}

// product is the advice for one kind.
func (q Question) product(k kind) Product {
	idle := k.advised
	if q.KeepaliveIdle == 0 && k.asItComes == CloseIdle {
		idle = CloseIdle // nothing rests
	}
	s := Stop{q.preStop(), q.drain(idle)}
	grace := s.end() + graceMargin
	return Product{
		Name: k.name, Comes: k.comes,
		Default:     q.option(Stop{0, k.drain}, k.asItComes),
		Smallest:    q.option(Smallest(q.Traffic, idle, resolution), idle),
		Recommended: q.option(s, idle), GraceS: grace.Seconds(),
		Settings: append(k.settings(q, s), q.podSettings(s, grace)...),
		Snippet:  k.snippet(q, s, grace),
	}
}

// podSettings are what any pod needs.
func (q Question) podSettings(s Stop, grace time.Duration) []Setting {
	var settings []Setting
	if s.PreStop > 0 {
		settings = append(settings, Setting{"lifecycle.preStop.sleep.seconds", number(s.PreStop), "covers the propagation: the server knows of nothing meanwhile; from Kubernetes 1.30 on, before that exec with sleep", pageHooks})
	}
	return append(settings, Setting{"terminationGracePeriodSeconds", number(grace), fmt.Sprintf("counts from before the pre-stop: %s + %s + %s", s.PreStop, s.Drain, graceMargin), pageKubernetes})
}

func number(d time.Duration) string { return fmt.Sprintf("%.0f", d.Seconds()) }

// short spells whole seconds as the products take them.
func short(d time.Duration) string { return number(d) + "s" }

// pod is the part of a pod's template that all have. Without a pre-stop it has no hook:
// Kubernetes before 1.33 rejects a sleep of 0 seconds (KEP-4818).
func pod(container string, s Stop, grace time.Duration) string {
	spec := fmt.Sprintf("spec:\n  terminationGracePeriodSeconds: %s\n", number(grace))
	if s.PreStop == 0 {
		return spec
	}
	return spec + fmt.Sprintf(`  containers:
  - name: %s
    lifecycle:
      preStop:
        sleep:
          seconds: %s
`, container, number(s.PreStop))
}

func haproxySettings(q Question, s Stop) []Setting {
	settings := []Setting{{"hard-stop-after", short(s.Drain), "from the SIGUSR1 on, after which it exits whatever is left; without it HAProxy waits for ever", pageHAProxy + "#3.1-hard-stop-after"}}
	if q.KeepaliveIdle > 0 {
		settings = append(settings, Setting{"option idle-close-on-response", "set", "resting connections are not closed under a client that is about to use them, but with their next answer; the drain covers the rest for it", pageHAProxy + "#4-option%20idle-close-on-response"})
	}
	return settings
}

func haproxySnippet(q Question, s Stop, grace time.Duration) string {
	keep := ""
	if q.KeepaliveIdle > 0 {
		keep = "defaults\n    option idle-close-on-response\n"
	}
	elsewhere := ""
	if s.PreStop > 0 {
		elsewhere = fmt.Sprintf(` Elsewhere "grace %s" in
# global is the pre-stop, if the process is never reloaded.`, short(s.PreStop))
	}
	return fmt.Sprintf(`# haproxy.cfg
global
    hard-stop-after %s
%s
# Pod, of an image that stops by SIGUSR1 (STOPSIGNAL).%s
%s`, short(s.Drain), keep, elsewhere, pod("haproxy", s, grace))
}

func nginxSettings(q Question, s Stop) []Setting {
	settings := []Setting{
		{"worker_shutdown_timeout", short(s.Drain), "after a SIGQUIT, then it closes what is open; without it nginx waits for ever", pageNginxCore},
		{"STOPSIGNAL", "SIGQUIT", "SIGTERM is nginx's fast shutdown: it cuts off everything in flight", pageNginxStop},
	}
	if q.KeepaliveIdle > 0 {
		settings = append(settings, Setting{"keepalive_min_timeout", short(whole(q.KeepaliveIdle)), "resting connections are not closed under a client that is about to use them; from nginx 1.27.4 on. Older ones close them at once: then some requests meet the close, and " + short(q.drain(CloseIdle)) + " of drain are enough", pageNginxHTTP})
	}
	return settings
}

func nginxSnippet(q Question, s Stop, grace time.Duration) string {
	keep := ""
	if q.KeepaliveIdle > 0 {
		keep = fmt.Sprintf("http {\n    keepalive_min_timeout %s;  # nginx 1.27.4\n}\n", short(whole(q.KeepaliveIdle)))
	}
	return fmt.Sprintf(`# nginx.conf
worker_shutdown_timeout %s;
%s
# Pod, of an image that stops by SIGQUIT (STOPSIGNAL).
%s`, short(s.Drain), keep, pod("nginx", s, grace))
}

func istioSettings(q Question, s Stop) []Setting {
	return []Setting{
		{"terminationDrainDuration", short(s.Drain), "on SIGTERM the agent has Envoy drain, sleeps this long, and kills it; every answer meanwhile says that its connection closes. 5s where nobody sets it", pageIstio},
		{"EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "unset", "it waits for clients to close, whom nobody can make; and terminationDrainDuration then counts for nothing", "https://istio.io/latest/docs/reference/commands/pilot-agent/"},
	}
}

func istioSnippet(_ Question, s Stop, grace time.Duration) string {
	return fmt.Sprintf(`# Pod template of the gateway.
metadata:
  annotations:
    proxy.istio.io/config: |
      terminationDrainDuration: %s
%s`, short(s.Drain), pod("istio-proxy", s, grace))
}

func podOnlySettings(_ Question, s Stop) []Setting {
	return []Setting{{"the server's own drain", short(s.Drain), "the deadline of the context of net/http's Shutdown, or what your server calls it; on SIGTERM, so after the pre-stop", pageShutdown}}
}

func podOnlySnippet(_ Question, s Stop, grace time.Duration) string {
	return fmt.Sprintf(`# The server: on SIGTERM, drain for %s at most.
# Pod.
%s`, short(s.Drain), pod("server", s, grace))
}
