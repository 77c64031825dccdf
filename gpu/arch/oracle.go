package arch

import (
	"slices"
	"strings"
)

// Oracles names what the layouts of an instruction were checked against, besides
// covering their shapes: sources that were written down without looking at the
// layouts. The tests of this package iterate over these very sets.
func (a Atom) Oracles() []string {
	var all []string
	if a.byManual() {
		all = append(all, "PTX manual's formulas")
	}
	if a.byCuTe() {
		all = append(all, "CuTe")
	}
	if a.Family == "wmma" && len(a.Operands) > 0 && a.Operands[0].In != Unspecified {
		all = append(all, "decoded sm_70 code")
	}
	if strings.Contains(a.Source, "amd_matrix_instruction_calculator") {
		all = append(all, "AMD's calculator")
	}
	return all
}

// byManual reports whether the tests hold every operand, but for scales, against
// formulas of the PTX manual.
func (a Atom) byManual() bool {
	switch a.Family {
	case "mma", "mma.sp":
		return a.Lanes == LanesPerWarp
	case "wgmma", "tcgen05.ld", "tcgen05.st":
		return true
	case "ldmatrix", "stmatrix":
		return strings.Contains(a.Name, ".m8n8.")
	}
	return false
}

// byCuTe reports whether the tests hold the layouts against CuTe's notation.
func (a Atom) byCuTe() bool {
	if a.Vendor != "nvidia" || slices.Contains([]string{"tcgen05.cp", "movmatrix", "copy"}, a.Family) {
		return false
	}
	return slices.ContainsFunc(a.Operands, func(o Operand) bool { return o.CuTe != "" })
}

// On reports whether a machine of that name executes the instruction. Names of
// NVIDIA's generations with the suffix a are that machine with all it has.
func (a Atom) On(machine string) bool {
	if len(a.Archs) > 0 {
		return slices.Contains(a.Archs, machine)
	}
	if a.Vendor != "nvidia" {
		return a.Since == machine
	}
	return slices.Contains(nvidiaGenerations, machine) && slices.Index(nvidiaGenerations, a.Since) <= slices.Index(nvidiaGenerations, machine)
}

// OracleTests names the tests of this package that hold the instruction against
// [Atom.Oracles]; TestCatalogueLoads alone where there are none.
func (a Atom) OracleTests() []string {
	var all []string
	for _, o := range a.Oracles() {
		switch {
		case o == "CuTe":
			all = append(all, "TestCuTeTextsAgreeWithLayouts")
		case o == "AMD's calculator":
			all = append(all, "TestAMDFormulas")
		case o == "decoded sm_70 code":
			all = append(all, "TestFragmentsOfVolta")
		case a.Family == "wgmma", strings.HasPrefix(a.Family, "tcgen05"):
			all = append(all, "TestFragmentsOfWGMMA")
		case strings.HasSuffix(a.Family, "matrix"):
			all = append(all, "TestMatrixCopiesAgainstTheManual")
		default:
			all = append(all, "TestFragmentsOfMMAAgainstTheManual")
		}
	}
	if all == nil {
		all = []string{"TestCatalogueLoads"}
	}
	return all
}
