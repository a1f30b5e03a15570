package scrape

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// text is what Spring Boot's /actuator/prometheus and a Go client write.
const text = `# HELP tomcat_threads_busy_threads
# TYPE tomcat_threads_busy_threads gauge
tomcat_threads_busy_threads{name="http-nio-8080"} 200.0
tomcat_threads_busy_threads{name="http-nio-8081"} 1.0
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.5
# TYPE tomcat_global_request_seconds summary
tomcat_global_request_seconds_count{name="http-nio-8080"} 7.0
tomcat_global_request_seconds_sum{name="http-nio-8080"} 0.5
system_cpu_count 2.0
process_cpu_usage NaN
`

func TestValue(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" {
			t.Errorf("headers %v", r.Header)
		}
		fmt.Fprint(w, text)
	}))
	defer server.Close()
	families, err := Get(t.Context(), server.Client(), server.URL, http.Header{"Authorization": {"Bearer x"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		selector string
		want     float64
		ok       bool
	}{
		{"tomcat_threads_busy_threads", 201, true},
		{`tomcat_threads_busy_threads{name="http-nio-8080"}`, 200, true},
		{`tomcat_threads_busy_threads{name="other"}`, 0, false},
		{`process_cpu_seconds_total{pid="1"}`, 0, false},
		{" process_cpu_seconds_total ", 12.5, true},
		{"system_cpu_count", 2, true},
		{"tomcat_global_request_seconds", 0, false},
		{"process_cpu_usage", 0, false},
		{"missing", 0, false},
	} {
		s, err := ParseSelector(test.selector)
		if err != nil {
			t.Errorf("%s: %v", test.selector, err)
		} else if got, ok := families.Value(s); got != test.want || ok != test.ok {
			t.Errorf("%s is %v, %v; want %v, %v", test.selector, got, ok, test.want, test.ok)
		}
	}
}

func TestSelectorsThatAreNone(t *testing.T) {
	for _, bad := range []string{"", "a b", "a{", `a{b=c}`, "a 1\nb", "sum(a)", "# HELP a"} {
		if s, err := ParseSelector(bad); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", strings.TrimSpace(bad))) {
			t.Errorf("%q: %v, %v", bad, s, err)
		}
	}
}

func TestAnswersWithoutMetrics(t *testing.T) {
	for _, test := range []struct {
		name, kind, body, want string
		status                 int
	}{
		{"not there", "", "", "404 Not Found", 404},
		{"a page", "text/html; charset=utf-8", "<html>", "HTML", 200},
		{"another text", "", "hello, world\n", "text format", 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.kind != "" {
					w.Header().Set("Content-Type", test.kind)
				}
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			}))
			defer server.Close()
			address := strings.Replace(server.URL, "://", "://user:secret@", 1)
			_, err := Get(t.Context(), server.Client(), address, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %q", err, test.want)
			}
			server.Close()
			if _, err = Get(t.Context(), server.Client(), address, nil); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("of a server that is gone: %v", err)
			}
		})
	}
}
