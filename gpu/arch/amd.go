package arch

// amdAtoms is AMD's part of the catalogue.
func amdAtoms() []Atom { return nil }
