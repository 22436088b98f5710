package expr

import (
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// costs charges a call for what it reads and makes, so that CostLimit bounds time and memory alike.
type costs struct{}

// CallCost implements CEL's estimator: one, one for every item and one for every ten bytes.
func (costs) CallCost(_, _ string, args []ref.Val, result ref.Val) *uint64 {
	cost := 1 + weight(result)
	for _, arg := range args {
		cost += weight(arg)
	}
	return &cost
}

func weight(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) / 10
	case traits.Lister:
		if n, ok := v.Size().(types.Int); ok {
			return uint64(n)
		}
	case object:
		return uint64(len(v))
	}
	return 0
}
