package lab
import ("testing";"fmt")
func TestTry(t *testing.T) {
	p, err := Load("matmul_scaled")
	if err != nil { t.Fatal(err) }
	args := []any{"../../notebooks/data/embeddings.npy", "rand:u8[24,48,96]", "pow2:f16[6,384]", "zeros:f16[16,384]", 16, 384, 384}
	for _, d := range []string{"interp","sim"} {
		r, err := RunOn(d, p, args...)
		if err != nil { t.Fatal(err) }
		fmt.Println(r)
	}
	fmt.Println(Compare(p, args...))
	c, err := Lower(p, args...)
	if err != nil { t.Fatal(err) }
	fmt.Println(c.Of("Cast","Dot"), c.Count("mma.sync","ld.global","fma"))
	fmt.Println(Machine())
}
