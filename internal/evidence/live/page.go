package live

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/page"
	"chokepoint/internal/evidence/stacks"
)

//go:embed assets
var assets embed.FS

// place is a place of a worker as the page shows it.
type place struct {
	Letter string `json:"letter"`
	Where  string `json:"where"` // the word of a dump, and the name of its colour
	Words  string `json:"words"`
}

// places are those that a worker can stand in, in the order of the page.
func places() []place {
	return []place{
		{string(adminapi.WhereUpstreamRead), stacks.UpstreamRead, "upstream read"},
		{string(adminapi.WherePermitWait), stacks.PermitWait, "permit wait"},
		{string(adminapi.WhereDatabase), stacks.Database, "database"},
		{string(adminapi.WhereRunning), stacks.Running, "running"},
		{string(adminapi.WhereIdle), stacks.Idle, "idle"},
	}
}

// renderPage makes the page, which is the same for every run.
func renderPage() ([]byte, error) {
	body, err := template.ParseFS(assets, "assets/live.html.tmpl")
	if err != nil {
		return nil, err
	}
	var inner bytes.Buffer
	if err := body.Execute(&inner, places()); err != nil {
		return nil, err
	}
	data, err := json.Marshal(places())
	if err != nil {
		return nil, err
	}
	style, err := assets.ReadFile("assets/live.css")
	if err != nil {
		return nil, err
	}
	script, err := assets.ReadFile("assets/live.js")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Write(&out, page.Page{
		Title:    "Chokepoint: a run as it goes",
		Style:    string(style),
		Body:     template.HTML(inner.String()),
		Scripts:  []string{"const Places = " + string(data) + ";\n" + string(script)},
		Connects: true,
	})
	return out.Bytes(), err
}
