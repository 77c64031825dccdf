package memo

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"unsafe"
)

func TestRead(t *testing.T) {
	var texts Texts[int]
	parsed := 0
	parse := func(text string) (int, error) {
		parsed++
		return strconv.Atoi(text)
	}
	for _, c := range []struct {
		text   string
		want   int
		fails  bool
		parsed int
	}{
		{"7", 7, false, 1}, {"7", 7, false, 1}, {"8", 8, false, 2},
		{"x", 0, true, 3}, {"x", 0, true, 4}, // an error is found again
		{"7", 7, false, 4},
	} {
		v, err := texts.Read(c.text, parse)
		if v != c.want || (err != nil) != c.fails || parsed != c.parsed {
			t.Errorf("%q: %d, %v after %d readings, want %d after %d", c.text, v, err, parsed, c.want, c.parsed)
		}
	}
	texts.Put("x", 9)
	if v, err := texts.Read("x", func(string) (int, error) { return 0, errors.New("parsed") }); v != 9 || err != nil {
		t.Errorf("what was put is %d, %v", v, err)
	}
}

// Texts of a server's whole life may not fill memory, nor hold the programs they stand in.
func TestBounds(t *testing.T) {
	var texts Texts[int]
	program := "spatial(8, 4)" + string(make([]byte, 1<<20))
	texts.Put(program[:13], 0)
	for key := range texts.by {
		if unsafe.StringData(key) == unsafe.StringData(program) {
			t.Error("a text holds the program that it stands in")
		}
	}
	for i := range 3*most + 5 {
		texts.Put(strconv.Itoa(i), i)
		if len(texts.by) > most {
			t.Fatalf("%d texts are remembered", len(texts.by))
		}
	}
	if v, err := texts.Read(strconv.Itoa(3*most+4), nil); v != 3*most+4 || err != nil {
		t.Errorf("the last text is %d, %v", v, err)
	}
}

func TestTogether(t *testing.T) {
	var texts Texts[int]
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2 * most {
				text := strconv.Itoa((i + g) % (most + 9))
				if v, err := texts.Read(text, strconv.Atoi); err != nil || strconv.Itoa(v) != text {
					t.Errorf("%q is %d, %v", text, v, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
