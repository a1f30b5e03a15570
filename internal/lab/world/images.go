package world

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"chokepoint/internal/lab/proc"
)

const (
	// postgresImageVariable and defaultPostgresImage are those of docker-compose.yml.
	postgresImageVariable = "CHOKEPOINT_POSTGRES_IMAGE"
	defaultPostgresImage  = "postgres:17.5-alpine"
	// dockerfile is beside docker-compose.yml.
	dockerfile = "deploy/docker/Dockerfile"
	// oldImage is the age from which images of former binaries are removed.
	oldImage = 24 * time.Hour
)

// machines are the machines of ELF files by the name that uname(1) has for them.
var machines = map[string]elf.Machine{"x86_64": elf.EM_X86_64, "aarch64": elf.EM_AARCH64}

// checkStatic refuses a program that cannot run in an image FROM scratch on a
// machine of the given kind.
func checkStatic(path, arch string) error {
	const remedy = "build it with GOOS=linux CGO_ENABLED=0 (make build does on Linux), or name another folder with -bin-dir"
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is not a Linux program (%w); %s", path, err, remedy)
	}
	defer f.Close()
	if want, known := machines[arch]; known && f.Machine != want {
		return fmt.Errorf("%s is for %s and the Docker engine runs on %s; %s", path, f.Machine, arch, remedy)
	}
	for _, segment := range f.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically, and its image holds no libraries; %s", path, remedy)
		}
	}
	return nil
}

// imageName names a program's image by what goes into it, so that two labs with
// different binaries do not take each other's.
func imageName(program, hash string, recipe []byte) string {
	sum := sha256.Sum256(append([]byte(hash+"\n"), recipe...))
	return "chokepoint-" + program + ":" + hex.EncodeToString(sum[:6])
}

// buildImages makes the images that are not there yet.
func (w *Compose) buildImages(ctx context.Context) error {
	recipe, err := os.ReadFile(filepath.Join(filepath.Dir(w.composeFile), dockerfile))
	if err != nil {
		return fmt.Errorf("the recipe of the images: %w", err)
	}
	var missing []string
	for _, program := range []string{"upstream", "victim", "loadgen"} {
		if err := checkStatic(w.programs[program], w.engine.arch); err != nil {
			return err
		}
		w.images[program] = imageName(program, w.hashes[program], recipe)
		if _, err := w.engine.ask(ctx, "image", "inspect", "--format", "{{.Id}}", w.images[program]); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	w.cfg.Progress("building images")
	// Of former binaries. One that another lab is about to use it builds again.
	if _, err := w.engine.ask(ctx, "image", "prune", "--all", "--force",
		"--filter", "label=chokepoint.program", "--filter", "until="+oldImage.String()); err != nil {
		w.cfg.Progress("old images stay: %v", err)
	}
	for _, program := range missing {
		if err := w.buildImage(ctx, program, recipe); err != nil {
			return err
		}
	}
	return nil
}

// buildImage lays out the recipe and one program, and nothing else, in a folder
// of the run's for the time of the build.
func (w *Compose) buildImage(ctx context.Context, program string, recipe []byte) error {
	stage := filepath.Join(w.cfg.RunDir, ".image")
	defer os.RemoveAll(stage)
	if err := os.MkdirAll(filepath.Join(stage, "bin"), 0o755); err != nil {
		return err
	}
	if err := copyProgram(filepath.Join(stage, "bin", program), w.programs[program]); err != nil {
		return fmt.Errorf("image of %s: %w", program, err)
	}
	if err := os.WriteFile(filepath.Join(stage, "Dockerfile"), recipe, 0o644); err != nil {
		return err
	}
	return w.do(ctx, "docker build "+program, []string{
		w.engine.docker, "build", "--build-arg", "PROGRAM=" + program, "--tag", w.images[program], stage,
	})
}

func copyProgram(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// postgresImage is the PostgreSQL to use. The lab hands its children none of its
// variables, so it looks here.
func postgresImage() string {
	if image := os.Getenv(postgresImageVariable); image != "" {
		return image
	}
	return defaultPostgresImage
}

// havePostgresImage gets it if it is not there.
func (w *Compose) havePostgresImage(ctx context.Context) error {
	image := postgresImage()
	if _, err := w.engine.ask(ctx, "image", "inspect", "--format", "{{.Id}}", image); err == nil {
		return nil
	}
	w.cfg.Progress("pulling %s", image)
	if err := w.do(ctx, "docker pull", []string{w.engine.docker, "pull", image}); err != nil {
		return fmt.Errorf("no PostgreSQL image %s here, and it cannot be had: %w; set %s to an image that is here, or run without containers (-runtime native)",
			image, err, postgresImageVariable)
	}
	return nil
}

// do runs a command that takes its time, as a child of the lab: it ends when the
// lab does. Its output goes to logs/compose.log.
func (w *Compose) do(ctx context.Context, name string, argv []string) error {
	child, err := w.launcher.Start(ctx, proc.Spec{Name: name, Path: argv[0], Args: argv[1:], LogPath: w.logPath("compose")})
	if err != nil {
		return err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		if err := child.Stop(context.WithoutCancel(ctx), stopGrace); err != nil {
			return err
		}
		return fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	if err := child.Err(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, complaint(child.LastLog(complaintLines)))
	}
	return nil
}

// complaintLines is how far back a command's error is looked for in its output.
const complaintLines = 10
