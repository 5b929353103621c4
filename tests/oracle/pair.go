package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	k8sjson "sigs.k8s.io/json"
)

// pair is one question: do the owner's rules cover the requested ones?
type pair struct {
	Owner     []rbacv1.PolicyRule `json:"owner"`
	Requested []rbacv1.PolicyRule `json:"requested"`
}

// answer is the reply to a pair. Covers is a pointer so that a reply without a verdict is not taken for "no".
type answer struct {
	Covers    *bool               `json:"covers"`
	Uncovered []rbacv1.PolicyRule `json:"uncovered"`
}

// storedPair is a line of the corpus: the question together with the answer it once got.
type storedPair struct {
	pair
	answer
}

// decode reads JSON as the API server does: keys are case-sensitive and unknown ones are ignored.
// encoding/json would read `apigroups` as `apiGroups`, and so ask a different question.
func decode(line []byte, into any) error {
	return k8sjson.UnmarshalCaseSensitivePreserveInts(line, into)
}

func ask(p pair) answer {
	covers, uncovered := validation.Covers(p.Owner, p.Requested)
	return answer{&covers, uncovered}
}

// line writes the answer as the corpus has it: one line, `<`, `>` and `&` as they are.
func (a answer) line() ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(a)
	return out.Bytes(), err
}

// equal compares verdicts and atoms, in order and field by field; an absent list equals an empty one.
func (a answer) equal(b answer) bool {
	return a.Covers != nil && b.Covers != nil && *a.Covers == *b.Covers &&
		slices.EqualFunc(a.Uncovered, b.Uncovered, sameRule)
}

func sameRule(a, b rbacv1.PolicyRule) bool {
	return slices.Equal(a.Verbs, b.Verbs) &&
		slices.Equal(a.APIGroups, b.APIGroups) &&
		slices.Equal(a.Resources, b.Resources) &&
		slices.Equal(a.ResourceNames, b.ResourceNames) &&
		slices.Equal(a.NonResourceURLs, b.NonResourceURLs)
}

// splitLines returns the lines of a JSONL text; the last one may lack its line feed.
func splitLines(text []byte) [][]byte {
	if len(text) == 0 {
		return nil
	}
	return bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
}

// readGzipLines returns the lines of a gzipped JSONL file.
func readGzipLines(path string) ([][]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	text, err := io.ReadAll(unzipped)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return splitLines(text), nil
}
