package array

import "github.com/tilus-lab/tilus-lab/vm/diag"

const (
	codeSyntax   = "Array.N1"
	codeName     = "Array.N2"
	codeType     = "Array.N3"
	codeShape    = "Array.N4"
	codeHeader   = "Array.N5"
	codeFileType = "Array.N6"
	codeShort    = "Array.N7"
	codeBytes    = "Array.N8"
	codeNumber   = "Array.N9"
	codeTensor   = "Array.N10"
)

// Rules are the numbered rules of arrays, their generators and files. Messages say
// the particulars.
var Rules = []diag.Rule{
	{Code: codeSyntax, Text: "A generator is written kind:type[sizes] with options name=number behind colons, such as rand:f16[64, 32]:seed=1."},
	{Code: codeName, Text: "Generators and their options have fixed names; the message lists them."},
	{Code: codeType, Text: "The type of a generated array is an element type."},
	{Code: codeShape, Text: "Sizes are whole numbers from 0, an array has at most 32 dimensions and 2 GiB."},
	{Code: codeHeader, Text: "A .npy file begins with a complete header of format 1.0, 2.0 or 3.0, a .safetensors file with the size of its header and that, in JSON."},
	{Code: codeFileType, Text: "The type of a file's elements is one that Tilus Lab has, or is named behind the file, FILE.npy:bf16."},
	{Code: codeShort, Text: "A file holds as many bytes as its header says."},
	{Code: codeBytes, Text: "A type and shape named behind a file, FILE.npy:i6[64, 32], take exactly the bytes of the file."},
	{Code: codeNumber, Text: "The numbers given to a generator fit its type and each other."},
	{Code: codeTensor, Text: "An array of a .safetensors file is named behind it, FILE.safetensors:NAME; the name may be left out where there is one."},
}
