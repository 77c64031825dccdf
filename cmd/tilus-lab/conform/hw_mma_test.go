package conform

import "testing"

func TestArithmetic(t *testing.T) {
	for text, want := range map[string]float64{"-(1-2^-24)": -1 + 0x1p-24, "1.5*2^-23": 1.5 * 0x1p-23, "(1-2^-11)^2": (1 - 0x1p-11) * (1 - 0x1p-11), "-2": -2} {
		if got, err := arithmetic(text); err != nil || got != want {
			t.Errorf("%s is %x, %v; want %x", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1-", "(1", "x"} {
		if v, err := arithmetic(text); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
}

func TestFormula(t *testing.T) {
	row, col, err := rowAndColumn("row = 8*(r mod 2)+l/4, col = 8*(r div 2)+2*(l mod 4)+h", "r", "l", "h")
	if err != nil {
		t.Fatal(err)
	}
	if r, c := row(3, 13, 1), col(3, 13, 1); r != 11 || c != 11 {
		t.Errorf("(%d, %d)", r, c)
	}
	for _, text := range []string{"row = l, col =", "row = (l, col = l", "row = x, col = l", "row = l l, col = l", "l, l", "row = l mod 0, col = l"} {
		if _, _, err := rowAndColumn(text, "l"); err == nil {
			t.Errorf("%q reads", text)
		}
	}
}
