// Command expressions turns policies into objects that make the API server look at every CEL expression in them, one JSON
// object a line.
//
// A ClusterAdmissionPolicy becomes the ValidatingWebhookConfiguration that Kubewarden would register for it: the same
// rules and match conditions, which the API server compiles when it is given them. The URL is dead and failures are
// ignored, so nothing that is written to the cluster depends on it.
//
// A ValidatingAdmissionPolicy becomes a copy in which every match condition and every variable is a validation too: the
// API server checks the types of validations only. Without a binding it judges nothing.
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

func main() {
	for _, file := range os.Args[1:] {
		if err := convert(file, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "expressions: %s: %v\n", file, err)
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
		object, err := lookedAt(document)
		if err != nil {
			return err
		}
		if object == nil {
			continue
		}
		if err := json.NewEncoder(out).Encode(object); err != nil {
			return err
		}
	}
}

// lookedAt is the object for a document, or nil when there are no expressions in documents of its kind.
func lookedAt(document []byte) (map[string]any, error) {
	var meta struct{ Kind string }
	if err := yaml.Unmarshal(document, &meta); err != nil {
		return nil, err
	}
	switch meta.Kind {
	case "ClusterAdmissionPolicy":
		var p policy
		err := yaml.Unmarshal(document, &p)
		return registration(p), err
	case "ValidatingAdmissionPolicy":
		var p admissionPolicy
		err := yaml.Unmarshal(document, &p)
		return typeChecked(p), err
	}
	return nil, nil
}

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

// admissionPolicy is as much of a ValidatingAdmissionPolicy as has to do with its expressions.
type admissionPolicy struct {
	Metadata struct{ Name string }
	Spec     struct {
		ParamKind        json.RawMessage
		MatchConstraints json.RawMessage
		MatchConditions  []named
		Variables        []named
		Validations      []map[string]any
	}
}

type named struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

func typeChecked(p admissionPolicy) map[string]any {
	validations := p.Spec.Validations
	for _, expression := range append(p.Spec.MatchConditions, p.Spec.Variables...) {
		// A validation must be a bool; in a list, an expression of any type is part of one.
		validations = append(validations, map[string]any{"expression": "[\n" + expression.Expression + "\n].size() == 1"})
	}
	return map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1",
		"kind":       "ValidatingAdmissionPolicy",
		"metadata":   map[string]any{"name": p.Metadata.Name + "-types"},
		"spec": map[string]any{
			"paramKind":        p.Spec.ParamKind,
			"matchConstraints": p.Spec.MatchConstraints,
			"variables":        p.Spec.Variables,
			"validations":      validations,
		},
	}
}
