package pane

import (
	"strconv"

	"github.com/tilus-lab/tilus-lab/gpu/model/exercise"
)

func exercisePane() Pane {
	var kinds []string
	for _, k := range exercise.Kinds() {
		kinds = append(kinds, k.Name)
	}
	return Pane{
		Name:  "exercise",
		Title: "Exercises",
		Doc:   "Questions that the models make and grade: predict the owner of an element, place a swizzle, spread compute units, find the mistake in a well-known statement. What is right stays on the server until you ask.",
		Params: []Param{
			{Name: "k", Title: "Kind", Kind: Choice, Default: kinds[0], Choices: kinds, Doc: "What is asked about."},
			{Name: "q", Title: "Question", Kind: Slider, Soon: true, Default: "7", Min: 1, Max: 200, Doc: "Which question of the kind."},
			{Name: "y", Title: "Your answer", Kind: Text, Soon: true, Hint: "your answer", Doc: "The question says what an answer looks like."},
			{Name: "s", Title: "Show the answer", Kind: Choice, Soon: true, Default: "no", Choices: []string{"no", "yes"}, Doc: "Shows what is right, and why."},
		},
		Render: func(v Values) (Result, error) {
			n, err := strconv.ParseUint(v["q"], 10, 32)
			if err != nil {
				return Result{}, err
			}
			q, err := exercise.New(v["k"], n)
			if err != nil {
				return Result{}, err
			}
			out := Result{Text: q.String(), Sentence: "Predict, then type your answer."}
			if v["y"] != "" {
				out.Sentence = upper(q.Grade(v["y"]).String()) + "."
			}
			if v["s"] == "yes" {
				answer, why := q.Answer()
				out.Text += "\n\nanswer: " + answer + "\n" + why
			}
			return out, nil
		},
	}
}

// upper begins a sentence.
func upper(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}
