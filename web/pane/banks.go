package pane

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

func banksPane() Pane {
	var profiles []string
	for _, p := range bank.Profiles() {
		profiles = append(profiles, p.Name)
	}
	return Pane{
		Name:  "banks",
		Title: "Banks and swizzles",
		Doc:   "What an access of a warp to shared memory costs, and why: as it is, and with the swizzle of the sliders. Pick an access, write one, or paint one lane by lane; then choose one of the placements that a search found.",
		Params: []Param{
			{Name: "k", Title: "Pick an access", Kind: Choice, Default: bankOwn, Choices: append([]string{bankOwn}, pickNames()...), Fills: "a", Texts: pickTexts(), Doc: "Well-known accesses, or the text beside it."},
			{Name: "a", Title: "Access", Kind: Text, Default: "ldmatrix.x4: lane%16*128 + lane/16*16",
				Doc: "Read where nothing is picked. KIND WIDTH: ADDRESSES in bytes, such as load 4: lane*128, store 16: lane%8*16 + lane/8*128, ldmatrix.x4: lane%16*128 + lane/16*16."},
			{Name: "of", Title: "Memory of", Kind: Choice, Default: profiles[0], Choices: profiles, Doc: "Whose shared memory: its banks, and the lanes that it serves together."},
			{Name: "b", Title: "B: bits XORed", Kind: Slider, Default: "3", Min: 0, Max: 5, Doc: "Bits of Sw<B,M,S> that take part; 0 is no swizzle."},
			{Name: "m", Title: "M: 2^M bytes stay", Kind: Slider, Default: "4", Min: 0, Max: 7, Doc: "2^M bytes stay together."},
			{Name: "s", Title: "S: from how far above", Kind: Slider, Default: "3", Min: 1, Max: 7, Doc: "How far above the bits lie that are XORed onto them."},
			{Name: "r", Title: "Row, bytes", Kind: Slider, Default: "128", Min: 4, Max: 1024, Doc: "Bytes of a row of the tile: for painting, and for the search over paddings."},
			{Name: "v", Title: "Show", Kind: Choice, Default: bankCounts, Choices: []string{bankCounts, bankPaint, bankSolve}, Doc: "Banks before and after; the tile, where choosing a cell gives it to the next lane or takes it away; the placements without conflicts."},
		},
		Render: renderBanks,
	}
}

func renderBanks(v Values) (Result, error) {
	p, err := bank.FindProfile(v["of"])
	if err != nil {
		return Result{}, located(err, "of", v["of"])
	}
	num := map[string]int{}
	for _, name := range []string{"b", "m", "s", "r"} {
		if num[name], err = strconv.Atoi(v[name]); err != nil {
			return Result{}, err
		}
	}
	text := v["a"]
	for _, x := range picks() {
		if x.name == v["k"] {
			text = x.text
		}
	}
	a, err := bank.ParseAccess(text, p, at("a"))
	if err != nil {
		return Result{}, placed(err, "a", v["a"])
	}
	before, err := bank.Count(p, a)
	if err != nil {
		return Result{}, located(err, "a", v["a"])
	}
	pic, err := layoutviz.Banks(before, v.look())
	if err != nil {
		return Result{}, err
	}
	out := Result{Pictures: []Picture{{Name: "as it is", Picture: pic}}, Sentence: before.Say()}
	if num["b"] > 0 {
		s, err := layout.NewSwizzle(num["b"], num["m"], num["s"])
		if err != nil {
			return Result{}, diag.List{{Pos: at("s"), Code: "Pane.E23", Msg: err.Error(), Help: "S is at least B, so that the bits do not overlap"}}
		}
		moved := a
		moved.Addrs = append([]int(nil), a.Addrs...)
		for i, x := range moved.Addrs {
			if x != bank.Inactive {
				moved.Addrs[i] = s.Apply(x)
			}
		}
		after, err := bank.Count(p, moved)
		if err != nil {
			return Result{}, diag.List{{Pos: at("m"), Code: "Pane.E23", Msg: fmt.Sprintf("under %s this is no access that the hardware makes: %v", s, err), Help: "keep as many bytes together as a lane accesses"}}
		}
		pic, err := layoutviz.Banks(after, v.look())
		if err != nil {
			return Result{}, err
		}
		for j := range pic.IDs {
			pic.IDs[j].ID = "w." + pic.IDs[j].ID // keys stay: a lane is the same in both
		}
		out.Pictures = append(out.Pictures, Picture{Name: "under " + s.String(), Picture: pic})
		out.Sentence = fmt.Sprintf("%s as it is, %d under %s, %d at best. %s", counted(before.Wavefronts, "wavefront"), after.Wavefronts, s, before.Ideal, after.Say())
	}
	switch v["v"] {
	case bankPaint:
		p := paint(a, p.Lanes, num["r"], v.look())
		out.Pictures = append([]Picture{p}, out.Pictures...)
	case bankSolve:
		r, err := search(p, a, num["r"])
		if err != nil {
			return Result{}, diag.List{{Pos: at("a"), Code: "Pane.E23", Msg: "the search does not apply: " + err.Error()}}
		}
		pic, err := solutions(r, v)
		if err != nil {
			return Result{}, err
		}
		out.Pictures = append([]Picture{pic}, out.Pictures...)
	}
	out.Text = solve(p, a, num["r"])
	return out, nil
}

func search(p bank.Profile, a bank.Access, row int) (*bank.Result, error) {
	return bank.Search(p, []bank.Pattern{{Name: "this access", Access: a}}, bank.Space{RowBytes: row, Level: bank.LevelOne})
}

// solve is what a search for the best placement finds, in words.
func solve(p bank.Profile, a bank.Access, row int) string {
	r, err := search(p, a, row)
	if err != nil {
		return "The search does not apply: " + err.Error() + "."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "best        %s: %s, as it is %d, one for each phase %d\n", r.Best, counted(r.Wavefronts, "wavefront"), r.Identity, r.Ideal)
	for _, l := range r.Levels {
		if len(l.Ties) == 0 {
			fmt.Fprintf(&b, "%-11s %s\n", l.Name, l.Note)
			continue
		}
		var ties []string
		for i, t := range l.Ties {
			if i == 4 {
				ties = append(ties, fmt.Sprintf("and %d more", len(l.Ties)-i))
				break
			}
			ties = append(ties, t.String())
		}
		fmt.Fprintf(&b, "%-11s %s at best, of %d tried: %s\n", l.Name, counted(l.Best, "wavefront"), l.Tried, strings.Join(ties, ", "))
	}
	if r.Proof != "" {
		fmt.Fprintf(&b, "proof       %s\n", r.Proof)
	}
	if r.TMASays != "" {
		fmt.Fprintf(&b, "TMA         %s\n", r.TMASays)
	}
	return b.String()
}

// counted is a number of things where the number matters.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return plural(n, what)
}

// placed puts the problems of a parameter's text where they are in it.
func placed(err error, param, value string) error {
	var list diag.List
	if !errors.As(err, &list) {
		return located(err, param, value)
	}
	for i := range list {
		list[i].Pos.File, list[i].End.File = param, param
	}
	return list
}
