package cell

import "github.com/tilus-lab/tilus-lab/vm/ir"

// Rules are the numbered rules of cells. Messages say the particulars.
var Rules = []ir.RuleDoc{
	{Code: "Cell.E1", Text: "Cells can use all of Go but for the few forms that the interpreter of cells cannot run.", Why: "The interpreter would give a wrong answer without a word; a refusal is better."},
	{Code: "Cell.E2", Text: "Some generic functions of the standard library are not available in cells; write a small function of your own."},
	{Code: "Cell.E3", Text: "The interpreter of cells cannot tell some types apart in an interface; give the interface a method that the type has, or compare a field."},
	{Code: "Cell.E4", Text: "Inside a loop over a function, cells cannot goto a label outside of it; collect into a slice first."},
	{Code: "Cell.E5", Text: "Cells import the standard library, and of Tilus Lab the packages that %help lists."},
	{Code: "Cell.E6", Text: "%%tile NAME binds the program below it to the Go variable NAME."},
	{Code: "Cell.E7", Text: "Lines that begin with % are magics; %help lists them."},
	{Code: "Cell.E8", Text: "The library does not see methods such as MarshalJSON, Format and String of types that cells declare where these are inside of other values, nor names of types that are no structs; call the method yourself, give texts, use %+v.", Why: "The interpreter would silently answer for the structure of the type instead of the type."},
	{Code: "Cell.E9", Text: "The interpreter of cells could not run what is right Go; split the statement that the message names, or move it into a function."},
	{Code: "Cell.E10", Text: "A type declared in cells cannot be the key of a map whose keys are an interface of the library, nor can a struct or array with an interface in it be one; use the type itself, any, or a text as the key type."},
	{Code: "Cell.E11", Text: "A cell has at most 1 MiB, 256 open brackets, and a syntax tree 2000 levels deep.", Why: "Deeper code would end the worker by its stack, and all variables with it."},
	{Code: "Cell.E12", Text: "A magic gets what its line in %help says."},
	{Code: "Cell.E13", Text: "A %%native cell is Go that the toolchain compiles: with the standard library, and with the variables of the session that it mentions, which are numbers, strings, or arrays, slices and maps of them."},
}
