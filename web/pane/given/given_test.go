package given

import "testing"

// A tensor that is read has no more numbers than elements; whatever else begins like one gets a located error.
func FuzzReadArray(f *testing.F) {
	for _, text := range []string{"f16[2, 2] = 1 2 3 4", "u4[3]=1 2 …", "bool[] = true", "f16[99999999999] = 1", "f16[0]=", "x[1] = 2", "f32[2] = 1 1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, is, err := ReadArray("a", text)
		if err == nil && is && (len(a.Values) > a.Size || len(a.Values) > MaxElements) {
			t.Fatalf("%q: %d numbers for %d elements", text, len(a.Values), a.Size)
		}
		if err != nil && !is {
			t.Fatalf("%q is no tensor: %v", text, err)
		}
	})
}
