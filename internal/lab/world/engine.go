package world

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chokepoint/internal/lab/proc"
)

const (
	// askWait bounds one question to the container engine.
	askWait = 20 * time.Second
	// labLabel is on every container and network of a lab; its value is the
	// proc.Identity of the lab.
	labLabel = "chokepoint.lab"
	// Labels that both implementations of compose set.
	projectLabel = "com.docker.compose.project"
	serviceLabel = "com.docker.compose.service"
)

// engine is a container engine that answers, and the compose program for it.
type engine struct {
	docker  string   // the path of docker(1)
	compose []string // how compose is called: "docker compose" or "docker-compose"
	arch    string   // of the engine's machine, as uname(1) says it
	// rootless: root inside a container is the engine's user outside.
	rootless bool
}

// findEngine finds docker and compose and asks the engine whether it is there.
func findEngine(ctx context.Context) (*engine, error) {
	docker, err := lookPath("docker")
	if err != nil {
		return nil, errors.New("no docker in PATH; install Docker Engine with Compose, or run without containers (-runtime native)")
	}
	e := &engine{docker: docker}
	if _, err := e.ask(ctx, "compose", "version"); err == nil {
		e.compose = []string{docker, "compose"}
	} else if path, err := lookPath("docker-compose"); err == nil {
		e.compose = []string{path}
	} else {
		return nil, errors.New("neither docker compose nor docker-compose is there; install the Compose plugin of Docker, or run without containers (-runtime native)")
	}
	text, err := e.ask(ctx, "info", "--format", "{{json .}}")
	var info struct {
		ServerVersion, Architecture string
		SecurityOptions             []string
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &info)
	}
	if err == nil && info.ServerVersion == "" {
		err = errors.New("it does not say its version")
	}
	if err != nil {
		return nil, fmt.Errorf("the Docker engine does not answer: %w; start it, or check DOCKER_HOST and whether you may use it", err)
	}
	e.arch = info.Architecture
	e.rootless = slices.ContainsFunc(info.SecurityOptions, func(o string) bool { return strings.Contains(o, "name=rootless") })
	return e, nil
}

// lookPath finds a program by an absolute path: the reaper runs it in another
// folder.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// ask runs a short docker command and returns what it prints, without the last
// newline. Its error is one line.
func (e *engine) ask(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askWait, fmt.Errorf("docker %s: no answer within %s", args[0], askWait))
	defer cancel()
	cmd := exec.CommandContext(ctx, e.docker, args...)
	cmd.WaitDelay = time.Second
	// A Ctrl-C in the terminal is for the lab alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		return strings.TrimRight(string(out), "\n"), nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if reason := complaint(strings.Split(stderr.String(), "\n")); reason != "" {
		return "", errors.New(reason)
	}
	return "", fmt.Errorf("docker %s: %w", args[0], err)
}

// complaint is the line of a docker or compose program's output that says what
// went wrong: the last one that calls itself an error, else the last one.
func complaint(lines []string) string {
	var last, lastError string
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		last = line
		if lower := strings.ToLower(line); strings.HasPrefix(lower, "error") {
			lastError = line
		}
	}
	if lastError != "" {
		return lastError
	}
	return last
}

// composeArgs begins every compose command.
func (e *engine) composeArgs(project string, files ...string) []string {
	args := append(slices.Clone(e.compose), "--project-name", project)
	for _, file := range files {
		args = append(args, "--file", file)
	}
	return args
}

// downArgs is the command that removes everything of a project. It needs no more
// of a run than its name, so that it can be used for a run that is not there any
// more; where nothing is left it does nothing.
func (e *engine) downArgs(project, composeFile string, grace time.Duration) []string {
	return append(e.composeArgs(project, composeFile),
		"down", "--volumes", "--remove-orphans", "--timeout", strconv.Itoa(int(grace.Seconds())))
}

// deadProjects lists the projects of labs that are gone.
func (e *engine) deadProjects(ctx context.Context) ([]string, error) {
	format := fmt.Sprintf("{{.Label %q}}\t{{.Label %q}}", projectLabel, labLabel)
	containers, err := e.ask(ctx, "ps", "--all", "--filter", "label="+labLabel, "--format", format)
	if err != nil {
		return nil, err
	}
	networks, err := e.ask(ctx, "network", "ls", "--filter", "label="+labLabel, "--format", format)
	if err != nil {
		return nil, err
	}
	var dead []string
	for line := range strings.Lines(containers + "\n" + networks) {
		project, label, _ := strings.Cut(strings.TrimSpace(line), "\t")
		var lab proc.Identity
		if project == "" || slices.Contains(dead, project) || json.Unmarshal([]byte(label), &lab) != nil || !lab.Gone() {
			continue
		}
		dead = append(dead, project)
	}
	return dead, nil
}

// services returns the ids of a project's containers by service, without those
// of the load generator.
func (e *engine) services(ctx context.Context, project string) (map[string]string, error) {
	text, err := e.ask(ctx, "ps", "--all", "--no-trunc", "--filter", "label="+projectLabel+"="+project,
		"--format", fmt.Sprintf("{{.Label %q}}\t{{.ID}}", serviceLabel))
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for line := range strings.Lines(text) {
		if service, id, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && service != "loadgen" {
			ids[service] = id
		}
	}
	return ids, nil
}

// ports returns where on the host each TCP port of a container is published.
func (e *engine) ports(ctx context.Context, id string) (map[int]string, error) {
	text, err := e.ask(ctx, "port", id)
	if err != nil {
		return nil, err
	}
	published := map[int]string{}
	for line := range strings.Lines(text) { // 8080/tcp -> 127.0.0.1:49153
		inside, outside, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		number, _ := strings.CutSuffix(inside, "/tcp")
		if port, err := strconv.Atoi(number); err == nil {
			published[port] = outside
		}
	}
	return published, nil
}

// container is what docker inspect says of one.
type container struct {
	ID    string `json:"Id"`
	Image string // its id
	State struct {
		Status    string // "created", "running", "exited", ...
		Running   bool
		OOMKilled bool
		ExitCode  int
		Pid       int
	}
	HostConfig struct {
		NanoCpus int64 // CPUs in units of 1e-9
		Memory   int64 // bytes
	}
}

func (e *engine) inspect(ctx context.Context, name string) (container, error) {
	text, err := e.ask(ctx, "container", "inspect", "--format", "{{json .}}", name)
	if err != nil {
		return container{}, err
	}
	var c container
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, fmt.Errorf("docker inspect %s: %w", name, err)
	}
	return c, nil
}

// status says how a container ended, as proc.Child.Status does.
func (c container) status() string {
	switch {
	case c.State.Running:
		return "running"
	case c.State.OOMKilled:
		return fmt.Sprintf("exit status %d: it used more than its %d bytes of memory", c.State.ExitCode, c.HostConfig.Memory)
	}
	return "exit status " + strconv.Itoa(c.State.ExitCode)
}
