// Package exercise asks questions about the machines of gpu/model and grades the
// answers with them: the models make the question, know what is right, and say what
// a wrong answer would mean. A seed picks the question, so that the same one can be
// asked again, and another one to each student.
//
// Kinds of layouts: [Holder] (what a thread holds, or where an element is), [Product]
// (what products and quotients equal), [Fragment] (operands of matrix instructions),
// [Bits] (packed elements in bytes). Of programs: [Prints] (what one prints),
// [Conflicts] (what an access to shared memory takes), [Pipeline] (when a loop with
// copies ahead is done). Of fusions: [Indexing] (what an element is made of), [Simplify]
// (what an index expression equals), [Coalesce] (what an access to global memory moves). Of machines: [Owner] (which lane holds an element of a Volta
// fragment), [Swizzle] (place a swizzle so that two accesses have no conflicts), [Mask]
// (spread compute units so that a kernel ends early), [Mistake] (statements of
// well-known texts, one of which each is wrong).
package exercise

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// Kind is a kind of question.
type Kind struct {
	Name string
	Doc  string
	make func(r *rand.Rand) (*Question, error)
}

// The names of the kinds.
const (
	Owner   = "owner"
	Swizzle = "swizzle"
	Mask    = "mask"
	Mistake = "mistake"

	Holder    = "holder"
	Product   = "product"
	Fragment  = "fragment"
	Bits      = "bits"
	Prints    = "prints"
	Conflicts = "conflicts"
	Pipeline  = "pipeline"

	Indexing = "indexing"
	Simplify = "simplify"
	Coalesce = "coalesce"
)

// Kinds lists the kinds.
func Kinds() []Kind {
	return []Kind{
		{Owner, "which lanes hold an element of a Volta fragment, or what a lane's register holds", newOwner},
		{Swizzle, "a swizzle with which two accesses to a tile have no bank conflicts", newSwizzle},
		{Mask, "compute units of an AMD GPU, spread so that a kernel ends as early as it can", newMask},
		{Mistake, "find the mistake in a statement that texts about these machines make", newMistake},
		{Holder, "which element a thread of a layout holds, or which thread and slot hold an element", newHolder},
		{Product, "what a product or a quotient of two layouts equals", newProduct},
		{Fragment, "which lane holds an element of an operand of mma, and in which slot", newFragment},
		{Bits, "in which bytes a packed element lies, or what value its bits have", newBits},
		{Prints, "what a small program prints", newPrints},
		{Conflicts, "how many wavefronts an access of a warp to shared memory takes", newConflicts},
		{Pipeline, "when a loop that copies tiles ahead into stages is done", newPipeline},
		{Indexing, "which element of its parameter an element of a fusion is made of", newIndexing},
		{Simplify, "what an index expression equals within its ranges", newSimplify},
		{Coalesce, "how many sectors of global memory an access of a warp moves", newCoalesce},
	}
}

// Question is one question. What is right is not part of what is printed.
type Question struct {
	Kind    string   `json:"kind"`
	Seed    uint64   `json:"seed"`
	Text    string   `json:"text"`
	Choices []string `json:"choices,omitempty"` // answered by a letter, a for the first
	Form    string   `json:"form"`              // what an answer looks like

	answer string
	why    string // said where the answer is right, or asked for
	grade  func(answer string) (Verdict, error)
}

// Verdict is what an answer is worth. Say is a sentence that the model makes of it.
type Verdict struct {
	Right bool   `json:"right"`
	Say   string `json:"say"`
}

func (v Verdict) String() string {
	if v.Right {
		return wrap("right: " + v.Say)
	}
	return wrap("not yet: " + v.Say)
}

// New asks a question.
func New(kind string, seed uint64) (*Question, error) {
	var names []string
	for _, k := range Kinds() {
		if k.Name == kind {
			q, err := k.make(rand.New(rand.NewPCG(seed, 0x7e11)))
			if err != nil {
				return nil, fmt.Errorf("exercise: %s %d: %w", kind, seed, err)
			}
			q.Kind, q.Seed = kind, seed
			return q, nil
		}
		names = append(names, k.Name)
	}
	return nil, fmt.Errorf("exercise: no kind %.40q; there are %s", kind, strings.Join(names, ", "))
}

// MaxAnswer is the longest answer in bytes.
const MaxAnswer = 1000

// Grade grades an answer. An answer that cannot be read is not yet right, and the
// verdict says what an answer looks like.
func (q *Question) Grade(answer string) Verdict {
	answer = strings.TrimSpace(answer)
	if answer == "" {
		return Verdict{Say: "no answer; " + q.Form}
	}
	if len(answer) > MaxAnswer {
		return Verdict{Say: fmt.Sprintf("an answer of %d bytes; %s", len(answer), q.Form)}
	}
	v, err := q.grade(answer)
	if err != nil {
		return Verdict{Say: fmt.Sprintf("%v; %s", err, q.Form)}
	}
	return v
}

// Answer is a right answer, and why it is right.
func (q *Question) Answer() (answer, why string) { return q.answer, q.why }

// String is the question with its choices.
func (q *Question) String() string {
	var b strings.Builder
	b.WriteString(wrap(q.Text))
	for i, c := range q.Choices {
		fmt.Fprintf(&b, "\n  %c  %s", 'a'+i, c)
	}
	b.WriteString("\n" + wrap("("+q.Form+")"))
	return b.String()
}

// wrap breaks lines of sentences, for pages where a long line needs scrolling. What is
// indented, programs and tables, stays as it is.
func wrap(text string) string {
	const width = 96
	var b strings.Builder
	for line := range strings.Lines(text) {
		used := 0
		for i, word := range strings.SplitAfter(line, " ") {
			n := utf8.RuneCountInString(strings.TrimSpace(word))
			if i > 0 && used+n > width && !strings.HasPrefix(line, " ") {
				b.WriteByte('\n')
				used = 0
			}
			b.WriteString(word)
			used += utf8.RuneCountInString(word)
		}
	}
	return strings.ReplaceAll(b.String(), " \n", "\n")
}

// letter reads the letter of one of n choices.
func letter(answer string, n int) (int, error) {
	a := strings.ToLower(strings.Trim(answer, " .()"))
	if len(a) != 1 || int(a[0]-'a') >= n {
		return 0, fmt.Errorf("%.20q is none of the letters", answer)
	}
	return int(a[0] - 'a'), nil
}

// numbers reads whole numbers between anything else.
func numbers(answer string) []int {
	var out []int
	for _, f := range strings.FieldsFunc(answer, func(r rune) bool { return r < '0' || r > '9' }) {
		n := 0
		if _, err := fmt.Sscan(f, &n); err == nil && len(f) < 10 {
			out = append(out, n)
		}
	}
	return out
}
