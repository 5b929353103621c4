package plane

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Layout is where a cluster's files are: everything in one directory, so that this directory is all one has to know
// to find, question and stop a cluster.
type Layout struct{ Dir string }

// Kubeconfig has an administrator in system:masters, and in a second context one who is not.
func (at Layout) Kubeconfig() string { return filepath.Join(at.Dir, "kubeconfig") }

func (at Layout) data() string                   { return filepath.Join(at.Dir, "etcd") }
func (at Layout) pki(file string) string         { return filepath.Join(at.Dir, "pki", file) }
func (at Layout) pidFile(name string) string     { return filepath.Join(at.Dir, name+".pid") }
func (at Layout) logFile(name string) string     { return filepath.Join(at.Dir, name+".log") }
func (at Layout) commandFile(name string) string { return filepath.Join(at.Dir, name+".command") }
func (at Layout) lockFile() string               { return filepath.Join(at.Dir, "lock") }
func (at Layout) controllerKubeconfig() string   { return at.pki("kube-controller-manager.kubeconfig") }

// create makes the directories. Keys are in there, so they are the owner's alone.
func (at Layout) create() error {
	for _, dir := range []string{at.Dir, at.pki("")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// removeData removes what `create` and a run of the cluster made, and nothing else: the directory may be one that was
// there before. The logs stay, for whoever wants to know what happened.
func (at Layout) removeData() error {
	files := []string{at.data(), at.pki(""), at.Kubeconfig()}
	for _, name := range components {
		files = append(files, at.pidFile(name), at.commandFile(name))
	}
	for _, file := range files {
		if err := os.RemoveAll(file); err != nil {
			return err
		}
	}
	return nil
}

// removeLogs makes room for those of a new cluster.
func (at Layout) removeLogs() error {
	for _, name := range components {
		if err := os.RemoveAll(at.logFile(name)); err != nil {
			return err
		}
	}
	return nil
}

// lock keeps a second `up` or `down` away from the directory until the file is closed. The kernel closes it when its
// holder ends, however it ends; `start` lends it to components that have not written their pid files yet.
func (at Layout) lock() (*os.File, error) {
	file, err := os.OpenFile(at.lockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("another up or down is at work in %s", at.Dir)
	}
	return file, nil
}
