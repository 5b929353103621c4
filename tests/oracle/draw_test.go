package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

func mustDraw(t *testing.T, seed uint64, count int) []drawnPair {
	t.Helper()
	pairs, err := drawPairs(seed, count)
	if err != nil {
		t.Fatal(err)
	}
	return pairs
}

func TestTheSameSeedDrawsTheSamePairs(t *testing.T) {
	text := func(seed uint64) string {
		var out bytes.Buffer
		for _, p := range mustDraw(t, seed, 500) {
			out.Write(append(p.line(), '\n'))
		}
		return out.String()
	}
	if text(7) != text(7) {
		t.Error("seed 7 drew two different sets of pairs")
	}
	if text(7) == text(8) {
		t.Error("seeds 7 and 8 drew the same pairs")
	}
}

func TestEveryShapeIsDrawnOftenOnBothSides(t *testing.T) {
	c, err := countShapes(mustDraw(t, 1, 2000))
	if err != nil {
		t.Fatal(err)
	}
	for i, shape := range shapes {
		if c.percent(c.owner[i]) < 2 || c.percent(c.requested[i]) < 2 {
			t.Errorf("%s: in %d owners and %d requests of %d pairs; want at least 2 %% each", shape.name, c.owner[i], c.requested[i], c.pairs)
		}
	}
}

func TestAFairShareOfPairsIsCovered(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		c, err := countShapes(mustDraw(t, seed, 2000))
		if err != nil {
			t.Fatal(err)
		}
		if share := c.percent(c.covered); share < 35 || share > 65 {
			t.Errorf("seed %d: %.1f %% of the pairs are covered; want 35 to 65", seed, share)
		}
		if share := c.percent(c.askNothing); share > 15 {
			t.Errorf("seed %d: %.1f %% of the pairs ask for nothing; want at most 15", seed, share)
		}
	}
}

// TestDrawnPairsCatchLikelyMistakes asks the drawn pairs to tell Covers from re-implementations that each
// make one mistake somebody could make in good faith.
func TestDrawnPairsCatchLikelyMistakes(t *testing.T) {
	var pairs []pair
	for _, drawn := range mustDraw(t, 1, 2000) {
		var p pair
		if err := decode(drawn.line(), &p); err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, p)
	}
	wrongAnswers := func(m mistake) (wrong int) {
		for _, p := range pairs {
			if !m.ask(p).equal(ask(p)) {
				wrong++
			}
		}
		return wrong
	}
	if wrong := wrongAnswers(""); wrong > 0 {
		t.Fatalf("the re-implementation without a mistake answers %d pairs wrong", wrong)
	}
	for _, m := range mistakes {
		wrong := wrongAnswers(m)
		t.Logf("%d pairs show: %s", wrong, m)
		if wrong == 0 {
			t.Errorf("no drawn pair shows the mistake %q", m)
		}
	}
}

// mistake names what a re-implementation of Covers gets wrong; "" is none.
type mistake string

const (
	oneStarTrimmed     mistake = "only one * is trimmed from the end of a granted URL"
	namesIgnoredForURL mistake = "a granted rule's resourceNames do not matter to its URLs"
	wildcardName       mistake = "a granted resourceName * stands for all names"
	emptyNameIsNone    mistake = `a requested resourceName "" is taken for no name`
	subresourceStar    mistake = "pods/* covers pods/log"
	starSlashStar      mistake = "*/* covers every subresource"
	lastSlash          mistake = "a/b/c is cut at its last slash"
	starSkipsSubs      mistake = "* does not cover subresources"
	plainCoversSubs    mistake = "pods covers pods/log"
	groupForgotten     mistake = "the group is not compared"
	prefixWithoutStar  mistake = "a granted URL covers all below it"
	starAnywhere       mistake = "a granted URL's first * is a wildcard wherever it stands"
	caseIgnored        mistake = "verbs are compared without regard to case"
	duplicatesDropped  mistake = "an uncovered atom is reported once only"
	sortedAtoms        mistake = "verbs are broken down in sorted order"
	urlsFirst          mistake = "a mixed rule's URLs come before its resources"
	urlBeforeVerb      mistake = "URLs are broken down verb by verb"
)

var mistakes = []mistake{
	oneStarTrimmed, namesIgnoredForURL, wildcardName, emptyNameIsNone, subresourceStar, starSlashStar, lastSlash, starSkipsSubs, plainCoversSubs,
	groupForgotten, prefixWithoutStar, starAnywhere, caseIgnored, duplicatesDropped, sortedAtoms, urlsFirst, urlBeforeVerb,
}

