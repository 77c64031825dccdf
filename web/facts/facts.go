// Package facts is what tests wrote down of what is built, proved and measured, for
// the parts of the product that show it: `tilus-lab status` and the explorer. Both
// files are written by `go test ./tests/status -update`.
package facts

import _ "embed"

// Status is the status matrix as JSON: per instruction and column how far each part is with it.
//
//go:embed status.json
var Status []byte

// Benchmarks are the recorded times of tests/record as JSON: a list of [Chart].
//
//go:embed benchmarks.json
var Benchmarks []byte

// Chart is one comparison: a value of each series for each bar.
type Chart struct {
	Name   string   `json:"name"`
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`   // of the values
	Better string   `json:"better"` // "more" or "less"
	Series []string `json:"series"`
	Bars   []Bar    `json:"bars"`
	From   string   `json:"from"`            // file, machine and commit
	Notes  []string `json:"notes,omitempty"` // what its names mean, a line each
	Roof   *Roof    `json:"roof,omitempty"`
	// Spread makes a chart one of points: the values of a bar are its x and its y, and bars
	// of one group are one series. At one x, the greatest y of a group is named where it is
	// at least so many times the least.
	Spread float64 `json:"spread,omitempty"`
	// Bound says that the last series is of what nothing can be better than.
	Bound bool `json:"bound,omitempty"`
}

// Roof makes a chart a roofline: the values of a bar are operations for each byte and
// 10¹² operations a second, and bars of one group are one series.
type Roof struct {
	Memory float64 `json:"memory"` // 10¹² bytes a second
	Top    float64 `json:"top"`    // 10¹² operations a second; 0 where nobody says
	Said   string  `json:"said"`   // where both are from
}

// Bar is one line of a chart; 0 is a value that nobody measured.
type Bar struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
	Group  string    `json:"group,omitempty"`
}
