package adminapi

import "time"

// GatewayConnections is lab gateway's /connections: those that are open now, the oldest
// first, so that the last one alive can be traced to its requests.
type GatewayConnections struct {
	Name        string              `json:"name"`
	State       string              `json:"state"` // one of the Gateway constants
	Accepted    int                 `json:"accepted"`
	Connections []GatewayConnection `json:"connections"`
}

// States of lab gateway, in their order.
const (
	GatewayServing  = "serving"
	GatewayPreStop  = "pre_stop" // told to end, and serving as before
	GatewayDraining = "draining" // accepts nothing more
)

// GatewayConnection is one client's connection to lab gateway. In the access log it is
// a line when it was accepted and one when it closed.
type GatewayConnection struct {
	Event      string    `json:"event,omitempty"` // of the access log: "accepted" or "closed"
	ID         string    `json:"connection"`      // as HeaderConnection has it
	Remote     string    `json:"remote"`
	Protocol   string    `json:"protocol,omitempty"` // of its requests: "HTTP/1.1", "HTTP/2.0"
	AcceptedAt time.Time `json:"accepted_at"`
	ClosedAt   time.Time `json:"closed_at,omitzero"`
	// ClosedBy is "client", "gateway", or "cut": the gateway, since its time was over.
	ClosedBy string `json:"closed_by,omitempty"`
	InFlight int    `json:"in_flight"`
	Total    int    `json:"total"` // requests
	// RequestIDs are the newest MaxGatewayIDs ids on it, oldest first.
	RequestIDs []string `json:"request_ids"`
	// LastRequestAt is when the newest request began.
	LastRequestAt time.Time `json:"last_request_at,omitzero"`
}

// Who closed a connection of lab gateway.
const (
	ClosedByClient  = "client"
	ClosedByGateway = "gateway"
	ClosedByCut     = "cut"
)

// MaxGatewayIDs bounds GatewayConnection.RequestIDs.
const MaxGatewayIDs = 1000

// GatewayRequest is a line of lab gateway's access log for a request that ended.
type GatewayRequest struct {
	Event      string    `json:"event"` // "request"
	Connection string    `json:"connection"`
	ID         string    `json:"id"`
	Method     string    `json:"method"`
	Path       string    `json:"path"`
	Protocol   string    `json:"protocol"`
	To         string    `json:"to"`     // host:port of the server that it was passed to
	Status     int       `json:"status"` // of the answer; 0 if none was begun
	BeganAt    time.Time `json:"began_at"`
	EndedAt    time.Time `json:"ended_at"`
	// End is one of the End constants; EndDied is an answer that the server broke off.
	End string `json:"end"`
	// UpstreamError is why no answer came from the server, empty if one did.
	UpstreamError string `json:"upstream_error,omitempty"`
	// Announced says that the answer told the client that its connection would close.
	Announced bool `json:"announced,omitempty"`
}
