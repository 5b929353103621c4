package plane

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Status prints what runs. For a component that has ended it prints the end of the log, which says why.
func Status(ctx context.Context, at Layout, out io.Writer) error {
	complete, total := true, 0
	for _, name := range components {
		pid := running(at, name)
		if pid != 0 {
			megabytes := memory(pid)
			total += megabytes
			fmt.Fprintf(out, "%-24s process %d, %d MB\n", name, pid, megabytes)
			continue
		}
		complete = false
		fmt.Fprintf(out, "%-24s not running\n", name)
		if _, err := os.Stat(at.pidFile(name)); err == nil { // it ended by itself: `down` removes the pid file
			fmt.Fprintf(out, "  the end of %s:\n%s\n", at.logFile(name), tail(at.logFile(name), 15))
		}
	}
	if !complete {
		return errNotRunning
	}
	api, err := connect(at.Kubeconfig())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := api.ready(ctx); err != nil {
		fmt.Fprintf(out, "the API server at %s is not ready: %v\n", api.server, err)
		return errNotRunning
	}
	_, err = fmt.Fprintf(out, "ready at %s, %d MB in all, KUBECONFIG=%s\n", api.server, total, quote(at.Kubeconfig()))
	return err
}

// memory is how many megabytes a process holds in memory, or 0 where the kernel does not tell.
func memory(pid int) int {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		var kilobytes int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); err == nil {
			return kilobytes / 1024
		}
	}
	return 0
}
