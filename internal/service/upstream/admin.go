package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"

	"chokepoint/internal/adminapi"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxBehaviourBytes bounds the body of PUT /behaviour.
const maxBehaviourBytes = 64 << 10

// adminHandler serves the admin listener: /healthz, /readyz, /stats,
// /behaviour, /metrics and /debug/pprof/*.
func (s *Server) adminHandler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		s.counts,
	)
	// Both say that the process serves its admin listener; a stub that refuses
	// connections because it was told to is ready.
	ok := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") }

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", ok)
	mux.HandleFunc("GET "+adminapi.PathReady, ok)
	mux.HandleFunc("GET "+adminapi.PathStats, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.Stats())
	})
	mux.HandleFunc("GET "+adminapi.PathBehaviour, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.Behaviour())
	})
	mux.HandleFunc("PUT "+adminapi.PathBehaviour, s.putBehaviour)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// putBehaviour replaces the behaviour by the one in the body and answers with
// its normal form: 400 if it is not valid, 409 if the port cannot be had again.
func (s *Server) putBehaviour(w http.ResponseWriter, r *http.Request) {
	b, err := decodeBehaviour(http.MaxBytesReader(w, r.Body, maxBehaviourBytes))
	if err == nil {
		err = s.SetBehaviour(r.Context(), b)
	}
	switch {
	case errors.Is(err, ErrCannotReopen):
		writeJSON(w, http.StatusConflict, adminapi.Error{Error: adminapi.CauseConflict, Detail: err.Error()})
	case err != nil:
		writeJSON(w, http.StatusBadRequest, adminapi.Error{Error: adminapi.CauseBadRequest, Detail: err.Error()})
	default:
		writeJSON(w, http.StatusOK, s.Behaviour())
	}
}

// decodeBehaviour reads exactly one behaviour and knows all of its fields.
func decodeBehaviour(r io.Reader) (adminapi.Behaviour, error) {
	var b adminapi.Behaviour
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return b, fmt.Errorf("the body is not a behaviour: %w; its fields are delay, fault, fault_rate and body_bytes", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return b, errors.New("the body goes on after the behaviour; send one JSON object")
	}
	return b, nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The only error left is a caller that has gone.
	json.NewEncoder(w).Encode(v)
}

// errorBody is the JSON of an error answer of the public listener.
func errorBody(cause, detail string) []byte {
	// Two strings always marshal.
	body, _ := json.Marshal(adminapi.Error{Error: cause, Detail: detail})
	return body
}
