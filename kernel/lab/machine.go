package lab

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
)

// About says where and when something was computed.
type About struct {
	Date    string // UTC
	System  string // "linux/amd64"
	CPU     string
	CPUs    int
	Devices []device.Info // best first
}

// Machine describes this machine, now. It opens each GPU for a moment.
func Machine() *About {
	return &About{Date: time.Now().UTC().Format("2006-01-02 15:04 UTC"), System: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: cpuName(), CPUs: runtime.NumCPU(), Devices: device.Available()}
}

func (m *About) String() string {
	if m == nil {
		return "<nil>" // beside an error
	}
	s := fmt.Sprintf("machine: %s, %d × %s, %s", m.System, m.CPUs, m.CPU, m.Date)
	for _, d := range m.Devices {
		s += fmt.Sprintf("\ndevice: %s, %s", d.Name, d.Title)
		if d.Driver != "" {
			s += ", driver " + d.Driver
		}
	}
	return s
}

func cpuName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "CPU"
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if key, value, ok := strings.Cut(sc.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "CPU"
}
