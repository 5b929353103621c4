package plane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// definitions are the files of OLM's CustomResourceDefinitions: always those of v0, and one generation of v1.
func definitions(dir, generation string) ([]string, error) {
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(filepath.Dir(self), "crds")
	}
	folders := []string{"v0"}
	if generation != "none" {
		folders = append(folders, "v1-"+generation)
	}
	var files []string
	for _, folder := range folders {
		// Glob takes a folder that is not there for an empty one.
		found, err := filepath.Glob(filepath.Join(dir, folder, "*.yaml"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s has no definitions for %q; it has: %s. tests/cluster/build.sh makes it, --crds names another",
				dir, folder, strings.Join(folderNames(dir), " "))
		}
		files = append(files, found...)
	}
	return files, nil
}

func folderNames(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return []string{"nothing"}
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// applyDefinitions applies them and waits until all of them are served.
func applyDefinitions(ctx context.Context, c *client, files []string) error {
	var paths []string
	for _, file := range files {
		manifest, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		path, err := c.apply(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", manifest)
		if err != nil {
			return fmt.Errorf("applying %s: %w", file, err)
		}
		paths = append(paths, path)
	}
	for _, path := range paths {
		if err := eventually(ctx, func() error { return established(ctx, c, path) }); err != nil {
			return err
		}
	}
	return nil
}

func established(ctx context.Context, c *client, path string) error {
	var crd struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := c.get(ctx, path, &crd); err != nil {
		return err
	}
	for _, condition := range crd.Status.Conditions {
		if condition.Type == "Established" && condition.Status == "True" {
			return nil
		}
	}
	return fmt.Errorf("%s is not served: %v", path, crd.Status.Conditions)
}
