package arch

// nvidiaAtoms is NVIDIA's part of the catalogue.
func nvidiaAtoms() []Atom { return nil }
