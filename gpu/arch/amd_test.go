package arch

import "testing"

// TestAMDRows loads the rows of each generation and checks each as the catalogue
// does.
func TestAMDRows(t *testing.T) {
	count := map[string]int{}
	for _, in := range AMDInstructions() {
		count[in.Gen]++
	}
	for gen, want := range map[string]int{"CDNA1": 20, "CDNA2": 27, "CDNA3": 46, "RDNA3": 6, "RDNA4": 22} {
		if count[gen] != want {
			t.Errorf("%s has %d instructions, want %d", gen, count[gen], want)
		}
	}
	if _, err := newCatalogue(amdAtoms()); err != nil {
		t.Error(err)
	}
}
