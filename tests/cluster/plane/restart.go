package plane

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// remember keeps a component's command line, so that it can be started once more as it was.
func remember(at Layout, name string, command []string) error {
	content, err := json.Marshal(command)
	if err != nil {
		return err
	}
	return os.WriteFile(at.commandFile(name), content, 0o600)
}

// Restart ends the API server without asking it, as a crash would, and starts it again: same port, same data, same flags. It
// returns when it is ready. Whoever watches has lost the connection meanwhile.
func Restart(ctx context.Context, at Layout, log io.Writer) error {
	lock, err := at.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	content, err := os.ReadFile(at.commandFile(APIServer))
	if err != nil {
		return fmt.Errorf("there is no cluster in %s: %w", at.Dir, err)
	}
	var command []string
	if err := json.Unmarshal(content, &command); err != nil {
		return err
	}
	api, err := connect(at.Kubeconfig())
	if err != nil {
		return err
	}
	if _, err := kill(at, APIServer); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not back after %s", patience))
	defer cancel()
	return startCommand(ctx, at, lock, log, APIServer, command, api.ready)
}
