package plane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"sigs.k8s.io/yaml"
)

// client asks the API server. A handful of requests is not worth client-go.
type client struct {
	server string
	http   *http.Client
}

func (c *client) do(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", contentType)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, bytes.TrimSpace(answer))
	}
	return answer, nil
}

// ready is nil when the API server says that it is.
func (c *client) ready(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "/readyz", "", nil)
	return err
}

// get fills `into` with the object at `path`.
func (c *client) get(ctx context.Context, path string, into any) error {
	answer, err := c.do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// apply writes a YAML manifest into a collection, server-side: a client-side apply would put the whole object into an
// annotation, and OLM's CustomResourceDefinitions are too big for one. It returns the path of the object.
func (c *client) apply(ctx context.Context, collection string, manifest []byte) (string, error) {
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(manifest, &object); err != nil {
		return "", err
	}
	path := collection + "/" + object.Metadata.Name
	_, err := c.do(ctx, http.MethodPatch, path+"?fieldManager=operator-bounds-tests&force=true", "application/apply-patch+yaml", manifest)
	return path, err
}

// eventually asks again until the answer is nil, and ends with the last answer when the context does.
func eventually(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; the last answer: %w", context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