func (m mistake) ask(p pair) answer {
	uncovered := []rbacv1.PolicyRule{}
	for _, requested := range p.Requested {
		for _, atom := range m.breakDown(requested) {
			covered := slices.ContainsFunc(p.Owner, func(granted rbacv1.PolicyRule) bool { return m.covers(granted, atom) })
			again := slices.ContainsFunc(uncovered, func(other rbacv1.PolicyRule) bool { return sameRule(other, atom) })
			if !covered && !(again && m == duplicatesDropped) {
				uncovered = append(uncovered, atom)
			}
		}
	}
	covers := len(uncovered) == 0
	return answer{&covers, uncovered}
}

func (m mistake) breakDown(rule rbacv1.PolicyRule) []rbacv1.PolicyRule {
	ruleVerbs := rule.Verbs
	if m == sortedAtoms {
		ruleVerbs = slices.Sorted(slices.Values(ruleVerbs))
	}
	names := [][]string{nil}
	if len(rule.ResourceNames) > 0 {
		names = nil
	}
	for _, name := range rule.ResourceNames {
		if name == "" && m == emptyNameIsNone {
			names = append(names, nil)
			continue
		}
		names = append(names, []string{name})
	}
	var forResources, forURLs []rbacv1.PolicyRule
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range ruleVerbs {
				for _, name := range names {
					forResources = append(forResources, rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: name})
				}
			}
		}
	}
	outer, inner := rule.NonResourceURLs, ruleVerbs
	if m == urlBeforeVerb {
		outer, inner = inner, outer
	}
	for _, first := range outer {
		for _, second := range inner {
			url, verb := first, second
			if m == urlBeforeVerb {
				url, verb = second, first
			}
			forURLs = append(forURLs, rbacv1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{url}})
		}
	}
	if m == urlsFirst {
		return append(forURLs, forResources...)
	}
	return append(forResources, forURLs...)
}

func (m mistake) covers(granted, atom rbacv1.PolicyRule) bool {
	verb := func(v string) bool {
		return v == "*" || v == atom.Verbs[0] || m == caseIgnored && strings.EqualFold(v, atom.Verbs[0])
	}
	if !slices.ContainsFunc(granted.Verbs, verb) {
		return false
	}
	if len(atom.NonResourceURLs) > 0 {
		unnamed := len(granted.ResourceNames) == 0 || m == namesIgnoredForURL
		return unnamed && slices.ContainsFunc(granted.NonResourceURLs, func(url string) bool { return m.urlCovers(url, atom.NonResourceURLs[0]) })
	}
	group := func(g string) bool { return g == "*" || g == atom.APIGroups[0] || m == groupForgotten }
	resource := func(r string) bool { return m.resourceCovers(r, atom.Resources[0]) }
	return slices.ContainsFunc(granted.APIGroups, group) && slices.ContainsFunc(granted.Resources, resource) && m.nameCovers(granted.ResourceNames, atom.ResourceNames)
}

func (m mistake) nameCovers(granted, name []string) bool {
	switch {
	case len(granted) == 0:
		return true
	case len(name) == 0:
		return false
	default:
		return slices.Contains(granted, name[0]) || m == wildcardName && slices.Contains(granted, "*")
	}
}

func (m mistake) resourceCovers(granted, resource string) bool {
	parent, sub, isSub := strings.Cut(resource, "/")
	if m == lastSlash && isSub {
		sub = resource[strings.LastIndex(resource, "/")+1:]
	}
	return granted == resource ||
		granted == "*" && !(isSub && m == starSkipsSubs) ||
		isSub && granted == "*/"+sub ||
		isSub && m == subresourceStar && granted == parent+"/*" ||
		isSub && m == starSlashStar && granted == "*/*" ||
		isSub && m == plainCoversSubs && granted == parent
}

func (m mistake) urlCovers(granted, url string) bool {
	prefix := strings.TrimRight(granted, "*")
	switch m {
	case oneStarTrimmed:
		prefix = strings.TrimSuffix(granted, "*")
	case prefixWithoutStar:
		return strings.HasPrefix(url, prefix)
	case starAnywhere:
		if first := strings.Index(granted, "*"); first >= 0 {
			return strings.HasPrefix(url, granted[:first])
		}
	}
	return granted == url || strings.HasSuffix(granted, "*") && strings.HasPrefix(url, prefix)
}
