package plane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

// kubeconfig is as much of the format as is written and read here. Byte slices are base64, as the format wants it.
type kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	CurrentContext string         `json:"current-context"`
	Clusters       []namedCluster `json:"clusters"`
	Contexts       []namedContext `json:"contexts"`
	Users          []namedUser    `json:"users"`
}

type namedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server    string `json:"server"`
		Authority []byte `json:"certificate-authority-data"`
	} `json:"cluster"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

type namedUser struct {
	Name string `json:"name"`
	User struct {
		Certificate []byte `json:"client-certificate-data"`
		Key         []byte `json:"client-key-data"`
	} `json:"user"`
}

// writeKubeconfig writes one context for each identity; the first is the current one.
func writeKubeconfig(path, cluster string, port int, ca *authority, identities ...identity) error {
	config := kubeconfig{APIVersion: "v1", Kind: "Config", CurrentContext: cluster + identities[0].contextSuffix}
	config.Clusters = make([]namedCluster, 1)
	config.Clusters[0].Name = cluster
	config.Clusters[0].Cluster.Server = loopbackURL(port)
	config.Clusters[0].Cluster.Authority = ca.pem
	for _, who := range identities {
		signed, err := ca.client(who)
		if err != nil {
			return err
		}
		context := namedContext{Name: cluster + who.contextSuffix}
		context.Context.Cluster, context.Context.User = cluster, context.Name
		user := namedUser{Name: context.Name}
		user.User.Certificate, user.User.Key = signed.certificate, signed.key
		config.Contexts, config.Users = append(config.Contexts, context), append(config.Users, user)
	}
	content, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// connect reads a kubeconfig that writeKubeconfig wrote and returns a client for its first identity.
func connect(path string) (*client, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config kubeconfig
	if err := yaml.UnmarshalStrict(content, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(config.Clusters) == 0 || len(config.Users) == 0 {
		return nil, fmt.Errorf("%s has no cluster or no user", path)
	}
	certificate, err := tls.X509KeyPair(config.Users[0].User.Certificate, config.Users[0].User.Key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(config.Clusters[0].Cluster.Authority) {
		return nil, errors.New(path + " has no certificate authority")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}}
	return &client{
		server: config.Clusters[0].Cluster.Server,
		http:   &http.Client{Transport: transport, Timeout: 30 * time.Second},
	}, nil
}
