package lab

import (
	"github.com/tilus-lab/tilus-lab/gpu/model/exercise"
)

// Question is a question of a model, with Grade(answer) and Answer().
type Question = exercise.Question

// Exercise asks a question of one of exercise.Kinds: "holder" (who holds an element
// of a layout), "product" (what products of layouts equal), "fragment" (operands of
// mma), "bits" (packed elements), "prints" (what a program prints), "conflicts" (what an
// access to shared memory takes), "pipeline" (when a loop is done), "indexing" (what an element of a fusion is made of),
// "simplify" (what an index expression equals), "coalesce" (sectors of an access), "owner" (fragments
// of Volta), "swizzle" (place one without bank conflicts), "mask" (spread compute units)
// or "mistake" (in well-known statements). The seed picks it.
//
//	q, err := lab.Exercise("owner", 7)
//	lab.Show(q, err)
//	lab.Show(q.Grade("3, 11"))
func Exercise(kind string, seed int) (*Question, error) { return exercise.New(kind, uint64(seed)) }

// Mistake asks about one statement, by its name: those of exercise.Claims.
func Mistake(name string) (*Question, error) { return exercise.NewMistake(name) }
