package plane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The test binary stands in for control-plane: components are started through its hidden command.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == recordAndExec {
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func newLayout(t *testing.T) (Layout, *os.File) {
	t.Helper()
	at := Layout{Dir: t.TempDir()}
	if err := at.create(); err != nil {
		t.Fatal(err)
	}
	lock, err := at.lock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	return at, lock
}

// fakeAssets is a KUBEBUILDER_ASSETS whose etcd is a shell script.
func fakeAssets(t *testing.T, etcd string) {
	t.Helper()
	assets := t.TempDir()
	if err := os.WriteFile(filepath.Join(assets, Etcd), []byte("#!/bin/sh\n"+etcd), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBEBUILDER_ASSETS", assets)
}

// someDefinitions is a directory of definitions that no API server will be asked to take.
func someDefinitions(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{"v0", "v1-required"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder, "some.yaml"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func eventuallyTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so after 20 s: %s", what)
		}
	}
}

func TestAComponentOutlivesItsStarterAndIsStoppedWithItsChildren(t *testing.T) {
	at, lock := newLayout(t)
	child := filepath.Join(at.Dir, "child")
	// The directory is in the command line, as it is with every real component.
	p, err := start(at, lock, Etcd, []string{"/bin/sh", "-c", "sleep 600 & echo $! > " + child + "; wait", at.Dir + "/"})
	if err != nil {
		t.Fatal(err)
	}
	eventuallyTrue(t, "the child runs", func() bool { content, _ := os.ReadFile(child); return len(content) > 0 })

	lock.Close()
	again, err := at.lock()
	if err != nil {
		t.Errorf("a running component keeps the lock: %v", err)
	} else {
		again.Close()
	}
	if err := Down(at, io.Discard); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	content, _ := os.ReadFile(child)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	eventuallyTrue(t, "the child is gone", func() bool { return commandLine(pid) == "" })
}

func TestAForeignProcessIsNotStoppedThoughAPIDFileHasItsNumber(t *testing.T) {
	at, lock := newLayout(t)
	lock.Close()
	foreign := exec.Command("sleep", "600")
	if err := foreign.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { foreign.Process.Kill(); foreign.Wait() }()
	if err := os.WriteFile(at.pidFile(APIServer), []byte(strconv.Itoa(foreign.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Down(at, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "kube-apiserver was not running") || commandLine(foreign.Process.Pid) == "" {
		t.Errorf("the foreign process was taken for the API server: %s", out.String())
	}
}

func TestAnythingElseInTheDirectoryStays(t *testing.T) {
	at, lock := newLayout(t)
	lock.Close()
	precious := filepath.Join(at.Dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Down(at, io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestAComponentThatEndsIsSaidWithTheEndOfItsLog(t *testing.T) {
	fakeAssets(t, "echo the disk is on fire; exit 3")
	err := Up(t.Context(), Layout{Dir: t.TempDir()}, Options{OLMv1: "required", CRDs: someDefinitions(t), Log: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "etcd ended (exit status 3)") || !strings.Contains(err.Error(), "the disk is on fire") {
		t.Error(err)
	}
}

func TestAPortThatIsTakenMeanwhileIsTriedAgain(t *testing.T) {
	fakeAssets(t, "echo listen tcp: bind: address already in use; exit 1")
	var log strings.Builder
	err := Up(t.Context(), Layout{Dir: t.TempDir()}, Options{OLMv1: "required", CRDs: someDefinitions(t), Log: &log})
	if !errors.Is(err, errPortTaken) {
		t.Error(err)
	}
	if attempts := strings.Count(log.String(), "  etcd\n"); attempts != 3 {
		t.Errorf("%d attempts, not 3:\n%s", attempts, log.String())
	}
}

func TestAnInterruptedStartLeavesNothingRunning(t *testing.T) {
	fakeAssets(t, "exec sleep 600")
	at := Layout{Dir: t.TempDir()}
	ctx, interrupt := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { result <- Up(ctx, at, Options{OLMv1: "required", CRDs: someDefinitions(t), Log: io.Discard}) }()
	eventuallyTrue(t, "etcd was started", func() bool { _, err := os.Stat(at.pidFile(Etcd)); return err == nil })
	content, _ := os.ReadFile(at.pidFile(Etcd))
	interrupt()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	if command := commandLine(pid); pid == 0 || command != "" {
		t.Errorf("process %d is left running: %q", pid, command)
	}
}

func TestAPortInUseIsSaid(t *testing.T) {
	listener, err := net.Listen("tcp", address(0))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = choosePorts(listener.Addr().(*net.TCPAddr).Port)
	if err == nil || !strings.Contains(err.Error(), "leave --port out") {
		t.Error(err)
	}
}

func TestASchemaThatIsNotThereIsSaidWithThoseThatAre(t *testing.T) {
	_, err := definitions(someDefinitions(t), "future")
	if err == nil || !strings.Contains(err.Error(), `no definitions for "v1-future"; it has: v0 v1-required`) {
		t.Error(err)
	}
}

// The certificates and the kubeconfig belong together: a server that asks for client certificates sees who it is.
func TestTheKubeconfigConnectsAsTheAdministrator(t *testing.T) {
	at, _ := newLayout(t)
	var seen identity
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		subject := r.TLS.PeerCertificates[0].Subject
		seen = identity{user: subject.CommonName, groups: subject.Organization}
	}))
	if err := writeCertificates(at, "some", ports{api: server.Listener.Addr().(*net.TCPAddr).Port}); err != nil {
		t.Fatal(err)
	}
	server.TLS = serverSide(t, at, "server", "ca.crt")
	server.StartTLS()
	defer server.Close()
	api, err := connect(at.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := api.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seen.user != "admin" || len(seen.groups) != 1 || seen.groups[0] != "system:masters" {
		t.Errorf("%v", seen)
	}
}

func TestEtcdTakesNoClientOfTheAPIServer(t *testing.T) {
	at, _ := newLayout(t)
	var reached atomic.Bool
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	if err := writeCertificates(at, "some", ports{}); err != nil {
		t.Fatal(err)
	}
	server.TLS = serverSide(t, at, "etcd", "etcd-ca.crt")
	server.StartTLS()
	defer server.Close()
	api, err := connect(at.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	// The client is made to trust the server, so that only the server's verdict on the client is left.
	api.http.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
	api.server = server.URL
	if err := api.ready(t.Context()); err == nil || reached.Load() {
		t.Errorf("etcd lets an administrator of the API server in: %v", err)
	}
}

// serverSide is the TLS set-up of a server that asks for client certificates of one authority.
func serverSide(t *testing.T, at Layout, name, clients string) *tls.Config {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(at.pki(name+".crt"), at.pki(name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	authorities, err := os.ReadFile(at.pki(clients))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authorities)
	return &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
}

func TestTheAPIServerTakesMoreFlagsAndAnotherWayToAuthorize(t *testing.T) {
	at := Layout{Dir: "/cluster"}
	usual := apiServerArguments(at, ports{}, Options{})
	if !slices.Contains(usual, "--authorization-mode=RBAC") {
		t.Errorf("RBAC is not the default: %q", usual)
	}
	other := apiServerArguments(at, ports{}, Options{Authorization: "/a.yaml", APIServerArguments: []string{"--v=2"}})
	if !slices.Contains(other, "--authorization-config=/a.yaml") || !slices.Contains(other, "--v=2") {
		t.Errorf("not handed on: %q", other)
	}
	if slices.Contains(other, "--authorization-mode=RBAC") {
		t.Errorf("the API server takes only one of the two: %q", other)
	}
}
