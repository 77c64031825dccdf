// Package arch holds facts about GPUs as data: generations, their limits, and
// the catalogue of matrix instructions with their fragment layouts. It contains
// no behaviour beyond looking a row up.
//
// [Atoms] is the catalogue: every matrix instruction of NVIDIA and AMD that we know
// and the copies that feed them. An [Atom] has [Operand]s, and an operand a layout
// that says which lane holds which element in which slot. The files nvidia_*.go and
// amd_*.go write families as formulas; a row whose layouts do not cover its shapes
// does not load, and [Atom.Oracles] names what else a row was checked against.
// [Forms] lists the warp-wide products that thread code has rows for. CATALOGUE.md is
// the status page of all of it.
//
// [All] is what programs can be compiled for; the catalogue also knows older and
// newer machines, see [NVIDIAGenerations].
package arch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// LanesPerWarp is the number of lanes of an NVIDIA warp.
const LanesPerWarp = 32

// Arch is one compilation target.
type Arch struct {
	Name       string // PTX .target, such as sm_90a
	Major      int    // compute capability
	Minor      int
	PTX        string // lowest PTX ISA version whose assemblers know the target
	MaxShared  int    // shared memory a block can opt in to, bytes
	MaxThreads int    // threads of a block
	MaxRegs    int    // 32-bit registers of a thread
	RegFile    int    // 32-bit registers of a multiprocessor
	Source     string
}

const guide = "CUDA C++ Programming Guide 13.0, Compute Capabilities; PTX ISA 9.0, .target"

// archs is ordered by capability. A target with the suffix a runs only on that
// capability; the others on every later one, and their limits are those of the
// smallest GPU that has no better target: of sm_90 that is one of capability 12.
var archs = []Arch{
	{"sm_80", 8, 0, "7.0", 163 << 10, 1024, 255, 65536, guide},
	{"sm_86", 8, 6, "7.1", 99 << 10, 1024, 255, 65536, guide},
	{"sm_89", 8, 9, "7.8", 99 << 10, 1024, 255, 65536, guide},
	{"sm_90", 9, 0, "7.8", 99 << 10, 1024, 255, 65536, guide},
	{"sm_90a", 9, 0, "8.0", 227 << 10, 1024, 255, 65536, guide},
	{"sm_100a", 10, 0, "8.6", 227 << 10, 1024, 255, 65536, guide},
}

// Capability is 10·major + minor, as in the name.
func (a Arch) Capability() int { return 10*a.Major + a.Minor }

// All lists the targets, oldest first.
func All() []Arch { return slices.Clone(archs) }

// Names lists the targets' names, oldest first.
func Names() []string {
	names := make([]string, len(archs))
	for i, a := range archs {
		names[i] = a.Name
	}
	return names
}

// Lookup finds a target by name. The name of a newer NVIDIA GPU gives the target
// whose PTX that GPU runs best, as [For]; older GPUs have none. The error lists the
// known ones.
func Lookup(name string) (Arch, error) {
	for _, a := range archs {
		if a.Name == name {
			return a, nil
		}
	}
	help := ""
	if slices.Contains(nvidiaGenerations, name) {
		number := strings.TrimRight(strings.TrimPrefix(name, "sm_"), "af")
		if n, err := strconv.Atoi(number); err == nil {
			if n >= archs[0].Capability() {
				return forward(n), nil
			}
			help = fmt.Sprintf("; %s is older than %s, the oldest target: programs need its asynchronous copies and matrix instructions", name, archs[0].Name)
		}
	} else if help = diag.DidYouMean(name, Names()); help != "" {
		help = "; " + help
	}
	return Arch{}, fmt.Errorf("arch: no target %q; known are %s%s", name, strings.Join(Names(), ", "), help)
}

// forward is the newest target that runs on every GPU from a capability on.
func forward(capability int) Arch {
	best := Arch{}
	for _, a := range archs {
		if a.Capability() <= capability && !strings.HasSuffix(a.Name, "a") {
			best = a
		}
	}
	return best
}

// For gives the best target for a device of the capability, or an error when the
// device is older than the oldest target.
func For(major, minor int) (Arch, error) {
	best := forward(10*major + minor)
	for _, a := range archs {
		if a.Major == major && a.Minor == minor {
			best = a
		}
	}
	if best.Name == "" {
		return best, fmt.Errorf("arch: compute capability %d.%d is older than %s, the oldest target; use --device sim", major, minor, archs[0].Name)
	}
	return best, nil
}
