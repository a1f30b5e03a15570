package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func style(t *testing.T) string {
	t.Helper()
	css, err := files.ReadFile("assets/style.css")
	if err != nil {
		t.Fatal(err)
	}
	return string(css)
}

// tokens are the colours of the style sheet by name, light and dark.
func tokens(t *testing.T) map[string][2]string {
	t.Helper()
	found := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);`).FindAllStringSubmatch(style(t), -1) {
		found[m[1]] = [2]string{m[2], m[3]}
	}
	if n := strings.Count(style(t), "light-dark("); n != len(found) || n < 20 {
		t.Fatalf("%d of %d colours are read", len(found), n)
	}
	return found
}

// luminance is the relative luminance of WCAG 2.1.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(hex[1:], 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	channel := func(shift uint) float64 {
		c := float64(n>>shift&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(16) + 0.7152*channel(8) + 0.0722*channel(0)
}

func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// TestContrast: WCAG 2.1 AA wants 4.5 of text (1.4.3) and 3 of what a graphic is made of
// (1.4.11), against everything that it may stand on.
func TestContrast(t *testing.T) {
	colours := tokens(t)
	for name, colour := range colours {
		least := 0.0
		grounds := []string{"paper", "raised"}
		switch {
		case strings.HasPrefix(name, "g-"):
			least, grounds = 3, []string{"paper", "raised", "shade"}
		case strings.Contains(" ink quiet link good bad warn ", " "+name+" "):
			least = 4.5
		}
		for _, ground := range grounds {
			for i, theme := range []string{"light", "dark"} {
				if got := contrast(t, colour[i], colours[ground][i]); got < least {
					t.Errorf("%s on %s in %s: %.2f, want %.1f", name, ground, theme, got, least)
				}
			}
		}
	}
	if got := contrast(t, "#000000", "#ffffff"); math.Abs(got-21) > 1e-9 {
		t.Errorf("black on white is %f, want 21", got)
	}
}

// TestEveryColourHasItsClass: what charts, bars and keys name is in the style sheet.
func TestEveryColourHasItsClass(t *testing.T) {
	css, names := style(t), []Colour{CPU, OK}
	for i := range colours {
		names = append(names, Numbered(i))
	}
	for name := range tokens(t) {
		if place, ok := strings.CutPrefix(name, "g-"); ok {
			names = append(names, Colour(place))
		}
	}
	for _, name := range names {
		if want := fmt.Sprintf(".f-%s { fill: var(--g-%s); background: var(--g-%s); }", name, name, name); !strings.Contains(css, want) {
			t.Errorf("the style sheet has no %s", want)
		}
	}
	if Numbered(colours) != Numbered(0) {
		t.Error("the numbered colours do not begin again after the last")
	}
}

func TestAPageIsOneFileUnderItsPolicy(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, Page{Title: `a "title" </title>`, Body: `<main id="main"></main>`, Scripts: []string{"let own = 1;"}}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	scripts := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllStringSubmatch(page, -1)
	if len(scripts) != 5 || scripts[4][1] != "let own = 1;" {
		t.Fatalf("%d scripts, want 5, the page's own last", len(scripts))
	}
	for _, s := range scripts {
		if want := strings.ReplaceAll(digest(s[1]), "'", "&#39;"); !strings.Contains(page, strings.ReplaceAll(want, "+", "&#43;")) {
			t.Errorf("the policy does not name the script that begins %.40q", s[1])
		}
	}
	for _, want := range []string{"default-src &#39;none&#39;", "Copyright (c) 2022 Leon Sorokin", "a &#34;title&#34; &lt;/title&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not hold %s", want)
		}
	}
	for _, unwanted := range []string{"connect-src", ` src="`, "@import", "url("} {
		if strings.Contains(page, unwanted) {
			t.Errorf("the page holds %s", unwanted)
		}
	}
	b.Reset()
	if err := Write(&b, Page{Connects: true}); err != nil || !strings.Contains(b.String(), "connect-src &#39;self&#39;") {
		t.Errorf("a page that connects may not (error %v)", err)
	}
}

func TestValues(t *testing.T) {
	got, err := json.Marshal(Values{0, 1.5, math.NaN(), math.Inf(1), 1234567.8, -0.000012})
	if want := "[0,1.5,null,null,1.23457e+06,-1.2e-05]"; err != nil || string(got) != want {
		t.Errorf("%s (error %v), want %s", got, err, want)
	}
	if got, err := json.Marshal(Values(nil)); err != nil || string(got) != "[]" {
		t.Errorf("%s (error %v), want []", got, err)
	}
}
