package plane

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// recordAndExec is the hidden command that every component is started through: it writes its own process id and then
// becomes the component. So no component ever runs without a pid file, whenever and however the starter ends. Until then
// it holds the directory's lock, which keeps a `down` from overlooking it.
const recordAndExec = "record-pid-and-exec"

// lentLock is the descriptor of the lock in a process that `start` has started: the first after the standard streams.
const lentLock = 3

func recordPIDAndExec(args []string) error {
	if len(args) < 2 {
		return errors.New(recordAndExec + " PIDFILE PROGRAM [ARGUMENT…]")
	}
	if err := os.WriteFile(args[0], fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		return err
	}
	syscall.CloseOnExec(lentLock)
	return syscall.Exec(args[1], args[1:], os.Environ())
}

// process is a component that this process has started.
type process struct {
	name  string
	log   string
	pid   int
	ended chan struct{}
	err   error // how it ended; to be read after `ended` is closed
}

// start runs a component in a session of its own: it goes on when the starter ends, and the terminal's Ctrl-C is not
// for it.
func start(at Layout, lock *os.File, name string, command []string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(at.logFile(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(self, append([]string{recordAndExec, at.pidFile(name)}, command...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock}
	cmd.Dir = at.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &process{name: name, log: log.Name(), pid: cmd.Process.Pid, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// abort ends the process, also when it has not written its pid file yet.
func (p *process) abort() {
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // it fails when the process has ended already, which is all that is wanted
	<-p.ended
}

// errPortTaken is what a component ended with when somebody was faster to take its port.
var errPortTaken = errors.New("its port was taken by another process")

// obituary says how a component ended, with the end of its log.
func (p *process) obituary() error {
	end := tail(p.log, 15)
	cause := p.err
	if strings.Contains(end, "address already in use") {
		cause = errPortTaken
	}
	return fmt.Errorf("%s ended (%w); the end of %s:\n%s", p.name, cause, p.log, end)
}

// tail is the end of a log, indented. Log lines of the API server can be very long.
func tail(path string, lines int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return "  " + err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		if len(line) > 300 {
			line = line[:300] + "…"
		}
		all[i] = "  " + line
	}
	return strings.Join(all, "\n")
}

// running returns the process id of a component, or 0 when it is not running. A pid file can outlive its process, and
// its number can by now be somebody else's: only a process that was started for this directory counts.
func running(at Layout, name string) int {
	content, err := os.ReadFile(at.pidFile(name))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(content)))
	if err != nil || pid <= 1 {
		return 0
	}
	if !strings.Contains(commandLine(pid), at.Dir+string(filepath.Separator)) {
		return 0
	}
	return pid
}

// commandLine is empty for a process that has ended, also when nobody has reaped it yet.
func commandLine(pid int) string {
	if content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		return string(content)
	}
	content, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output() // no /proc: macOS
	if err != nil {
		return ""
	}
	return string(content)
}

// kill ends a component, and returns when it is gone. There is nothing to save, so it is not asked.
func kill(at Layout, name string) (killed bool, err error) {
	pid := running(at, name)
	if pid == 0 {
		return false, nil
	}
	// The component leads its own session and process group, see `start`.
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return false, fmt.Errorf("stopping %s (process %d): %w", name, pid, err)
	}
	for deadline := time.Now().Add(10 * time.Second); running(at, name) != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false, fmt.Errorf("%s (process %d) does not end", name, pid)
		}
	}
	return true, nil
}
