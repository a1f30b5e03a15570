package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"syscall"
	"time"
)

type pair[T any] struct{ c chan T }

func (p *pair[T]) receive(n int, name string, f float64, list []int) { <-p.c }

func deep(n int, c chan int) {
	if n > 0 {
		deep(n-1, c)
		return
	}
	<-c
}

func main() {
	p := &pair[int]{make(chan int)}
	ctx := context.Background()
	pprof.Do(ctx, pprof.Labels("endpoint", "/upstream", "profile", "anti"), func(context.Context) {
		go p.receive(1, "a", 2, nil)
	})
	pprof.Do(ctx, pprof.Labels("odd key", "a]: \"quoted\", x\nnext"), func(context.Context) {
		go func() {
			go func() { select {} }()
			time.Sleep(time.Hour)
		}()
	})
	go deep(150, p.c)
	time.Sleep(50 * time.Millisecond)
	switch os.Args[1] {
	case "quit":
		syscall.Kill(os.Getpid(), syscall.SIGQUIT)
		time.Sleep(time.Second)
	case "panic":
		defer func() {
			r := recover()
			panic(fmt.Sprintf("again: %v", r))
		}()
		var m map[string]int
		m["x"] = 1
	}
}
