package volta

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
)

// Machine is the numbers that a tensor core's speed follows from.
type Machine struct {
	SMs          int
	SubCores     int // of an SM
	CoresPerSM   int // tensor cores
	UnitsPerCore int // four-element dot-product units
	Multipliers  int // of a unit
	ClockGHz     float64
}

// V100Machine is a V100 at its boost clock.
var V100Machine = Machine{SMs: 80, SubCores: 4, CoresPerSM: 8, UnitsPerCore: 16, Multipliers: 4, ClockGHz: 1.53}

// PerCore is multiply-adds of a tensor core in a cycle.
func (m Machine) PerCore() int { return m.UnitsPerCore * m.Multipliers }

// PerSM is multiply-adds of an SM in a cycle.
func (m Machine) PerSM() int { return m.PerCore() * m.CoresPerSM }

// Floor is the fewest cycles that one wmma takes on the tensor cores of a sub-core.
func (m Machine) Floor() int { return Size * Size * Size * m.SubCores / m.PerSM() }

// Interval is the cycles between two instructions of the f32 kind at that speed.
func (m Machine) Interval() int { return m.Floor() / (Sets * F32.Steps()) }

// Teraflops counts a multiply-add as two operations.
func (m Machine) Teraflops() float64 {
	return float64(m.SMs*m.PerSM()) * 2 * m.ClockGHz / 1000
}

// Fact is a statement with where it comes from.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Tag   Tag    `json:"tag"`
}

// Facts are the statements that the model is built on, for legends.
func Facts() []Fact {
	m := V100Machine
	n := func(format string, v ...any) string { return fmt.Sprintf(format, v...) }
	return []Fact{
		{"which lane holds which element", "PTX and decoded machine code", Primary},
		{"instructions of a 16×16×16 product", "16 HMMA with f32 sums, 8 with f16 sums", Primary},
		{"what each step multiplies", "rows and columns by step", Secondary},
		{"B is shared by an octet, A is not", "one B buffer and a multiplexer per octet", Secondary},
		{"multiply-adds of a tensor core in a cycle", n("%d", m.PerCore()), Primary},
		{"its four-element dot-product units", n("%d, of %d stages", m.UnitsPerCore, UnitStages), Secondary},
		{"tensor cores", n("%d in an SM, %d on a V100", m.CoresPerSM, m.CoresPerSM*m.SMs), Primary},
		{"peak", n("%.1f TFLOPS at %v GHz", m.Teraflops(), m.ClockGHz), Derived},
		{"fewest cycles of a product on a sub-core", n("%d", m.Floor()), Derived},
		{"cycles of a product, one warp, f32 and f16 sums", n("%d and %d, measured on prefixes", Cycles(F32)[15], Cycles(F16)[7]), Secondary},
		{"when an instruction issues", "completion less latency", Assumed},
		{"stages around the units", n("issue %d, operands %d, write %d", issueCycles, readCycles, writeCycles), Assumed},
		{"the unit of a sum", "column of the step; row by cycle", Assumed},
		{"which octets share a tensor core", "0 and 1, 2 and 3", Assumed},
		{"how products are added", "aligned, cut to 24 bits, truncated", Secondary},
		{"register numbers", "of row-by-column listings; the others follow their rule", Primary},
	}
}

// Generation is how one generation does the same 16×16×16 product of f16.
type Generation struct {
	Name        string
	Arch        string
	Instruction string // in machine code or PTX
	Atom        string // row of the catalogue, whose fragments it uses
	Count       float64
	CoresPerSM  int
	PerCycle    string // product of a tensor core in a cycle, M×N×K
	PerSM       int    // multiply-adds of an SM in a cycle
	// BytesA and BytesB are what a warp loads into registers of the 512 bytes of each.
	BytesA, BytesB int
	Tag            Tag // of the tensor cores; fragments and counts are the vendor's
}

// Generations compares Volta with what came after it.
func Generations() ([]Generation, error) {
	list := []Generation{
		{Name: "Volta", Arch: "sm_70", Instruction: "HMMA.884", Atom: "wmma.m16n16k16.f32.f16.row.col.sm_70", Count: 16, CoresPerSM: 8, PerCycle: "4×4×4", Tag: Primary},
		{Name: "Turing", Arch: "sm_75", Instruction: "HMMA.1688", Atom: "mma.m16n8k8.f32.f16", CoresPerSM: 8, PerCycle: "4×4×4", Tag: Secondary},
		{Name: "Ampere", Arch: "sm_80", Instruction: "HMMA.16816", Atom: "mma.m16n8k16.f32.f16", CoresPerSM: 4, PerCycle: "8×4×8", Tag: Secondary},
		{Name: "Hopper", Arch: "sm_90", Instruction: "wgmma m64nNk16", Atom: "wgmma.m64n16k16.f32.f16.rs", CoresPerSM: 4, PerCycle: "8×4×16", Tag: Secondary},
	}
	for i := range list {
		g := &list[i]
		var m, n, k int
		if _, err := fmt.Sscanf(g.PerCycle, "%d×%d×%d", &m, &n, &k); err != nil {
			return nil, fmt.Errorf("volta: %q: %w", g.PerCycle, err)
		}
		g.PerSM = m * n * k * g.CoresPerSM
		a, err := arch.FindAtom(g.Atom)
		if err != nil {
			return nil, fmt.Errorf("volta: %w", err)
		}
		if g.Count == 0 {
			g.Count = float64(Size*Size*Size) / float64(a.M*a.N*a.K)
		}
		bytes := func(operand string) int {
			o, ok := a.Operand(operand)
			if !ok || o.Layout.Replicas() == a.Lanes {
				return 0 // no lane's own: read from shared memory
			}
			return 2 * Size * Size * o.Layout.Replicas()
		}
		g.BytesA, g.BytesB = bytes("A"), bytes("B")
	}
	return list, nil
}
