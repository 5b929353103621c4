package plane

import (
	"fmt"
	"net"
	"strconv"
)

const (
	loopback     = "127.0.0.1"
	serviceRange = "10.0.0.0/24"
	serviceIP    = "10.0.0.1" // the first address of the range is the service `kubernetes`
)

// choosePorts finds free ports. They are held until all are found, so that they differ. Another process can take one
// before the component does; `Up` then tries again with others.
func choosePorts(api int) (ports, error) {
	var p ports
	for port, wanted := range map[*int]int{&p.api: api, &p.etcdClient: 0, &p.etcdPeer: 0} {
		listener, err := net.Listen("tcp", address(wanted))
		if err != nil {
			if wanted != 0 {
				return p, fmt.Errorf("port %d of %s cannot be used (%w): stop what uses it, or leave --port out", wanted, loopback, err)
			}
			return p, fmt.Errorf("no free port on %s: %w", loopback, err)
		}
		defer listener.Close()
		*port = listener.Addr().(*net.TCPAddr).Port
	}
	return p, nil
}

func address(port int) string     { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
func loopbackURL(port int) string { return "https://" + address(port) }
