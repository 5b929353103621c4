package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// field is one of the five lists of a rule.
type field int

const (
	verbs field = iota
	apiGroups
	resources
	resourceNames
	nonResourceURLs
	fieldCount
)

var fieldKeys = [fieldCount]string{"verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"}

// form is how a list is written in JSON. A decoded PolicyRule cannot tell these apart, and a parser
// may stumble over any of them, so drawn rules keep them.
type form int

const (
	missing form = iota
	null
	present
	wrongCase // the key in lower case: an unknown key, so the list is missing
)

// list is a list of strings together with the form it is written in.
type list struct {
	form  form
	items []string
}

// drawnRule is a rule as it will be written, field by field.
type drawnRule [fieldCount]list

// side is the owner or the requested half of a pair; `isNull` writes null instead of the rules.
type side struct {
	rules  []drawnRule
	isNull bool
}

// drawnPair is a pair as it will be written.
type drawnPair struct {
	owner, requested side
}

// values returns the items that a reader of the JSON sees.
func (r drawnRule) values(f field) []string {
	if r[f].form == present {
		return r[f].items
	}
	return nil
}

// set gives a field its items, which the rule then owns.
func (r *drawnRule) set(f field, items []string) {
	r[f] = list{present, items}
}

// add appends an item, and so makes a list that was not there appear.
func (r *drawnRule) add(f field, item string) {
	r.set(f, append(slices.Clone(r.values(f)), item))
}

func (s side) clone() side {
	copied := side{rules: slices.Clone(s.rules), isNull: s.isNull}
	for i := range copied.rules {
		for f := range fieldCount {
			copied.rules[i][f].items = slices.Clone(copied.rules[i][f].items)
		}
	}
	return copied
}

func (p drawnPair) line() []byte {
	return []byte(`{"owner":` + p.owner.json() + `,"requested":` + p.requested.json() + `}`)
}

func (s side) json() string {
	if s.isNull {
		return "null"
	}
	texts := make([]string, len(s.rules))
	for i, r := range s.rules {
		texts[i] = r.json()
	}
	return "[" + strings.Join(texts, ",") + "]"
}

func (r drawnRule) json() string {
	var members []string
	for f, l := range r {
		key := fieldKeys[f]
		switch l.form {
		case null:
			members = append(members, `"`+key+`":null`)
		case present:
			members = append(members, `"`+key+`":`+jsonStrings(l.items))
		case wrongCase:
			members = append(members, `"`+strings.ToLower(key)+`":`+jsonStrings(l.items))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func jsonStrings(items []string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		// Encoding a string into a buffer has no way to fail.
		_ = encoder.Encode(item)
		texts[i] = strings.TrimSuffix(out.String(), "\n")
	}
	return "[" + strings.Join(texts, ",") + "]"
}
