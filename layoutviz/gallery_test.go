package layoutviz

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

var update = flag.Bool("update", false, "rewrite testdata/gallery.txtar")

const galleryFile = "testdata/gallery.txtar"

// TestGallery holds every picture of the gallery against its text: what it says, and
// digests of what it looks like. Run with -update, and look at the pictures that
// `tilus-lab gallery DIR` draws, when a digest changes.
func TestGallery(t *testing.T) {
	var got txtar.Archive
	got.Comment = []byte("The pictures of layoutviz.Gallery as text. Written by go test ./layoutviz -run Gallery -update.\n")
	for _, x := range Gallery() {
		p, err := x.Draw(Options{})
		if err != nil {
			t.Errorf("%s: %v", x.Name, err)
			continue
		}
		checkPicture(t, x.Name, p)
		again, err := x.Draw(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(p.SVG, again.SVG) {
			t.Errorf("%s: two drawings differ", x.Name)
		}
		text, err := Export(p, "txt")
		if err != nil {
			t.Errorf("%s: %v", x.Name, err)
			continue
		}
		// Large grids say the beginnings of their first lines.
		lines := strings.SplitAfter(string(text), "\n")
		for i, l := range lines {
			if r := []rune(l); i > 1 && len(r) > 200 {
				lines[i] = string(r[:200]) + "…\n"
			}
		}
		if len(lines) > 60 {
			lines = append(lines[:60], fmt.Sprintf("… %d more lines\n", len(lines)-60))
		}
		body := fmt.Sprintf("%d×%d, %d elements, SVG %s\n%s", p.Width, p.Height, len(p.IDs), fmt.Sprintf("%x", sha256.Sum256(p.SVG))[:16], strings.Join(lines, ""))
		got.Files = append(got.Files, txtar.File{Name: x.Name, Data: []byte(body)})
	}
	text := txtar.Format(&got)
	if *update {
		if err := os.WriteFile(galleryFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(galleryFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(text), "\n")); diff != "" {
		t.Errorf("pictures differ from %s (-want +got):\n%.3000s\nlook at them (tilus-lab gallery DIR), then run with -update", galleryFile, diff)
	}
}

// checkPicture holds what every picture promises.
func checkPicture(t *testing.T, name string, p Picture) {
	t.Helper()
	if !bytes.Contains(p.SVG, []byte(`role="img"`)) || p.Title == "" || p.Desc == "" {
		t.Errorf("%s: no role, title or description", name)
	}
	ids := map[string]bool{}
	for _, e := range p.IDs {
		if e.ID != "" && ids[e.ID] {
			t.Errorf("%s: ID %s twice", name, e.ID)
		}
		ids[e.ID] = true
		if e.X < 0 || e.Y < 0 || e.X+e.W > p.Width || e.Y+e.H > p.Height {
			t.Errorf("%s: %s lies outside: %+v of %d×%d", name, e.ID, e, p.Width, p.Height)
		}
	}
	// One path for each colour, one text for each row and look; nothing beyond the
	// sheet; no words over each other.
	fills := map[string]bool{}
	type row struct {
		y      int
		size   float64
		color  string
		anchor string
		bold   bool
	}
	rows := map[row]bool{}
	type span struct {
		x1, x2 int
		s      string
	}
	onLine := map[int][]span{}
	for _, it := range p.scene.Items {
		switch it := it.(type) {
		case scene.Fills:
			if fills[it.Color] && it.Color != p.scene.Paper {
				t.Errorf("%s: two paths of colour %s", name, it.Color)
			}
			fills[it.Color] = true
		case scene.Text:
			k := row{it.Y, it.Size, it.Color, it.Anchor, it.Bold}
			if rows[k] {
				t.Errorf("%s: two texts in row %v", name, k)
			}
			rows[k] = true
			for _, w := range it.Words {
				n := scene.Width(w.S, it.Size)
				x := map[string]int{scene.Start: w.X, scene.Middle: w.X - n/2, scene.End: w.X - n}[it.Anchor]
				if x < 0 || x+n > p.Width+1 || it.Y > p.Height {
					t.Errorf("%s: %q at (%d, %d) is cut off: %d×%d", name, w.S, x, it.Y, p.Width, p.Height)
				}
				onLine[it.Y] = append(onLine[it.Y], span{x, x + n, w.S})
			}
		}
	}
	for y, list := range onLine {
		for i, a := range list {
			for _, b := range list[i+1:] {
				if a.x1 < b.x2-1 && b.x1 < a.x2-1 {
					t.Errorf("%s: %q and %q overlap in row %d", name, a.s, b.s, y)
					return
				}
			}
		}
	}
	if len(p.IDs) <= 1200 {
		readable(t, name, p)
	}
}

// Every form can be had of every picture, twice the same, and says what it should.
func TestFormats(t *testing.T) {
	for _, x := range Gallery() {
		p, err := x.Draw(Options{Palette: "grey", Theme: "print"})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Formats() {
			if f.Name == "png" && p.Width*p.Height > 1<<20 {
				continue // slow, and TestPNG has one
			}
			out, err := Export(p, "some.file."+f.Name)
			if err != nil {
				t.Errorf("%s: %v", x.Name, err)
				continue
			}
			if p.Width*p.Height > 1<<20 {
				// Large pictures differ from small ones in nothing but time.
			} else if again, _ := f.Encode(p); !bytes.Equal(out, again) {
				t.Errorf("%s: two encodings as %s differ", x.Name, f.Name)
			}
			ok := len(out) > 0
			switch f.Name {
			case "pdf":
				ok = bytes.HasPrefix(out, []byte("%PDF-")) && bytes.Contains(out, []byte("FontFile2"))
			case "tikz":
				ok = bytes.Contains(out, []byte("\\begin{tikzpicture}")) && bytes.HasSuffix(out, []byte("\\end{document}\n")) &&
					bytes.Count(out, []byte("{")) == bytes.Count(out, []byte("}"))
				if _, body, _ := bytes.Cut(out, []byte("\\begin")); bytes.ContainsFunc(body, func(r rune) bool { return r > 0x7f }) {
					t.Errorf("%s: the TikZ form has letters that TeX does not know", x.Name)
				}
			case "json":
				var doc struct {
					Elements []jsonElement
					Grids    []jsonGrid
				}
				ok = json.Unmarshal(out, &doc) == nil && len(doc.Elements) > 0 && len(doc.Grids) > 0
			case "csv":
				rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
				ok = err == nil && len(rows) > 1
			case "md", "txt":
				ok = bytes.Contains(out, []byte("0"))
			}
			if !ok {
				t.Errorf("%s as %s: %.200s", x.Name, f.Name, out)
			}
		}
	}
	if _, err := Export(Picture{}, "pdf"); err == nil {
		t.Error("an empty picture has a PDF")
	}
	p, err := Tensor(acc, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Export(p, "a.pmg"); err == nil || !strings.Contains(err.Error(), "did you mean png?") {
		t.Errorf("unknown form: %v", err)
	}
}

// The CSV has every holder of a replicated layout.
func TestCSVReplicas(t *testing.T) {
	l := samples["replicated"]
	p, err := Tensor(l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := Export(p, "csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(rows)-1 != l.Threads()*l.Slots() {
		t.Errorf("%d lines for %d places: %v", len(rows)-1, l.Threads()*l.Slots(), err)
	}
	for _, r := range rows[1:] {
		var thread, slot, a, b int
		fmt.Sscan(strings.Join(r[1:5], " "), &thread, &slot, &a, &b)
		if at := l.Index(thread, slot); at[0] != a || at[1] != b {
			t.Errorf("line %v, but thread %d slot %d holds %v", r, thread, slot, at)
		}
	}
}

// Every letter of every picture is in the font of PNG and PDF.
func TestLetters(t *testing.T) {
	f, err := opentype.Parse(gomono.TTF)
	if err != nil {
		t.Fatal(err)
	}
	var buf sfnt.Buffer
	seen := map[rune]bool{}
	for _, x := range Gallery() {
		p, err := x.Draw(Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range p.scene.Items {
			if text, ok := it.(scene.Text); ok {
				for _, w := range text.Words {
					for _, r := range w.S {
						if seen[r] {
							continue
						}
						seen[r] = true
						if i, err := f.GlyphIndex(&buf, r); err != nil || i == 0 {
							t.Errorf("%s: the font has no %q", x.Name, r)
						}
					}
				}
			}
		}
	}
}
