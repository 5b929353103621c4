//go:build parts

// Package parts is what find.sh builds. It is never compiled itself: `go mod tidy` keeps what it names in go.mod.
package parts

import (
	_ "github.com/operator-framework/operator-lifecycle-manager/cmd/catalog"
	_ "github.com/operator-framework/operator-lifecycle-manager/cmd/olm"
	_ "github.com/operator-framework/operator-registry/cmd/opm"
)
