package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/service/admin"
)

// maxBehaviourBytes bounds the body of PUT /behaviour.
const maxBehaviourBytes = 64 << 10

// adminHandler serves the admin listener: /healthz, /readyz, /stats,
// /behaviour, /requests, /metrics and /debug/pprof/*.
func (s *Server) adminHandler() http.Handler {
	registry := admin.NewRegistry()
	registry.MustRegister(s.counts)
	mux := admin.NewMux(registry)
	// Ready says that the admin listener is served: a stub that refuses connections
	// because it was told to is ready.
	mux.HandleFunc("GET "+adminapi.PathReady, admin.OK)
	mux.HandleFunc("GET "+adminapi.PathStats, func(w http.ResponseWriter, _ *http.Request) {
		admin.WriteJSON(w, http.StatusOK, s.Stats())
	})
	mux.HandleFunc("GET "+adminapi.PathBehaviour, func(w http.ResponseWriter, _ *http.Request) {
		admin.WriteJSON(w, http.StatusOK, s.Behaviour())
	})
	mux.HandleFunc("PUT "+adminapi.PathBehaviour, s.putBehaviour)
	mux.HandleFunc("GET "+adminapi.PathRequests, func(w http.ResponseWriter, r *http.Request) {
		admin.WriteJSON(w, http.StatusOK, s.requests.snapshot(r.FormValue("id")))
	})
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
		admin.WriteJSON(w, http.StatusConflict, adminapi.Error{Error: adminapi.CauseConflict, Detail: err.Error()})
	case err != nil:
		admin.WriteJSON(w, http.StatusBadRequest, adminapi.Error{Error: adminapi.CauseBadRequest, Detail: err.Error()})
	default:
		admin.WriteJSON(w, http.StatusOK, s.Behaviour())
	}
}

// decodeBehaviour reads exactly one behaviour and knows all of its fields.
func decodeBehaviour(r io.Reader) (adminapi.Behaviour, error) {
	var b adminapi.Behaviour
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return b, fmt.Errorf("the body is not a behaviour: %w; its fields are %s", err, strings.Join(behaviourFields(), ", "))
	}
	if _, err := d.Token(); err != io.EOF {
		return b, errors.New("the body goes on after the behaviour; send one JSON object")
	}
	return b, nil
}

// behaviourFields are the names of the fields of a behaviour in JSON.
func behaviourFields() []string {
	t := reflect.TypeFor[adminapi.Behaviour]()
	fields := make([]string, t.NumField())
	for i := range fields {
		fields[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return fields
}

// errorBody is the JSON of an error answer of the public listener.
func errorBody(cause, detail string) []byte {
	// Two strings always marshal.
	body, _ := json.Marshal(adminapi.Error{Error: cause, Detail: detail})
	return body
}
