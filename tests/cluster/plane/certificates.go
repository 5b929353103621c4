package plane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"
)

// Two administrators. Policies exempt system:masters, and RBAC does not even ask; so a test needs one who holds
// everything by an ordinary binding, too.
var (
	mastersAdmin = identity{user: "admin", groups: []string{"system:masters"}}
	plainAdmin   = identity{user: "plain-admin", contextSuffix: "-plain"}
	controllers  = identity{user: "system:kube-controller-manager"}
)

// identity is who a client certificate says its holder is.
type identity struct {
	user          string
	groups        []string
	contextSuffix string // what tells its context from the cluster's first one
}

// authority signs certificates. Its key is never written: nothing else can sign for this cluster.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	pem         []byte
}

// pair is a certificate and its key, both as PEM.
type pair struct{ certificate, key []byte }

// lifetime is far longer than any test, and short enough that a forgotten key is worth nothing.
const lifetime = 7 * 24 * time.Hour

func newAuthority(name string) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := certificateFor(pkix.Name{CommonName: name})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{key, certificate, encode("CERTIFICATE", der)}, nil
}

// server signs for whatever serves on loopback. etcd is a client of itself, hence both usages.
func (a *authority) server(name string) (pair, error) {
	template := certificateFor(pkix.Name{CommonName: name})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	template.IPAddresses = []net.IP{net.ParseIP(loopback), net.ParseIP(serviceIP)}
	return a.sign(template)
}

func (a *authority) client(who identity) (pair, error) {
	template := certificateFor(pkix.Name{CommonName: who.user, Organization: who.groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

func (a *authority) sign(template *x509.Certificate) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return pair{}, err
	}
	encoded, err := encodeKey(key)
	return pair{encode("CERTIFICATE", der), encoded}, err
}

func certificateFor(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour), // clocks differ
		NotAfter:     time.Now().Add(lifetime),
	}
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return encode("EC PRIVATE KEY", der), err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// writeCertificates makes every key and certificate of a new cluster, and the kubeconfigs that carry the clients'.
func writeCertificates(at Layout, name string, p ports) error {
	ca, err := newAuthority("operator-bounds-tests")
	if err != nil {
		return err
	}
	etcdCA, err := newAuthority("operator-bounds-tests-etcd")
	if err != nil {
		return err
	}
	server, err := ca.server(APIServer)
	if err != nil {
		return err
	}
	etcd, err := etcdCA.server(Etcd)
	if err != nil {
		return err
	}
	accounts, err := newKey()
	if err != nil {
		return err
	}
	accountsKey, err := encodeKey(accounts)
	if err != nil {
		return err
	}
	for file, content := range map[string][]byte{
		"ca.crt":      ca.pem,
		"etcd-ca.crt": etcdCA.pem,
		"server.crt":  server.certificate, "server.key": server.key,
		"etcd.crt": etcd.certificate, "etcd.key": etcd.key,
		"service-accounts.key": accountsKey,
	} {
		if err := os.WriteFile(at.pki(file), content, 0o600); err != nil {
			return err
		}
	}
	if err := writeKubeconfig(at.controllerKubeconfig(), name, p.api, ca, controllers); err != nil {
		return err
	}
	return writeKubeconfig(at.Kubeconfig(), name, p.api, ca, mastersAdmin, plainAdmin)
}
