package text

// otherNames are instructions of Tilus that are none here, and what stands for them.
var otherNames = map[string]string{
	"LoadGlobalGeneric":              "an index for each element is what LoadGlobalGather takes; masks go through Where, and dims of LoadGlobal permutes",
	"StoreGlobalGeneric":             "an index for each element is what StoreGlobalScatter takes",
	"CopyAsyncGeneric":               "it is what CopyAsync becomes in lowering there; ours lowers to thread code at once",
	"Nop":                            "a program is a list of statements, and one that does nothing need not be written",
	"WgmmaMmaSS":                     "WgmmaDot with a shared tensor a",
	"WgmmaMmaRS":                     "WgmmaDot with a register tensor a",
	"ArriveExpectTxMulticastBarrier": "ArriveExpectTxBarrier with rank, once for each block",
	"ArriveExpectTxRemoteBarrier":    "ArriveExpectTxBarrier with rank",
	"FenceProxyAsyncRelease":         "FenceProxyAsync orders both ways",
	"MapSharedAddr":                  "addresses are no values here: rank of LoadShared, StoreShared and ArriveBarrier names the block",
}

// Instead says what stands here for an instruction that Tilus has under a name that is
// none of ours, or "".
func Instead(name string) string { return otherNames[name] }
