// Command webhooks turns ClusterAdmissionPolicies into the ValidatingWebhookConfigurations that Kubewarden would register
// for them: the same rules and match conditions, which the API server compiles when it is given them. The URL is dead and
// failures are ignored, so nothing that is written to the cluster depends on them.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// policy is as much of a ClusterAdmissionPolicy as its registration needs. Rules and conditions go through unread.
type policy struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Rules           json.RawMessage
		MatchConditions json.RawMessage
		MatchPolicy     string
	}
}

func main() {
	for _, file := range os.Args[1:] {
		if err := convert(file, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "webhooks: %s: %v\n", file, err)
			os.Exit(2)
		}
	}
}

func convert(file string, out io.Writer) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var p policy
		if err := yaml.Unmarshal(document, &p); err != nil {
			return err
		}
		if p.Kind != "ClusterAdmissionPolicy" {
			continue
		}
		if err := json.NewEncoder(out).Encode(registration(p)); err != nil {
			return err
		}
	}
}

func registration(p policy) map[string]any {
	webhook := map[string]any{
		"name":                    p.Metadata.Name + ".kubewarden.admission",
		"clientConfig":            map[string]any{"url": "https://127.0.0.1:1/validate/" + p.Metadata.Name},
		"rules":                   p.Spec.Rules,
		"matchPolicy":             p.Spec.MatchPolicy,
		"failurePolicy":           "Ignore",
		"sideEffects":             "None",
		"timeoutSeconds":          1,
		"admissionReviewVersions": []string{"v1"},
	}
	if p.Spec.MatchConditions != nil {
		webhook["matchConditions"] = p.Spec.MatchConditions
	}
	return map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1",
		"kind":       "ValidatingWebhookConfiguration",
		"metadata":   map[string]any{"name": p.Metadata.Name},
		"webhooks":   []any{webhook},
	}
}
